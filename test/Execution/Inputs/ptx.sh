#!/bin/sh
# Assembles the functions of a step for a device, for two architectures: none
# but those of attention may spill registers, and rows are read and written 16
# bytes a thread.
#
#   ptx.sh MODULE OUT, then flags of mt-compile
set -eu
module=$1 out=$2
shift 2
echo "== mt-compile $*"
mt-compile "$module" --target cuda --emit ptx -o "$out.ptx" "$@"
for architecture in sm_80 sm_90; do
  ptxas -arch=$architecture -v "$out.ptx" -o "$out.cubin" 2> "$out.ptxas"
  awk -v architecture=$architecture '
    /Function properties for/ { name = $NF; functions++ }
    /bytes spill stores/ && name !~ /attention/ && !/ 0 bytes spill stores, 0 bytes spill loads/ {
      print architecture ": " name ": " $0; failed = 1
    }
    END {
      print architecture ": " functions " functions"
      exit failed || functions == 0
    }' "$out.ptxas"
done
# What functions over rows read, they read 16 bytes at a time.
awk '
  /\.entry/ { name = $3; sub(/\(.*/, "", name) }
  /ld\.global/ && name ~ /^k_(layer_norm|rms_norm|gelu|silu|adamw|mul)_/ { rows[name] = 1 }
  /ld\.global.*\.v[24]/ { loads[name] = 1 }
  /st\.global.*\.v[24]/ { stores[name] = 1 }
  END {
    for (name in rows) {
      count++
      if (!(name in loads)) { print name ": no load of 16 bytes"; failed = 1 }
    }
    for (name in stores) wide++
    print count + 0 " functions of rows, " wide + 0 " functions store 16 bytes"
    exit failed || count == 0 || wide == 0
  }' "$out.ptx"
rm "$out.ptx" "$out.cubin" "$out.ptxas"
