// RUN: mt-opt %s --mt-report -o /dev/null | FileCheck %s --check-prefix=TEXT
// RUN: mt-opt %s --mt-report="format=json" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: mt-opt %s --mt-report="format=json output=%t.json" -o /dev/null && FileCheck %s --check-prefix=JSON < %t.json
// RUN: mt-opt %s --mt-report="format=remarks" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not mt-opt %s --mt-report="format=html" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not mt-opt %s --mt-report="output=%t.none/report" -o /dev/null 2>&1 | FileCheck %s --check-prefix=OUTPUT

// FORMAT: error: expected a format text, json, kernels or remarks, found 'html'
// OUTPUT: error: cannot open output file

// The axis that the user named is tp; h.0 and h.1 are equal, h.2 is not.
// TEXT:      mesh dp = 2, tp = 4
// TEXT:      a step kind axes       ranks tensors dtype payload bytes    bytes sent  reason             for
// TEXT:      transformer.h.0 … transformer.h.1 ×2, forward
// TEXT-NEXT:    3 all_reduce         tp             4       1   f32            32            48  partial-result     mt.linear
// TEXT-NEXT:    3 together                                                     96           144  in each
// TEXT:      transformer.h.2, forward
// TEXT-NEXT:    3 all_gather         tp             4       1   f32            32            24  operand-layout     mt.linear
// TEXT:      update, update
// TEXT-NEXT:    1 all_reduce         dp             2       2   f32            64            64  gradient-reduction mt.adamw
// TEXT:      by axes, in a step
// TEXT-NEXT:    1 dp 64 64
// TEXT-NEXT:    9 tp 288 360
// TEXT:      {{^}}in a step
// TEXT-NEXT:   10 all 352 424

// JSON:      "axes": [
// JSON-NEXT:   "tp"
// JSON-NEXT: ],
// JSON-NEXT: "direction": "forward",
// JSON-NEXT: "dtype": "f32",
// JSON-NEXT: "executions": 3,
// JSON-NEXT: "from": "[{}] partial sum {tp}",
// JSON-NEXT: "group_size": 4,
// JSON-NEXT: "id": 0,
// JSON-NEXT: "kind": "all_reduce",
// JSON-NEXT: "location": "{{.*}}report.mlir:[[#]]:10",
// JSON-NEXT: "operation": "mt.linear",
// JSON-NEXT: "payload_bytes": 32,
// JSON-NEXT: "reason": "partial-result",
// JSON-NEXT: "ring_bytes": 48,
// JSON-NEXT: "tensors": 1,
// JSON-NEXT: "to": "[{}]",
// JSON-NEXT: "unit": "transformer.h.0"
// JSON:      "mesh": [
// JSON:        "name": "dp",
// JSON-NEXT:   "size": 2
// JSON:        "name": "tp",
// JSON-NEXT:   "size": 4
// JSON:      "parameters": [
// JSON:        "bytes_per_rank": 32,
// JSON-NEXT:   "gradient_bytes_per_rank": 32,
// JSON-NEXT:   "layouts": {
// JSON-NEXT:     "compute": "[{}]",
// JSON-NEXT:     "gradient": "[{}] partial sum {dp}",
// JSON-NEXT:     "state": "[{dp}]",
// JSON-NEXT:     "storage": "[{}]"
// JSON-NEXT:   },
// JSON-NEXT:   "name": "w",
// JSON-NEXT:   "shape": [
// JSON-NEXT:     8
// JSON-NEXT:   ],
// JSON-NEXT:   "state_bytes_per_rank": 16
// JSON:      "totals": {
// JSON:        "launches": 10,

// REMARK: report.mlir:[[#]]:10: remark: all_reduce over {tp} of 4 ranks, partial-result for mt.linear in transformer.h.0 forward: each sends 48 bytes of 32, [{}] partial sum {tp} -> [{}]

#mesh = #mt.mesh<dp = 2, tp.kv = 2, tp.rep = 2>
#x = #mt.sharding<#mesh, [{}]>
#tp = #mt.sharding<#mesh, [{tp.kv, tp.rep}]>
#dp = #mt.sharding<#mesh, [{dp}]>
#sum = #mt.sharding<#mesh, [{}] partial sum {tp.kv, tp.rep}>
#sum_dp = #mt.sharding<#mesh, [{}] partial sum {dp}>
!p = tensor<8xf32, #sum>
!r = tensor<8xf32, #x>
module attributes {mt.model = {microbatches = 3 : i64}} {
func.func @microbatch(%p: !p, %s: tensor<8xf32, #tp>, %w: !r {mt.parameter = #mt.parameter<name = "w", trained = true, init = <constant, 1.0>>},
                      %g: tensor<8xf32, #sum_dp> {mt.role = "gradient", mt.name = "w"}) {
  mt.unit "transformer.h.0" forward (%a = %p : !p) {
    %0 = mt.all_reduce %a over {tp.kv, tp.rep} of #mesh sum {traffic = #mt.traffic<id = 0, reason = partial_result, demandedBy = "mt.linear",
      unit = "transformer.h.0", direction = forward, payloadBytes = 32, ringBytes = 48, from = #sum, to = #x>} : (!p) -> !r
    mt.yield
  }
  mt.unit "transformer.h.1" forward (%a = %p : !p) {
    %0 = mt.all_reduce %a over {tp.kv, tp.rep} of #mesh sum {traffic = #mt.traffic<id = 1, reason = partial_result, demandedBy = "mt.linear",
      unit = "transformer.h.1", direction = forward, payloadBytes = 32, ringBytes = 48, from = #sum, to = #x>} : (!p) -> !r
    mt.yield
  }
  mt.unit "transformer.h.2" forward (%a = %s : tensor<8xf32, #tp>) {
    %0 = mt.all_gather %a over {tp.kv, tp.rep} of #mesh dims [0] {traffic = #mt.traffic<id = 2, reason = operand_layout, demandedBy = "mt.linear",
      unit = "transformer.h.2", direction = forward, payloadBytes = 32, ringBytes = 24, from = #tp, to = #x>} : (tensor<8xf32, #tp>) -> !r
    mt.yield
  }
  return
}
func.func @update(%g: tensor<8xf32, #sum_dp> {mt.role = "gradient", mt.name = "w"}, %m: tensor<8xf32, #dp> {mt.role = "first_moment", mt.name = "w"}) {
  %0:2 = mt.all_reduce %g, %g over {dp} of #mesh sum {traffic = #mt.traffic<id = 3, reason = gradient_reduction, demandedBy = "mt.adamw",
    unit = "update", direction = update, payloadBytes = 64, ringBytes = 64, from = #sum_dp, to = #x>} : (tensor<8xf32, #sum_dp>, tensor<8xf32, #sum_dp>) -> (!r, !r)
  return
}
}
