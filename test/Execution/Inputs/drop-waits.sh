#!/usr/bin/env bash
# Leaves out each wait of a device's stream for another, one run after the
# other, in two orders. Prints how many of them are missed: threads race; and how
# many are not: nothing comes out differently.
#
#   drop-waits.sh WAITS STEP [FLAG...]
set -euo pipefail
waits=$1 step=$2
shift 2

loss() { grep -o '"loss":[^,]*,"gradient_norm":[^,]*' "$1"; }

mt-run "$step" "$@" --steps 1 --log right.jsonl >/dev/null
missed=0 needless=0
for ((wait = 0; wait < waits; wait++)); do
  found=
  for seed in 0 1; do
    if MT_SIMULATED_SEED=$seed MT_SIMULATED_DROP_WAIT=$wait mt-run "$step" \
      "$@" --steps 1 --log found.jsonl >output 2>&1; then
      [ "$(loss found.jsonl)" = "$(loss right.jsonl)" ] ||
        { echo "wait $wait: another result, and no race"; exit 1; }
    elif grep -q 'simulated device: race: ' output; then
      found=yes
      break
    else
      echo "wait $wait: no race"
      cat output
      exit 1
    fi
  done
  if [ "$found" ]; then missed=$((missed + 1)); else needless=$((needless + 1)); fi
done
echo "$missed missed, $needless needless"
