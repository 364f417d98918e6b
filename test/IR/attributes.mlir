// RUN: mt-opt %s | mt-opt | FileCheck %s

// Layouts are printed as aliases that say what they are.
// CHECK-DAG: #mesh = #mt.mesh<dp = 2, tp = 4>
// CHECK-DAG: #dp_x_tp = #mt.sharding<#mesh, [{dp}, {}, {tp}]>
// CHECK-DAG: #x_sum_dp-tp = #mt.sharding<#mesh, [{}] partial sum {dp, tp}>
// CHECK-DAG: #scalar_max_tp = #mt.sharding<#mesh, [] partial max {tp}>
// CHECK-DAG: #mesh1 = #mt.mesh<dp = 2, tp.kv = 2, tp.rep = 2>
// CHECK-DAG: #tp_kv-tp_rep = #mt.sharding<#mesh1, [{tp.kv, tp.rep}]>

#mesh = #mt.mesh<dp = 2, tp = 4>
// CHECK-LABEL: func.func private @layouts(tensor<2x3x4xf32, #dp_x_tp>, tensor<8xf32, #x_sum_dp-tp>, tensor<f64, #scalar_max_tp>, tensor<8xf32, #tp_kv-tp_rep>)
func.func private @layouts(tensor<2x3x4xf32, #mt.sharding<#mesh, [{dp}, {}, {tp}]>>,
                           tensor<8xf32, #mt.sharding<#mesh, [{}] partial sum {tp, dp}>>,
                           tensor<f64, #mt.sharding<#mesh, [] partial max {tp}>>,
                           tensor<8xf32, #mt.sharding<#mt.mesh<dp = 2, tp.kv = 2, tp.rep = 2>, [{tp.kv, tp.rep}]>>)

// CHECK-LABEL: func.func private @parameters
// CHECK-SAME: mt.parameter = #mt.parameter<name = "w", trained = true, init = <normal, 0.000000e+00, 2.000000e-02>>
// CHECK-SAME: mt.parameter = #mt.parameter<name = "b", trained = false, init = <constant, 1.000000e+00>, checkpoint = <tensor = "attn.bias", transposed = true, shape = [8, 24], offsets = [0, 8], sizes = [8, 8]>>
func.func private @parameters(
    tensor<8xf32> {mt.parameter = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 2.0e-02>>},
    tensor<8xf32> {mt.parameter = #mt.parameter<name = "b", trained = false, init = <constant, 1.0>,
                   checkpoint = <tensor = "attn.bias", transposed = true, shape = [8, 24], offsets = [0, 8], sizes = [8, 8]>>})
