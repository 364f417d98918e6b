// RUN: mt-opt %s --mt-overlap-collectives -split-input-file | FileCheck %s
// RUN: mt-opt %s --mt-overlap-collectives="prefetch=0 drain=0" -split-input-file | FileCheck %s --check-prefix=NONE
// RUN: mt-opt %s --mt-overlap-collectives="max-ahead-bytes=511" -split-input-file | FileCheck %s --check-prefix=BYTES
// RUN: sed "/^.. -----/,$d" %s | not mt-opt --mt-overlap-collectives="drain=-1" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: expected options 'prefetch', 'drain' and 'max-ahead-bytes' of at least 0, found 1, -1 and 9223372036854775807

#mesh = #mt.mesh<fsdp = 2>
#s = #mt.sharding<#mesh, [{fsdp}, {} ]>
#r = #mt.sharding<#mesh, [{}, {} ]>
#gather0 = #mt.traffic<id = 0, reason = parameter_gather, demandedBy = "mt.unit", unit = "a", direction = forward, payloadBytes = 512, ringBytes = 256, from = #s, to = #r>
#gather1 = #mt.traffic<id = 1, reason = parameter_gather, demandedBy = "mt.unit", unit = "b", direction = forward, payloadBytes = 512, ringBytes = 256, from = #s, to = #r>

// The gather of the second unit is started ahead of the first, behind that unit's own
// gather and with the cast that it needs, and waited for at its first use.

// CHECK-LABEL: func.func private @gathers
// CHECK-NEXT: %[[OWN:.*]] = mt.all_gather %{{[^ ]+}} over {fsdp} of #mesh dims [0] {async, mt.direction = "forward", mt.unit = "a", traffic = {{.*}}id = 0
// CHECK-NEXT: %[[CAST:.*]] = mt.cast
// CHECK-NEXT: %[[STARTED:.*]] = mt.all_gather %[[CAST]] over {fsdp} of #mesh dims [0] {async, mt.direction = "forward", mt.unit = "b", traffic = {{.*}}id = 1
// CHECK-NEXT: mt.wait %[[OWN]]
// CHECK-NEXT: mt.linear
// CHECK-NEXT: %[[THERE:.*]] = mt.wait %[[STARTED]] {mt.direction = "forward", mt.unit = "b"}
// CHECK-NEXT: mt.linear %{{.*}}, %[[THERE]]

// NONE-LABEL: func.func private @gathers
// NONE-NOT: async
// BYTES-LABEL: func.func private @gathers
// BYTES-NOT: async
func.func private @gathers(%x: tensor<4x16xbf16>, %v: tensor<8x16xbf16>, %w: tensor<8x16xf32>) -> tensor<4x16xbf16> {
  %0 = mt.all_gather %v over {fsdp} of #mesh dims [0] {traffic = #gather0, mt.unit = "a", mt.direction = "forward"} : (tensor<8x16xbf16>) -> tensor<16x16xbf16>
  %1 = mt.linear %x, %0 {mt.unit = "a", mt.direction = "forward"} : (tensor<4x16xbf16>, tensor<16x16xbf16>) -> tensor<4x16xbf16>
  %2 = mt.cast %w {mt.unit = "b", mt.direction = "forward"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %3 = mt.all_gather %2 over {fsdp} of #mesh dims [0] {traffic = #gather1, mt.unit = "b", mt.direction = "forward"} : (tensor<8x16xbf16>) -> tensor<16x16xbf16>
  %4 = mt.linear %1, %3 {mt.unit = "b", mt.direction = "forward"} : (tensor<4x16xbf16>, tensor<16x16xbf16>) -> tensor<4x16xbf16>
  return %4 : tensor<4x16xbf16>
}

// -----

#mesh = #mt.mesh<fsdp = 2>
#s = #mt.sharding<#mesh, [{fsdp}, {} ]>
#r = #mt.sharding<#mesh, [{}, {} ]>
#p = #mt.sharding<#mesh, [{}, {} ] partial sum {fsdp}>
#cotangent = #mt.traffic<id = 0, reason = cotangent, demandedBy = "mt.linear", unit = "b", direction = backward, payloadBytes = 256, ringBytes = 256, from = #p, to = #r>
#gradient = #mt.traffic<id = 1, reason = gradient_reduction, demandedBy = "mt.add", unit = "b", direction = backward, payloadBytes = 1024, ringBytes = 512, from = #p, to = #s>

// The weight's gradient runs behind the start of the reduction that does not need it;
// the gradient's own reduction, and the sum it goes into, end behind the next segment.

// NONE-LABEL: func.func private @reductions
// BYTES-LABEL: func.func private @reductions
// CHECK-LABEL: func.func private @reductions
// CHECK: %[[DX:.*]] = mt.linear_grad_input
// CHECK-NEXT: %[[STARTED:.*]] = mt.all_reduce %[[DX]] over {fsdp} of #mesh sum {async
// CHECK-NEXT: %[[DW:.*]] = mt.linear_grad_weight
// CHECK-NEXT: %[[SCATTER:.*]] = mt.reduce_scatter %[[DW]] over {fsdp} of #mesh sum dims [0] {async
// CHECK-NEXT: mt.wait %[[STARTED]]
// CHECK-NEXT: mt.linear_grad_input
// CHECK-NEXT: %[[SHARD:.*]] = mt.wait %[[SCATTER]]
// CHECK-NEXT: mt.add %{{.*}}, %[[SHARD]]
// CHECK-NEXT: return
func.func private @reductions(%dy: tensor<4x16xf32>, %x: tensor<4x16xf32>, %w: tensor<16x16xf32>, %sum: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<8x16xf32>) {
  %0 = mt.linear_grad_input %dy, %w {mt.unit = "b", mt.direction = "backward"} : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %1 = mt.linear_grad_weight %dy, %x {mt.unit = "b", mt.direction = "backward"} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
  %2 = mt.all_reduce %0 over {fsdp} of #mesh sum {traffic = #cotangent, mt.unit = "b", mt.direction = "backward"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = mt.reduce_scatter %1 over {fsdp} of #mesh sum dims [0] {traffic = #gradient, mt.unit = "b", mt.direction = "backward"} : (tensor<16x16xf32>) -> tensor<8x16xf32>
  %4 = mt.add %sum, %3 {mt.unit = "b", mt.direction = "backward"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %5 = mt.linear_grad_input %2, %w {mt.unit = "a", mt.direction = "backward"} : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  return %5, %4 : tensor<4x16xf32>, tensor<8x16xf32>
}
