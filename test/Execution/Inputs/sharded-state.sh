#!/bin/sh
# Trains a model of the reference data with its state sharded and compares with
# it: the first loss, the gradients of the first step, ten steps of AdamW and the
# gradient norms.
#
#   sharded-state.sh GOLDEN OUT FIRST EVERY
#
# There are 192 settings: ZeRO 0 to 3, eight meshes with and without sequence
# parallelism, three policies of recomputation, one and three microbatches. Those
# numbered FIRST, FIRST + EVERY and so on are run; 0 1 runs all. The line before a
# comparison says which setting it is of. What the layouts change is the program,
# not how it is compiled: -O1 compiles in half the time.
set -eu
golden=$1 out=$2 next=$3 every=$4 number=0

train() { # flags of mt-compile
  if [ $number -ne "$next" ]; then
    number=$((number + 1))
    return
  fi
  number=$((number + 1)) next=$((next + every))
  echo "== $((number - 1)): mt-compile -O1 $*"
  mt-compile -O1 "$out.mlir" "$@" -o "$out.so"
  mt-run "$out.so" --init "$golden" --data "$golden/batches.safetensors" \
    --steps 10 --lr 3e-3 --log "$out.log" --save-gradients "$out.safetensors"
  mt-golden-check "$golden" --log "$out.log" --gradients "$out.safetensors"
}

mt-import "$golden" --batch 24 --seq-len 48 -o "$out.mlir"
for mesh in fsdp=2 fsdp=4 fsdp=8 dp=2,fsdp=2 fsdp=2,tp=2 \
  "fsdp=2,tp=2 --sequence-parallel" "dp=2,fsdp=2,tp=2 --sequence-parallel" \
  "fsdp=4,tp=2 --sequence-parallel"; do
  for zero in 0 1 2 3; do
    for recompute in none selective full; do
      for microbatches in 1 3; do
        # shellcheck disable=SC2086
        train --mesh $mesh --zero $zero --recompute $recompute \
          --microbatches $microbatches
      done
    done
  done
done
