// RUN: mt-opt %s --mt-parallelize-kernels -split-input-file -verify-diagnostics

func.func private @two(%context: !llvm.ptr, %x: memref<6x4xf32>) attributes {mt_host.kernel = "mt.test"} {
  // expected-error @below {{internal error: expected a loop over one dimension of known size that starts at 0}}
  scf.forall (%i, %j) in (6, 4) {
    %0 = memref.load %x[%i, %j] : memref<6x4xf32>
    memref.store %0, %x[%i, %j] : memref<6x4xf32>
  }
  return
}

// -----

func.func private @part() attributes {mt_host.kernel = "mt.test"} {
  return
}
func.func private @inputs(%context: !llvm.ptr, %x: memref<6xf32>) attributes {mt_host.kernel = "mt.test"} {
  // expected-error @below {{'mt_host.parallel' op expected a part that takes ('memref<6xf32>', 'index', 'index'), found ()}}
  mt_host.parallel %context, @part(%x) count 6 : !llvm.ptr, memref<6xf32>
  return
}

// -----

// expected-error @below {{expected a kernel that takes '!llvm.ptr', the context of its rank, first, found '(memref<6xf32>) -> ()'}}
func.func private @no_context(%x: memref<6xf32>) attributes {mt_host.kernel = "mt.test"} {
  scf.forall (%i) in (6) {
    %0 = memref.load %x[%i] : memref<6xf32>
    memref.store %0, %x[%i] : memref<6xf32>
  }
  return
}
