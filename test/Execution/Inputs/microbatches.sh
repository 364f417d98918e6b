#!/bin/sh
# Trains a model of the reference data that drops a tenth, with one and with three
# microbatches, dense and on meshes, and compares all with dense and one: losses,
# and the gradients of the first step.
#
#   microbatches.sh GOLDEN OUT
set -eu
golden=$1 out=$2

train() { # NAME, then flags of mt-compile
  name=$1
  shift
  echo "== $name: mt-compile $*"
  mt-compile "$out.mlir" "$@" -o "$out.so"
  mt-run "$out.so" --init "$golden" --data "$golden/batches.safetensors" \
    --steps 3 --lr 3e-3 --log "$out.$name.log" \
    --save-gradients "$out.$name.safetensors"
  [ "$name" = dense ] && return
  mt-golden-check --same-loss "$out.dense.log" "$out.$name.log" 1e-5
  mt-golden-check --same-gradients "$out.dense.safetensors" \
    "$out.$name.safetensors" 1e-5
}

mt-import "$golden" --batch 24 --seq-len 48 --dropout 0.1 -o "$out.mlir"
train dense
train dense-3 --microbatches 3
for mesh in dp=2,tp=1 dp=8,tp=1 dp=1,tp=4 dp=2,tp=3; do
  train "$mesh" --mesh "$mesh"
  train "$mesh-3" --mesh "$mesh" --microbatches 3
done
for mesh in dp=1,tp=4 dp=2,tp=2 dp=1,tp=6; do
  train "$mesh-sp" --mesh "$mesh" --sequence-parallel
  train "$mesh-sp-3" --mesh "$mesh" --sequence-parallel --microbatches 3
done
