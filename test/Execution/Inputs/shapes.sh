#!/bin/sh
# Trains the model of a config.json from one seed, dense and on meshes with and
# without sequence parallelism, and compares losses and first gradients.
#
#   shapes.sh CONFIG MESH...
set -eu
config=$1
shift

train() { # NAME, then flags of mt-compile
  name=$1
  shift
  echo "== $name: mt-compile $*"
  mt-compile model.mlir "$@" -o step.so
  mt-run step.so --data "$(dirname "$0")/shapes.sh" --steps 3 --seed 5 --lr 1e-3 \
    --log "$name.log" --save-gradients "$name.safetensors"
  [ "$name" = dense ] && return
  mt-golden-check --same-loss dense.log "$name.log" 1e-5
  mt-golden-check --same-gradients dense.safetensors "$name.safetensors" 1e-5
}

mt-import "$config" --batch 30 --seq-len 30 -o model.mlir
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
