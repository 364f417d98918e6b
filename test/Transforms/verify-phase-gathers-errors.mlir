// RUN: mt-opt %s --mt-verify-phase=phase=sharded -verify-diagnostics

#mesh = #mt.mesh<dp = 2>
#s = #mt.sharding<#mesh, [{dp}, {} ]>
#r = #mt.sharding<#mesh, [{}, {} ]>
#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>

func.func private @forward(%w: tensor<16x16xf32, #s> {mt.parameter = #w}) -> tensor<16x16xbf16, #r> {
  %0 = mt.unit "h.0" forward (%a = %w : tensor<16x16xf32, #s>) -> (tensor<16x16xbf16, #r>) {
    %1 = mt.reshard %a {demanded_by = "mt.unit", reason = #mt.reason<parameter_gather>} : tensor<16x16xf32, #s> -> tensor<16x16xf32, #r>
    // expected-error @+1 {{narrows a parameter behind its gather, expected the cast in front of it}}
    %2 = mt.cast %1 : (tensor<16x16xf32, #r>) -> tensor<16x16xbf16, #r>
    mt.yield %2 : tensor<16x16xbf16, #r>
  }
  return %0 : tensor<16x16xbf16, #r>
}
