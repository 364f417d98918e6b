// RUN: mt-opt %s --mt-form-kernels --mt-plan-memory --mt-report=format=kernels -o /dev/null | FileCheck %s

// A kernel reads what its ops take and writes what others need; equal ones are
// one line.
// CHECK: launches    bytes read bytes written           flops  least ms  kernel
// CHECK-NEXT:        1         18432          2048           65536         -  mt.linear: 8x64xf32
// CHECK-NEXT:        2          4096          2304            1024         -  mt.silu_grad, mt.sum_leading: 8x64xf32, 64xf32
// CHECK-NEXT: - together
!x = tensor<8x64xf32>
func.func private @microbatch(%a: !x, %b: !x, %w: tensor<64x64xf32>) -> (!x, tensor<64xf32>, !x, tensor<64xf32>) {
  %0 = mt.linear %a, %w : (!x, tensor<64x64xf32>) -> !x
  %1 = mt.silu_grad %0, %b : (!x, !x) -> !x
  %2 = mt.sum_leading %1 : (!x) -> tensor<64xf32>
  %3 = mt.silu_grad %b, %a {mt.unit = "h.1"} : (!x, !x) -> !x
  %4 = mt.sum_leading %3 {mt.unit = "h.1"} : (!x) -> tensor<64xf32>
  return %1, %2, %3, %4 : !x, tensor<64xf32>, !x, tensor<64xf32>
}
