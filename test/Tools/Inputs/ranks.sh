#!/bin/bash
# ranks.sh RANKS COMMAND...
#
# Runs COMMAND as RANKS processes with what torchrun tells each in its
# environment, and nothing of a launcher that ends them: it waits for all. The
# exit code is 0 where all are, and 1 where all are; otherwise 3.
# SLURM=1 says it as srun does. Where FOLDER is set, the number of each process is
# in FOLDER/RANK, and SIBLING is a command that takes the place of rank 1's.
ranks=$1
shift
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
processes=()
for ((rank = 0; rank < ranks; ++rank)); do
  if [ -n "$SLURM" ]; then
    says=(SLURM_PROCID=$rank SLURM_NTASKS=$ranks SLURM_LOCALID=$rank
      "SLURM_STEP_TASKS_PER_NODE=$ranks(x1)")
  else
    says=(RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank
      LOCAL_WORLD_SIZE=$ranks)
  fi
  command=("$@")
  [ "$rank" -eq 1 ] && [ -n "$SIBLING" ] && command=($SIBLING)
  env "${says[@]}" "${command[@]}" </dev/null &
  processes+=($!)
  [ -z "$FOLDER" ] || echo $! >"$FOLDER/$rank"
done
good=0
for process in "${processes[@]}"; do
  wait "$process" && good=$((good + 1))
done
[ "$good" -eq "$ranks" ] && exit 0
[ "$good" -eq 0 ] && exit 1
exit 3
