#!/bin/sh
# Trains the model of a config.json from one seed, dense and on meshes with and
# without sequence parallelism, and compares losses and first gradients.
#
#   shapes.sh CONFIG MESH...
set -eu
config=$1
shift

model=model.mlir out=shapes
run="--data $0 --steps 3 --seed 5 --lr 1e-3"
. "$(dirname "$0")/against-dense.sh"

mt-import "$config" --batch 30 --seq-len 30 -o "$model"
train dense
for mesh in "$@"; do
  # 5 and 7 divide no padded vocabulary.
  case $mesh in
  *tp=5 | *tp=7) vocabulary=--whole-vocabulary ;;
  *) vocabulary= ;;
  esac
  train "$mesh" --mesh "$mesh" $vocabulary
  case $mesh in
  *tp=1 | *tp=7) ;; # 7 devices do not divide the sequence.
  *) train "$mesh-sp" --mesh "$mesh" $vocabulary --sequence-parallel ;;
  esac
done
