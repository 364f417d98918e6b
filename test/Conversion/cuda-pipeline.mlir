// The passes that the host and a device share, with a device's options.
//
// RUN: mt-opt %s --pass-pipeline="builtin.module(mt-outline-kernels,func.func(mt-to-linalg{on-device sum-parts=256},mt-fuse-elementwise{widen-again},mt-reuse-operands,mt-bufferize-kernels,mt-fuse-rows{min-points=0 block-bytes=0 sum-parts=256},mt-place-scratch{on-device}),mt-contractions-to-runtime{outermost})" -split-input-file | FileCheck %s

// A task a row.
// CHECK-LABEL: func.func private @k_layer_norm_128x512xf32
// CHECK: scf.forall (%{{.*}}) in (128)
// CHECK: memref.alloc() : memref<1xf64>
func.func @rows(%x: tensor<128x512xf32>, %w: tensor<512xf32>) -> tensor<128x512xf32> {
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64} : (tensor<128x512xf32>, tensor<512xf32>, tensor<512xf32>) -> tensor<128x512xf32>
  return %y : tensor<128x512xf32>
}

// -----

// More parts of a sum than were planned for: what does not fit lies on the
// stack, which is the device's memory.
// CHECK-LABEL: func.func private @k_sum_leading_256xf32
// CHECK-DAG: memref.alloca() {alignment = 64 : i64} : memref<256x256xf64>
// CHECK-DAG: memref.view %{{.*}} : memref<67584xi8> to memref<256xf64>
// CHECK: scf.forall (%{{.*}}) in (256)
func.func @sums(%x: tensor<1024x256xf32>) -> tensor<256xf32> {
  %y = mt.sum_leading %x : (tensor<1024x256xf32>) -> tensor<256xf32>
  return %y : tensor<256xf32>
}

// -----

// CHECK-LABEL: func.func private @k_sum_of_squares
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<256xf64>
// CHECK: scf.forall (%{{.*}}) in (256)
func.func @squares(%x: tensor<256x1024xf32>) -> tensor<f64> {
  %y = mt.sum_of_squares %x : (tensor<256x1024xf32>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----

// A task for each of 2 heads and 4 tiles of 64 queries; its products are not
// the library's.
// CHECK-LABEL: func.func private @k_attention
// CHECK-NOT: call @mt_gemm
// CHECK: scf.forall (%{{.*}}) in (8)
// CHECK: memref.alloc() {{.*}} : memref<1x64x64xf32>
// CHECK-NOT: call @mt_gemm
func.func @attention(%q: tensor<1x256x2x16xf32>, %p: tensor<256xi32>) -> tensor<1x256x2x16xf32> {
  %o, %l = mt.attention %q, %q, %q, %p, %p {causal = true, scale = 2.5e-01 : f64} : (tensor<1x256x2x16xf32>, tensor<1x256x2x16xf32>, tensor<1x256x2x16xf32>, tensor<256xi32>, tensor<256xi32>) -> (tensor<1x256x2x16xf32>, tensor<1x256x2xf32>)
  return %o : tensor<1x256x2x16xf32>
}

// -----

// A task owns three rows of the table, and looks through all ids.
// CHECK-LABEL: func.func private @k_embedding_grad
// CHECK: scf.forall (%{{.*}}) in (1024)
// CHECK: scf.for
// CHECK: scf.if
func.func @table(%g: tensor<2x8x64xf32>, %ids: tensor<2x8xi32>) -> tensor<3072x64xf32> {
  %t = mt.embedding_grad %ids, %g : (tensor<2x8xi32>, tensor<2x8x64xf32>) -> tensor<3072x64xf32>
  return %t : tensor<3072x64xf32>
}
