// RUN: mt-opt %s --mt-embed-twins | FileCheck %s

// CHECK: llvm.func internal @f_twin(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64) {
// CHECK: llvm.func hidden @f_twin_thread(%[[T:[^:]*]]: !llvm.ptr, %[[A:[^:]*]]: !llvm.ptr)
// CHECK: llvm.load
// CHECK: llvm.call @f_twin(%[[T]], %{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> ()
// CHECK: llvm.mlir.global internal constant @f_twin_name("f\00")
// CHECK: llvm.mlir.global internal constant @mt_twins()
// CHECK: llvm.mlir.addressof @f_twin_name
// CHECK: llvm.mlir.addressof @f_twin_thread
// CHECK: llvm.mlir.global external constant @mt_image_twin()
// CHECK: llvm.mlir.constant("mt-twin\00")
// CHECK: llvm.mlir.addressof @mt_twins
llvm.func internal @f_twin(%thread: !llvm.ptr, %shared: !llvm.ptr, %x: !llvm.ptr, %i: i64) attributes {mt_host.twin = "f"} {
  llvm.return
}
