// RUN: mt-opt %s --mt-call-attention -split-input-file -verify-diagnostics

// expected-error @below {{expected a kernel that takes '!llvm.ptr', the context of its rank, first, found '(memref<8xbf16>) -> ()'}}
func.func private @no_context(%x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 0, 0>} {
  return
}

// -----

// expected-error @below {{expected 'mt_host.attention_tensors' of an argument and an element for each tensor, found none}}
func.func private @no_tensors(%context: !llvm.ptr, %x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}} {
  return
}

// -----

// expected-error @below {{expected 'mt_host.attention_tensors' of an argument and an element for each tensor, found array<i64: 1, 0, 1>}}
func.func private @half_a_tensor(%context: !llvm.ptr, %x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 1, 0, 1>} {
  return
}

// -----

// expected-error @below {{expected a tensor in a memref among 2 arguments, found argument 2}}
func.func private @no_argument(%context: !llvm.ptr, %x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 1, 0, 2, 0>} {
  return
}

// -----

// expected-error @below {{expected a tensor in a memref among 2 arguments, found argument 0}}
func.func private @no_memref(%context: !llvm.ptr, %x: memref<8xbf16>) attributes {
    mt_host.kernel = "mt.attention", mt_host.attention = {batch = 2 : i64}, mt_host.attention_tensors = array<i64: 0, 0>} {
  return
}
