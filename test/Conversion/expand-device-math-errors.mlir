// RUN: mt-opt %s --pass-pipeline="builtin.module(gpu.module(mt-expand-device-math))" -verify-diagnostics

gpu.module @device {
  gpu.func @f(%x: f32, %y: memref<f32>) kernel {
    // expected-error @below {{'math.acos' op of 'f32' has no expansion for a device}}
    %0 = math.acos %x : f32
    memref.store %0, %y[] : memref<f32>
    gpu.return
  }
}
