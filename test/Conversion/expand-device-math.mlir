// RUN: mt-opt %s --pass-pipeline="builtin.module(gpu.module(mt-expand-device-math))" | FileCheck %s

// The library of the device's maker is not called, and no function is left.
// CHECK-NOT: math.
// CHECK: gpu.func @wide(
// CHECK: llvm.call_intrinsic "llvm.roundeven"
// CHECK: llvm.call_intrinsic "llvm.sqrt"(%{{.*}}) : (f64) -> f64
// CHECK: scf.for
// CHECK: gpu.func @narrow(
// CHECK: llvm.call_intrinsic "llvm.fma"
// CHECK: llvm.call_intrinsic "llvm.maxnum"
// CHECK-NOT: math.
gpu.module @device {
  gpu.func @wide(%x: f64, %y: memref<f64>) kernel {
    %0 = math.exp %x : f64
    %1 = math.log %0 : f64
    %2 = math.tanh %1 : f64
    %3 = math.sin %2 : f64
    %4 = math.cos %3 : f64
    %5 = math.powf %4, %x : f64
    %6 = math.sqrt %5 : f64
    %7 = math.erf %6 : f64
    memref.store %7, %y[] : memref<f64>
    gpu.return
  }
  gpu.func @narrow(%x: f32, %y: memref<f32>) kernel {
    %0 = math.exp %x : f32
    %1 = math.tanh %0 : f32
    %2 = math.erf %1 : f32
    %3 = arith.maxnumf %2, %x : f32
    memref.store %3, %y[] : memref<f32>
    gpu.return
  }
}
