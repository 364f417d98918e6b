// RUN: mt-opt %s --mt-map-to-grids -split-input-file -verify-diagnostics

func.func private @two(%context: !llvm.ptr, %x: memref<6x4xf32>) attributes {mt_host.kernel = "mt.test"} {
  // expected-error @below {{internal error: expected a loop over one dimension of known size that starts at 0}}
  scf.forall (%i, %j) in (6, 4) {
    %0 = memref.load %x[%i, %j] : memref<6x4xf32>
    memref.store %0, %x[%i, %j] : memref<6x4xf32>
  }
  return
}

// -----

// expected-error @below {{expected a kernel that takes '!llvm.ptr', the context of its rank, first, found '(memref<6xf32>) -> ()'}}
func.func private @context(%x: memref<6xf32>) attributes {mt_host.kernel = "mt.test"} {
  return
}

// -----

func.func private @large(%context: !llvm.ptr) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f32
  // expected-error @below {{internal error: expected shared memory of at most 166912 bytes a block for 'mt.test', found 1048576}}
  scf.forall (%i) in (6) {
    %0 = memref.alloc() : memref<65536xf32>
    linalg.fill ins(%zero : f32) outs(%0 : memref<65536xf32>)
  }
  return
}

// -----

func.func private @use(f32)
func.func private @reads(%context: !llvm.ptr, %x: memref<6xf32>) attributes {mt_host.kernel = "mt.test"} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{internal error: expected 'mt.test' to leave its memory to the device, found a 'memref.load'}}
  %0 = memref.load %x[%c0] : memref<6xf32>
  func.call @use(%0) : (f32) -> ()
  return
}

// -----

gpu.module @device {
  gpu.func @f(%x: memref<6xf32>) kernel { gpu.return }
}
func.func private @missing(%context: !llvm.ptr, %x: memref<6xf32>) attributes {mt_host.kernel = "mt.test"} {
  // expected-error @below {{'mt_host.grid' op expected a function of the device, found @device::@g}}
  mt_host.grid %context, @device::@g(%x) : !llvm.ptr, memref<6xf32>
  return
}

// -----

gpu.module @device {
  gpu.func @f(%x: memref<6xf32>) kernel { gpu.return }
}
func.func private @types(%context: !llvm.ptr, %x: memref<4xf32>) attributes {mt_host.kernel = "mt.test"} {
  // expected-error @below {{'mt_host.grid' op expected a function that takes ('memref<4xf32>'), found ('memref<6xf32>')}}
  mt_host.grid %context, @device::@f(%x) : !llvm.ptr, memref<4xf32>
  return
}
