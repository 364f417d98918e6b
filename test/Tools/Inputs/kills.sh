#!/bin/bash
# kills.sh ROUNDS RANKS COMMAND...
#
# Runs a command that would run for minutes on RANKS processes, and kills one of
# them with SIGKILL at a moment within two seconds of its start. Each job has to
# end within 10 s, with a failure, nobody left, and what it says names the rank.
# Options of mpirun are in MPIRUN_OPTIONS; seeds in SEED.
rounds=$1 ranks=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
RANDOM=${SEED:-1}
slowest=0

now() { date +%s%3N; }
wrong() {
  echo "round $round, rank $rank killed after $wait ms: $*"
  tail -n 40 "$folder/said"
  exit 1
}

for ((round = 1; round <= rounds; ++round)); do
  rm -f "$folder"/*
  rank=$((RANDOM % ranks)) wait=$((RANDOM % 2000))
  # Each rank says its process; the command takes its place.
  timeout -s KILL 60 mpirun --allow-run-as-root --oversubscribe $MPIRUN_OPTIONS -n "$ranks" \
    sh -c 'echo $$ >"$0/$OMPI_COMM_WORLD_RANK"; exec "$@"' "$folder" "$@" \
    >"$folder/said" 2>&1 </dev/null &
  job=$!
  for ((i = 0; i < 500; ++i)); do
    [ "$(cat "$folder"/[0-9]* 2>/dev/null | wc -l)" -eq "$ranks" ] && break
    sleep 0.02
  done
  # Ranks that wait inside MPI for others to start are mpirun's to end.
  for ((i = 0; i < 500; ++i)); do
    [[ $MPIRUN_OPTIONS = *--enable-recovery* ]] || break
    grep -q '^step 1/' "$folder/said" && break
    sleep 0.02
  done
  sleep "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
  start=$(now)
  kill -9 "$(cat "$folder/$rank")" || wrong "expected a rank to kill"
  wait "$job"
  code=$? took=$(($(now) - start))
  # Where mpirun does not end the other ranks, one of them says why it does; its
  # exit code is 0 all the same.
  if [[ $MPIRUN_OPTIONS = *--enable-recovery* ]]; then
    grep -q "error: .*rank $rank: expected a process that runs" \
      "$folder/said" || wrong "expected another rank's message"
    code=1
  fi
  [ "$code" -ne 0 ] || wrong "expected a failure, found exit code 0"
  [ "$took" -lt 10000 ] || wrong "expected an end within 10 s, found $took ms"
  grep -q "rank $rank\b" "$folder/said" || wrong "expected the rank's name"
  for ((i = 0; i < ranks; ++i)); do
    for ((j = 0; j < 100; ++j)); do
      kill -0 "$(cat "$folder/$i")" 2>/dev/null || continue 2
      sleep 0.02
    done
    wrong "expected rank $i to have ended"
  done
  [ "$took" -le "$slowest" ] || slowest=$took
done
echo "$rounds jobs ended, the slowest within $slowest ms"
