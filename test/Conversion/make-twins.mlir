// RUN: mt-opt %s --mt-make-twins | FileCheck %s

// A thread knows its number and its block's, says what it is about to touch, and
// calls back where it meets others; shared memory is an argument.
// CHECK: gpu.func @f(
// CHECK: func.func private @f_twin(%[[T:[^:]*]]: !llvm.ptr, %[[S:[^:]*]]: memref<512xi8>, %[[X:[^:]*]]: memref<8xf32>) attributes {mt_host.kernel = @k, mt_host.twin = "f"}
// CHECK-NEXT: %[[P0:.*]] = llvm.getelementptr %[[T]][0]
// CHECK-NEXT: %[[I:.*]] = llvm.load %[[P0]] : !llvm.ptr -> i64
// CHECK: %[[P1:.*]] = llvm.getelementptr %[[T]][8]
// CHECK: memref.cast %[[S]] : memref<512xi8> to memref<?xi8>
// CHECK: %[[A:.*]] = llvm.getelementptr %[[T]][48]
// CHECK-NEXT: %[[F:.*]] = llvm.load %[[A]]
// CHECK-NEXT: llvm.call %[[F]](%[[T]], %{{.*}}, %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, i32) -> ()
// CHECK-NEXT: memref.load %[[X]]
// CHECK: %[[B:.*]] = llvm.getelementptr %[[T]][64]
// CHECK-NEXT: %[[G:.*]] = llvm.load %[[B]]
// CHECK: %[[ASKED:.*]] = llvm.icmp "ne" %[[G]]
// CHECK-NEXT: scf.if %[[ASKED]] {
// CHECK: llvm.call
// CHECK: memref.store {{.*}} : memref<8xf32>
// CHECK: llvm.getelementptr %[[T]][24]
// CHECK: llvm.call %{{.*}}(%[[T]]) : !llvm.ptr, (!llvm.ptr) -> ()
// CHECK: llvm.getelementptr %[[T]][32]
// CHECK: llvm.getelementptr %[[T]][40]
// CHECK: llvm.call %{{.*}}(%[[T]], %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, i32, i32) -> i32
// CHECK: return
gpu.module @device {
  gpu.func @f(%x: memref<8xf32>) kernel attributes {mt_host.kernel = @k, mt_host.shared_bytes = 512 : i64} {
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %c0 = arith.constant 0 : index
    %all = arith.constant -1 : i32
    %shared = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %view = memref.view %shared[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<8xf32, #gpu.address_space<workgroup>>
    %0 = memref.load %x[%thread] : memref<8xf32>
    memref.store %0, %view[%block] : memref<8xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    nvvm.bar.warp.sync %all : i32
    %1 = arith.bitcast %0 : f32 to i32
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %2, %valid = gpu.shuffle xor %1, %c1, %c32 : i32
    %3 = arith.bitcast %2 : i32 to f32
    memref.store %3, %view[%block] : memref<8xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

// What a thread brings to a product of tensor cores, and takes from it, goes
// through memory.
// CHECK-LABEL: func.func private @product_twin(
// CHECK-DAG: llvm.alloca %{{.*}} x i32
// CHECK-DAG: llvm.alloca %{{.*}} x f32
// CHECK-COUNT-10: llvm.store
// CHECK: llvm.getelementptr %{{.*}}[56]
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CHECK-NOT: nvvm
gpu.module @products {
  gpu.func @product(%a: i32, %x: f32, %y: memref<1xf32>) kernel attributes {mt_host.kernel = @k, mt_host.shared_bytes = 0 : i64} {
    %c0 = arith.constant 0 : index
    %sums = nvvm.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%x, %x, %x, %x] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %sum = llvm.extractvalue %sums[0] : !llvm.struct<(f32, f32, f32, f32)>
    memref.store %sum, %y[%c0] : memref<1xf32>
    gpu.return
  }
}
