// RUN: mt-opt %s --mt-embed-manifest | FileCheck %s
#mesh = #mt.mesh<tp = 2>

// The first is waited for at once, the second is started.
// CHECK: \22id\22:0,\22kind\22:\22all_reduce\22
// CHECK-SAME: \22started\22:false
// CHECK-SAME: \22id\22:1,\22kind\22:\22all_gather\22
// CHECK-SAME: \22started\22:true
func.func @microbatch(%x: tensor<4xf32>) -> tensor<8xf32> {
  %r = mt.all_reduce %x over {tp} of #mesh sum : (tensor<4xf32>) -> tensor<4xf32>
  %p = mt.all_gather %r over {tp} of #mesh dims [0] {async} : (tensor<4xf32>) -> tensor<8xf32>
  %y = mt.wait %p : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
