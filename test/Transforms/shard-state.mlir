// RUN: mt-opt %s --mt-shard-state="zero=3" -split-input-file | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: mt-opt %s --mt-shard-state="zero=2" -split-input-file | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: mt-opt %s --mt-shard-state="zero=1" -split-input-file | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: mt-opt %s --mt-shard-state="zero=3 reshard-after-forward=false" -split-input-file | FileCheck %s --check-prefix=KEEP
// RUN: mt-opt %s --mt-shard-state="zero=3 min-shard-bytes=1025" -split-input-file | FileCheck %s --check-prefix=LARGE
// RUN: sed "/^.. -----/,$d" %s | mt-opt --mt-shard-state="zero=3 axes=dp,fsdp" | FileCheck %s --check-prefix=BOTH

#mesh = #mt.mesh<dp = 2, fsdp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{dp, fsdp}, {}  ]>
#x_tp = #mt.sharding<#mesh, [{dp, fsdp}, {tp}  ]>
#tp_x = #mt.sharding<#mesh, [{tp}, {}  ]>
#tp = #mt.sharding<#mesh, [{tp}  ]>
#r = #mt.sharding<#mesh, [{}  ]>
#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>
#b = #mt.parameter<name = "b", trained = true, init = <constant, 0.0>>
#odd = #mt.parameter<name = "odd", trained = false, init = <constant, 0.0>>

// A weight that tp shards is cut along its other dimension, a bias behind tp; one
// of odd size stays whole and says why. A unit gathers a parameter once, however
// often it takes it.

// CHECK-LABEL: func.func private @forward
// ONE-NOT: mt.gradient_layout
// ONE-SAME: mt.state_layout = #mt.sharding<#mesh, [{tp}, {fsdp}]>
// TWO-SAME: mt.gradient_layout = #mt.sharding<#mesh, [{tp}, {fsdp}]>
// TWO-SAME: mt.state_layout = #mt.sharding<#mesh, [{tp}, {fsdp}]>
// THREE-SAME: tensor<32x16xf32, #tp_fsdp> {mt.gradient_layout = #tp_fsdp, mt.parameter = {{.*}}mt.state_layout = #tp_fsdp}
// THREE-SAME: tensor<32xf32, #[[B:.*]]> {mt.gradient_layout = #[[B]]
// CHECK-SAME: mt.whole = "no dimension of a device's part is divisible by 2"
// CHECK: mt.unit "h.0" forward
// ONE-NOT: mt.reshard
// TWO-NOT: mt.reshard
// THREE: mt.reshard %{{.*}} {demanded_by = "mt.unit", reason = #mt.reason<parameter_gather>} : tensor<32xf32, #[[B]]> -> tensor<32xf32, #tp>
// THREE: %[[W:.*]] = mt.reshard %{{.*}} : tensor<32x16xf32, #tp_fsdp> -> tensor<32x16xf32, #tp_x>
// THREE-NOT: mt.reshard
// THREE: mt.add %[[W]], %[[W]]
// CHECK: mt.yield

// KEEP-LABEL: func.func private @forward
// KEEP-COUNT-2: keep

// LARGE-LABEL: func.func private @forward
// LARGE-SAME: mt.whole = "a shard would have 512 bytes, fewer than 1025"

// BOTH-LABEL: func.func private @forward
// BOTH-SAME: tensor<32x16xf32, #tp_dp-fsdp>
func.func private @forward(%x: tensor<8x16xf32, #x>, %w: tensor<32x16xf32, #tp_x> {mt.parameter = #w}, %b: tensor<32xf32, #tp> {mt.parameter = #b},
                           %odd: tensor<5xf32, #r> {mt.parameter = #odd}) -> (tensor<8x32xf32, #x_tp>, tensor<5xf32, #r>) {
  %0:2 = mt.unit "h.0" forward (%a = %x : tensor<8x16xf32, #x>, %v = %w : tensor<32x16xf32, #tp_x>, %u = %w : tensor<32x16xf32, #tp_x>, %c = %b : tensor<32xf32, #tp>, %o = %odd : tensor<5xf32, #r>) -> (tensor<8x32xf32, #x_tp>, tensor<5xf32, #r>) {
    %s = mt.add %v, %u : (tensor<32x16xf32, #tp_x>, tensor<32x16xf32, #tp_x>) -> tensor<32x16xf32, #tp_x>
    %1 = mt.linear %a, %s : (tensor<8x16xf32, #x>, tensor<32x16xf32, #tp_x>) -> tensor<8x32xf32, #x_tp>
    %2 = mt.add %1, %c : (tensor<8x32xf32, #x_tp>, tensor<32xf32, #tp>) -> tensor<8x32xf32, #x_tp>
    mt.yield %2, %o : tensor<8x32xf32, #x_tp>, tensor<5xf32, #r>
  }
  return %0#0, %0#1 : tensor<8x32xf32, #x_tp>, tensor<5xf32, #r>
}

// -----

#mesh = #mt.mesh<dp = 2>
#x = #mt.sharding<#mesh, [{dp}, {}  ]>
#r = #mt.sharding<#mesh, [{}, {}  ]>
#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>
#own = #mt.parameter<name = "own", trained = true, init = <normal, 0.0, 0.02>>

// Without fsdp the axes that shard the batch. A parameter is cast before it is
// gathered; one that the axis shards in its unit stays as it is.

// CHECK-LABEL: func.func private @forward
// CHECK-SAME: mt.state_layout = #dp_x
// CHECK-SAME: mt.whole = "axis 'dp' shards it in its units"
// THREE: mt.unit "h.0" forward
// THREE: %[[CAST:.*]] = mt.cast %{{.*}} : (tensor<16x16xf32, #dp_x>) -> tensor<16x16xbf16, #dp_x>
// THREE: mt.reshard %[[CAST]] {demanded_by = "mt.unit", reason = #mt.reason<parameter_gather>} : tensor<16x16xbf16, #dp_x> -> tensor<16x16xbf16, #x_x>
// THREE-NOT: mt.reshard
func.func private @forward(%x: tensor<8x16xbf16, #x>, %w: tensor<16x16xf32, #r> {mt.parameter = #w}, %own: tensor<16x16xf32, #x> {mt.parameter = #own})
    -> (tensor<8x16xbf16, #x>, tensor<16x16xf32, #x>) {
  %0:2 = mt.unit "h.0" forward (%a = %x : tensor<8x16xbf16, #x>, %v = %w : tensor<16x16xf32, #r>, %o = %own : tensor<16x16xf32, #x>) -> (tensor<8x16xbf16, #x>, tensor<16x16xf32, #x>) {
    %c = mt.cast %v : (tensor<16x16xf32, #r>) -> tensor<16x16xbf16, #r>
    %1 = mt.linear %a, %c : (tensor<8x16xbf16, #x>, tensor<16x16xbf16, #r>) -> tensor<8x16xbf16, #x>
    mt.yield %1, %o : tensor<8x16xbf16, #x>, tensor<16x16xf32, #x>
  }
  return %0#0, %0#1 : tensor<8x16xbf16, #x>, tensor<16x16xf32, #x>
}
