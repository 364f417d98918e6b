// RUN: mt-opt %s --mt-embed-manifest | FileCheck %s --check-prefixes=CHECK,ANY
// RUN: mt-opt %s --mt-embed-manifest='architecture=x86_64 processor=znver3 features=avx2,fma' | FileCheck %s --check-prefixes=CHECK,ZEN
#mesh = #mt.mesh<dp = 2, tp = 2>
#w = #mt.sharding<#mesh, [{tp}, {}]>
#g = #mt.sharding<#mesh, [{tp}, {}] partial sum {dp}>
#b = #mt.sharding<#mesh, [{}]>
#loss = #mt.sharding<#mesh, [] partial sum {dp}>

// Keys of an object are in the order of the alphabet.
// CHECK: llvm.mlir.global external constant @mt_manifest("
// CHECK-SAME: \22abi_version\22:7
// CHECK-SAME: \22buffers\22:[
// CHECK-SAME: {\22dtype\22:\22f32\22,\22local_shape\22:[4,4],\22name\22:\22w\22,\22parameter\22:0,\22role\22:\22parameter\22,\22shape\22:[8,4],\22sharding\22:{\22dims\22:{{\[\[}}\22tp\22],[]],\22partial\22:[],\22reduction\22:\22sum\22}}
// CHECK-SAME: {\22dtype\22:\22f32\22,\22local_shape\22:[4,4],\22name\22:\22w\22,\22parameter\22:0,\22role\22:\22gradient\22
// CHECK-SAME: {\22dtype\22:\22f64\22,\22local_shape\22:[],\22name\22:\22loss_sum\22
// CHECK-SAME: \22collectives\22:[{\22axes\22:[\22tp\22],\22direction\22:\22backward\22,\22dtype\22:\22f32\22,\22entry\22:\22microbatch\22,\22executions\22:3,\22group\22:0,\22group_size\22:2,\22id\22:0,\22kind\22:\22all_reduce\22,\22operation\22:\22mt.linear\22,\22payload_bytes\22:64,\22reason\22:\22partial-result\22,\22ring_bytes\22:32,\22started\22:false,\22tensors\22:1,\22unit\22:\22h.0\22}]
// CHECK-SAME: \22entries\22:[{\22arena_bytes\22:0,\22buffers\22:[0,1,2],\22name\22:\22microbatch\22,\22symbol\22:\22mt_microbatch\22}]
// CHECK-SAME: \22groups\22:{{\[\[}}\22tp\22]]
// CHECK-SAME: \22mesh\22:[{\22name\22:\22dp\22,\22size\22:2},{\22name\22:\22tp\22,\22size\22:2}]
// CHECK-SAME: \22model\22:{\22kind\22:\22gpt2\22,\22microbatches\22:3}
// CHECK-SAME: \22parameters\22:[{\22checkpoint\22:{\22offsets\22:[0,4],\22shape\22:[4,24],\22sizes\22:[4,8],\22tensor\22:\22attn\22,\22transpose\22:true}
// CHECK-SAME: \22init\22:{\22kind\22:\22normal\22
// CHECK-SAME: \22layouts\22:{\22compute\22:\22[{tp}, {}]\22,\22gradient\22:\22[{tp}, {}] partial sum {dp}\22,\22state\22:\22[{tp}, {}]\22,\22storage\22:\22[{tp}, {}]\22}
// CHECK-SAME: \22name\22:\22w\22,\22trained\22:true
// ANY-SAME: ],\22target\22
// ZEN-SAME: ],\22processor\22:{\22architecture\22:\22x86_64\22,\22features\22:[\22avx2\22,\22fma\22],\22name\22:\22znver3\22},\22target\22
// CHECK: llvm.mlir.global external constant @mt_abi_version(7 : i32)
module attributes {mt.mesh = #mesh, mt.model = {kind = "gpt2", microbatches = 3 : i64}} {
  func.func @microbatch(
      %w: tensor<4x4xf32> {mt.role = "parameter", mt.name = "w", mt.layout = #w, mt.shape = array<i64: 8, 4>,
          mt.parameter = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>,
              checkpoint = <tensor = "attn", transposed = true, shape = [4, 24], offsets = [0, 4], sizes = [4, 8]>>},
      %g: tensor<4x4xf32> {mt.role = "gradient", mt.name = "w", mt.layout = #g, mt.shape = array<i64: 8, 4>},
      %loss: tensor<f64> {mt.role = "loss_sum", mt.name = "loss_sum", mt.layout = #loss})
      -> (tensor<4x4xf32> {mt.donated = 1 : i64}) {
    %r = mt.all_reduce %g over {tp} of #mesh sum {traffic = #mt.traffic<id = 7, reason = partial_result,
        demandedBy = "mt.linear", unit = "h.0", direction = backward, payloadBytes = 64, ringBytes = 32,
        from = #w, to = #w>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
}
