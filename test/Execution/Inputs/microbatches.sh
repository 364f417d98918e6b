#!/bin/sh
# Trains a model of the reference data that drops a tenth, with one and with three
# microbatches, dense and on meshes, and compares all with dense and one: losses,
# and the gradients of the first step.
#
#   microbatches.sh GOLDEN OUT
set -eu
golden=$1 out=$2

model=$out.mlir
run="--init $golden --data $golden/batches.safetensors --steps 3 --lr 3e-3"
. "$(dirname "$0")/against-dense.sh"

mt-import "$golden" --batch 24 --seq-len 48 --dropout 0.1 -o "$model"
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
