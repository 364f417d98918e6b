// RUN: mt-opt %s --mt-kernels-to-llvm | FileCheck %s

// Bare pointers, inside the library, not inlined; entries stay.
// CHECK-LABEL: llvm.func internal @k
// CHECK-SAME: !llvm.ptr {llvm.noalias}
// CHECK-SAME: no_inline
// CHECK: llvm.getelementptr
// CHECK: llvm.store
func.func private @k(%context: !llvm.ptr, %x: memref<4x8xf32> {llvm.noalias}, %i: index) attributes {mt_host.kernel} {
  %zero = arith.constant 0.0 : f32
  %row = memref.subview %x[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
  memref.store %zero, %row[%i] : memref<8xf32, strided<[1], offset: ?>>
  return
}

// CHECK-LABEL: func.func @entry
// CHECK: return %{{.*}} : tensor<8xf32>
func.func @entry(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
