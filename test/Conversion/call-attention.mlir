// RUN: mt-opt %s --mt-call-attention | FileCheck %s

// CHECK: func.func private @mt_attention(!llvm.ptr, i64, !llvm.ptr) -> i32
// CHECK-LABEL: func.func private @k_attention
// CHECK-SAME: (%[[C:.*]]: !llvm.ptr, %[[X:.*]]: memref<2x32x8x8xbf16>, %[[Y:.*]]: memref<2x32x4x8xbf16>)
// CHECK: %[[TENSORS:.*]] = llvm.alloca
// CHECK: memref.extract_aligned_pointer_as_index %[[X]]
// CHECK: llvm.store %{{.*}}, %{{.*}} : i64, !llvm.ptr
// CHECK: memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK: llvm.store %{{.*}}, %{{.*}} : i64, !llvm.ptr
// CHECK: %[[NUMBER:.*]] = arith.constant 0 : i64
// CHECK: %[[DONE:.*]] = call @mt_attention(%[[C]], %[[NUMBER]], %[[TENSORS]])
// CHECK: %[[IS:.*]] = arith.cmpi ne, %[[DONE]], %{{.*}} : i32
// CHECK: cf.cond_br %[[IS]], ^[[END:.*]], ^[[OWN:.*]]
// CHECK: ^[[OWN]]:
// CHECK: mt_host.grid
// CHECK: ^[[END]]:
// CHECK-NEXT: return
func.func private @k_attention(%context: !llvm.ptr, %x: memref<2x32x8x8xbf16>, %y: memref<2x32x4x8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 1, 32, 2, 0>} {
  mt_host.grid %context, @device::@k_attention_grid(%x, %y) : !llvm.ptr, memref<2x32x8x8xbf16>, memref<2x32x4x8xbf16>
  return
}

// The second is number 1; what has no mark stays as it is.
// CHECK-LABEL: func.func private @k_second
// CHECK: arith.constant 1 : i64
// CHECK: call @mt_attention
func.func private @k_second(%context: !llvm.ptr, %x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 1, 0>} {
  return
}
// CHECK-LABEL: func.func private @k_third
// CHECK-NOT: call
func.func private @k_third(%context: !llvm.ptr, %x: memref<8xbf16>) attributes {mt_host.kernel = "mt.attention"} {
  return
}

gpu.module @device {
  gpu.func @k_attention_grid(%x: memref<2x32x8x8xbf16>, %y: memref<2x32x4x8xbf16>) kernel attributes {mt_host.kernel = @k_attention, mt_host.blocks = 8 : i64, mt_host.threads = 256 : i64, mt_host.shared_bytes = 0 : i64} {
    gpu.return
  }
}
