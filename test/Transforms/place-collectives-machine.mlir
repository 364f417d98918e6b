// RUN: mt-opt %s --mt-place-collectives | FileCheck %s --check-prefix=BYTES
// RUN: mt-opt %s --mt-place-collectives="machine=latency=1e-3" | FileCheck %s --check-prefix=LATENCY
// RUN: mt-opt %s --mt-place-collectives="use-idle-axes" | FileCheck %s --check-prefix=IDLE
// RUN: not mt-opt %s --mt-place-collectives="machine=bandwidth=fast" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: expected a machine as 'bandwidth=1e11,bandwidth.dp=2.5e10,latency=5e-6,flops=1e14,memory=3e12', found 'bandwidth=fast'

#mesh = #mt.mesh<a = 2, b = 4>
#x = #mt.sharding<#mesh, [{}]>
#both = #mt.sharding<#mesh, [{a, b}]>
#minor = #mt.sharding<#mesh, [{b}]>
#partial_b = #mt.sharding<#mesh, [{}] partial sum {b}>

// Where launches are dear, one large gather beats two small steps.
// BYTES-LABEL: func.func @to_minor_axis
// BYTES-NEXT: mt.collective_permute
// BYTES-NEXT: mt.all_gather %{{.*}} over {a}
// LATENCY-LABEL: func.func @to_minor_axis
// LATENCY-NEXT: mt.all_gather %{{.*}} over {a, b}
// LATENCY-NEXT: mt.local_slice %{{.*}} over {b}
func.func @to_minor_axis(%x: tensor<64xf32, #both>) -> tensor<64xf32, #minor> {
  %y = mt.reshard %x {reason = #mt.reason<operand_layout>, demanded_by = "mt.add"} : tensor<64xf32, #both> -> tensor<64xf32, #minor>
  return %y : tensor<64xf32, #minor>
}

// The two replicas along a could each do half of the work along b.
// BYTES-LABEL: func.func @idle_axis
// BYTES-NEXT: mt.all_reduce %{{.*}} over {b}
// BYTES-NEXT: return
// IDLE-LABEL: func.func @idle_axis
// IDLE-NEXT: mt.local_slice %{{.*}} over {a}
// IDLE-NEXT: mt.reduce_scatter %{{.*}} over {b}
// IDLE-NEXT: mt.all_gather %{{.*}} over {a, b}
// IDLE-NEXT: return
func.func @idle_axis(%x: tensor<64xf32, #partial_b>) -> tensor<64xf32, #x> {
  %y = mt.reshard %x {reason = #mt.reason<gradient_reduction>, demanded_by = "mt.adamw"} : tensor<64xf32, #partial_b> -> tensor<64xf32, #x>
  return %y : tensor<64xf32, #x>
}
