#!/bin/bash
# kills.sh ROUNDS RANKS COMMAND...
#
# Runs a command that would run for minutes on RANKS processes, and kills one of
# them with SIGKILL at a moment within two seconds of its start. All ranks have to
# end within 10 s, mpirun with a failure, and what it says names the rank.
# Options of mpirun are in MPIRUN_OPTIONS, the seed in SEED.
#
# Open MPI 4.1 may itself hang, all ranks ended and the rank named, where a rank
# dies inside MPI_Init. It is ended then, and counted.
rounds=$1 ranks=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
RANDOM=${SEED:-1}
slowest=0 lingering=0

now() { date +%s%3N; }
# Whether a process runs; one that has ended may wait for its parent.
runs() {
  local state
  state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) && [ "$state" != Z ]
}
wrong() {
  echo "round $round, rank $rank killed after $wait ms: $*"
  tail -n 40 "$folder/said"
  exit 1
}

for ((round = 1; round <= rounds; ++round)); do
  rm -f "$folder"/*
  rank=$((RANDOM % ranks)) wait=$((RANDOM % 2000))
  # Each rank says its process; the command takes its place.
  timeout -s KILL 60 mpirun --allow-run-as-root --oversubscribe \
    $MPIRUN_OPTIONS -n "$ranks" \
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
  for ((i = 0; i < ranks; ++i)); do
    process=$(cat "$folder/$i")
    while runs "$process"; do
      [ $(($(now) - start)) -lt 10000 ] ||
        wrong "expected rank $i to end within 10 s, found it running"
      sleep 0.01
    done
  done
  took=$(($(now) - start))
  for ((i = 0; i < 500; ++i)); do
    runs "$job" || break
    sleep 0.02
  done
  if runs "$job"; then
    grep -q '^step 1/' "$folder/said" && wrong "expected mpirun to end"
    pkill -9 -P "$job"
    lingering=$((lingering + 1))
  fi
  wait "$job" 2>/dev/null
  code=$?
  # Where mpirun does not end the other ranks, one of them says why it does; its
  # exit code is 0 all the same.
  if [[ $MPIRUN_OPTIONS = *--enable-recovery* ]]; then
    grep -q "error: .*rank $rank: expected a process that runs" \
      "$folder/said" || wrong "expected another rank's message"
    code=1
  fi
  [ "$code" -ne 0 ] || wrong "expected a failure, found exit code 0"
  grep -q "rank $rank\b" "$folder/said" || wrong "expected the rank's name"
  [ "$took" -le "$slowest" ] || slowest=$took
done
echo "$rounds jobs ended, the slowest within $slowest ms"
[ "$lingering" -eq 0 ] || echo "mpirun hung after $lingering of them"
