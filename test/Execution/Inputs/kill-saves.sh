#!/bin/sh
# kill-saves.sh TIMES STEP.so FLAGS...
#
# Kills mt-run at random moments while it saves after every step, TIMES times.
# What then lies in the folder has to be, to the last bit, what a run of so many
# steps saves in peace; a folder that was there may not be gone. Each run goes
# on from where the one before was killed; every tenth starts anew.
times=$1
step=$2
shift 2
wrong() {
  echo "$*"
  exit 1
}
stepOf() { sed -n 's/^  "step": \([0-9]*\),$/\1/p' "$1/trainer_state.json"; }

rm -rf saved .saved.saving reference-*
inSave=0 absent=0 newer=0 round=0
while [ $round -lt "$times" ]; do
  if [ $((round % 10)) -eq 0 ]; then rm -rf saved; fi
  # Counts this round's.
  rm -rf .saved.saving
  before=0
  resume=
  if [ -d saved ]; then
    before=$(stepOf saved)
    resume="--resume saved"
  fi
  # shellcheck disable=SC2086
  mt-run "$step" "$@" $resume --steps 1000000 --save saved --save-every 1 \
    >run.log 2>&1 &
  run=$!
  sleep "$(od -An -N2 -tu2 /dev/urandom | awk '{ print 0.05 + $1 / 65536 * 0.45 }')"
  kill -9 $run || wrong "expected a run to kill, found: $(cat run.log)"
  wait $run 2>/dev/null
  round=$((round + 1))
  if [ -d .saved.saving ]; then inSave=$((inSave + 1)); fi
  if [ ! -d saved ]; then
    [ "$before" -eq 0 ] || wrong "round $round: the folder is gone"
    absent=$((absent + 1))
    continue
  fi
  after=$(stepOf saved)
  [ "$after" -ge "$before" ] || wrong "round $round: the folder is older"
  if [ "$after" -gt "$before" ]; then newer=$((newer + 1)); fi
  if [ ! -d "reference-$after" ]; then
    mt-run "$step" "$@" --steps "$after" --save "reference-$after" >/dev/null ||
      wrong "expected a run of $after steps, found a failure"
  fi
  diff -r saved "reference-$after" ||
    wrong "round $round: the folder is not that of step $after"
done
echo "$times kills: $inSave inside a save, $absent before the first," \
  "$newer after a new one, every folder whole"
