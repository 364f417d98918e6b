// RUN: mt-opt %s --mt-verify-lowered -split-input-file -verify-diagnostics

// expected-error @below {{'llvm.func' op is not a function that compiled code may call}}
llvm.func @malloc(i64) -> !llvm.ptr

// -----

// expected-error @below {{expected the type '!llvm.func<i64 (ptr, i64)>' of abi.def, found '!llvm.func<i64 (ptr)>'}}
llvm.func @mt_group_index(!llvm.ptr) -> i64

// -----

// expected-error @below {{'func.func' op does not belong to the lowered phase}}
func.func private @left()

// -----

// These belong.
llvm.func @mt_group_index(!llvm.ptr, i64) -> i64
llvm.func @pow(f64, f64) -> f64
