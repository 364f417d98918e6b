# Training runs that are compared with a dense one: losses, and the gradients of
# the first step. For scripts that set `model`, a module, `out`, what files are
# named by, and `run`, the flags of mt-run.

# train NAME FLAGS...: compiles with the flags of mt-compile and trains. The first
# run is called dense, the others are compared with it.
train() {
  name=$1
  shift
  echo "== $name: mt-compile $*"
  mt-compile "$model" "$@" -o "$out.so"
  # shellcheck disable=SC2086
  mt-run "$out.so" $run --log "$out.$name.log" \
    --save-gradients "$out.$name.safetensors"
  [ "$name" = dense ] && return
  mt-golden-check --same-loss "$out.dense.log" "$out.$name.log" 1e-5
  mt-golden-check --same-gradients "$out.dense.safetensors" \
    "$out.$name.safetensors" 1e-5
}
