// RUN: mt-opt %s --mt-call-attention -verify-diagnostics

// expected-error @below {{expected a kernel that takes '!llvm.ptr', the context of its rank, first, found '(memref<8xbf16>) -> ()'}}
func.func private @no_context(%x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 0, 0>} {
  return
}
