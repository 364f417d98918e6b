#!/bin/sh
# Trains a model of the reference data and compares with it: the first loss, the
# gradients of the first step, ten steps of AdamW.
#
#   train.sh GOLDEN OUT dense    on one device
#   train.sh GOLDEN OUT RANKS    on every split of the ranks into dp x tp, with
#                                and without sequence parallelism
#
# Files go beside OUT. The line before a comparison says which split it is of.
set -eu
golden=$1 out=$2 ranks=$3

train() { # NAME, then flags of mt-compile
  name=$1
  shift
  echo "== $name: mt-compile $*"
  mt-compile "$out.mlir" "$@" -o "$out.$name.so"
  mt-run "$out.$name.so" --init "$golden" --data "$golden/batches.safetensors" \
    --steps 10 --lr 3e-3 --log "$out.$name.log" \
    --save-gradients "$out.$name.safetensors"
  mt-golden-check "$golden" --log "$out.$name.log" \
    --gradients "$out.$name.safetensors"
  rm "$out.$name.so" "$out.$name.safetensors"
}

mt-import "$golden" --batch 24 --seq-len 48 -o "$out.mlir"
if [ "$ranks" = dense ]; then
  train dense
  exit
fi
for tp in $(seq "$ranks"); do
  if [ $((ranks % tp)) -ne 0 ]; then continue; fi
  dp=$((ranks / tp))
  train "dp$dp-tp$tp" --mesh "dp=$dp,tp=$tp"
  if [ "$tp" -gt 1 ]; then
    train "dp$dp-tp$tp-sp" --mesh "dp=$dp,tp=$tp" --sequence-parallel
  fi
done
