// RUN: mt-opt %s --mt-expand-math | FileCheck %s

// CHECK-LABEL: func.func private @narrow
// CHECK-NOT: math.{{exp|log|tanh|erf}}
// CHECK-NOT: call
func.func private @narrow(%x: f32) -> (f32, f32, f32, f32) attributes {mt_host.kernel} {
  %0 = math.exp %x : f32
  %1 = math.log %x : f32
  %2 = math.tanh %x : f32
  %3 = math.erf %x : f32
  return %0, %1, %2, %3 : f32, f32, f32, f32
}

// CHECK-LABEL: func.func private @wide
// CHECK-DAG: call @exp(
// CHECK-DAG: call @log(
// CHECK-DAG: call @tanh(
// CHECK-DAG: call @erf(
// CHECK-DAG: call @pow(
// CHECK-DAG: math.sqrt
func.func private @wide(%x: f64) -> (f64, f64, f64, f64, f64, f64) attributes {mt_host.kernel} {
  %0 = math.exp %x : f64
  %1 = math.log %x : f64
  %2 = math.tanh %x : f64
  %3 = math.erf %x : f64
  %4 = math.powf %x, %x : f64
  %5 = math.sqrt %x : f64
  return %0, %1, %2, %3, %4, %5 : f64, f64, f64, f64, f64, f64
}
