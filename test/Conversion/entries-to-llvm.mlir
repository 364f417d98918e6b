// RUN: mt-opt %s --mt-plan-memory --mt-host-pipeline | FileCheck %s
#mesh = #mt.mesh<dp = 2, tp = 2>

// CHECK-DAG: llvm.mlir.global external constant @mt_abi_version(7 : i32)
// CHECK-DAG: llvm.mlir.global external constant @mt_manifest
// CHECK-DAG: llvm.mlir.global private constant @sizes_4(
// CHECK-DAG: llvm.func @mt_all_reduce(!llvm.ptr, i64, i32, i64, i32, i32, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32

// CHECK-LABEL: llvm.func @mt_f
// CHECK-SAME: (%[[CONTEXT:.*]]: !llvm.ptr, %[[BUFFERS:.*]]: !llvm.ptr, %[[ARENA:.*]]: !llvm.ptr) -> i32
// CHECK: llvm.call @mt_group_index(%[[CONTEXT]]
// CHECK: llvm.call @mt_enter(%[[CONTEXT]], %
// CHECK-NEXT: llvm.call @k_local_slice_4xf32
// CHECK: llvm.call @mt_enter(%[[CONTEXT]], %
// CHECK: %[[STATUS:.*]] = llvm.call @mt_all_reduce(%[[CONTEXT]]
// CHECK: %[[ENDS:.*]] = llvm.icmp "ne" %[[STATUS]]
// CHECK: llvm.cond_br %[[ENDS]], ^[[EXIT:.*]](%[[STATUS]] : i32), ^[[NEXT:.*]]
// CHECK: ^[[NEXT]]:
// CHECK: llvm.call @k_scale_4xf32
// CHECK: llvm.br ^[[EXIT]]
// CHECK: ^[[EXIT]](%[[RESULT:.*]]: i32):
// CHECK: llvm.return %[[RESULT]] : i32
func.func @f(%x: tensor<8xf32>) -> tensor<4xf32> {
  %o = mt.shard_offset {dp} of #mesh size 4
  %s = mt.local_slice %x at %o over {dp} of #mesh dim 0 : (tensor<8xf32>) -> tensor<4xf32>
  %r = mt.all_reduce %s over {tp} of #mesh sum : (tensor<4xf32>) -> tensor<4xf32>
  %y = mt.scale %r {factor = 2.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
