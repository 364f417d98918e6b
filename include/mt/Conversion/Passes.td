//===- Passes.td - from scheduled programs to native code ----*- tablegen -*-===//
//
// In the order of Pipelines (HostPipeline.cpp). "Kernel" and "entry" are those
// of HostOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MT_CONVERSION_PASSES_TD
#define MT_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def OutlineKernels : Pass<"mt-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "move every computation into a function, equal ones into one";
  let description = [{
    Requires phase: scheduled. Ensures: entries hold launches, views, copies,
    collectives and `mt.shard_offset`, with the places that ops had.

    Ops that are equal in name, attributes, types and in the operands that
    their results take over share a kernel, so the work that is left grows with
    distinct computations, not with layers. A result that takes over an operand
    has one argument with it. Ops that only regroup dimensions become views.

    ```mlir
    // before
    %y = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    // after
    func.func private @k_scale_8xf32(%context: !llvm.ptr, %0: memref<8xf32>, %1: memref<8xf32>) attributes {mt_host.kernel = "mt.scale"} {
      %2 = bufferization.to_tensor %0 restrict : memref<8xf32> to tensor<8xf32>
      %3 = mt.scale %2 {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
      bufferization.materialize_in_destination %3 in restrict writable %1 : (tensor<8xf32>, memref<8xf32>) -> ()
      return
    }
    %y = mt_host.launch @k_scale_8xf32(%x) : (tensor<8xf32>) -> tensor<8xf32>
    ```

    Fails when an entry holds an op that the scheduled phase does not have.
  }];
  let dependentDialects = [
    "::mt::host::MtHostDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
}

def OfferAttention : Pass<"mt-offer-attention", "::mlir::ModuleOp"> {
  let summary = "mark kernels of attention that a library may do";
  let description = [{
    Requires: kernels of `mt-outline-kernels`; for a device. Ensures: a kernel
    whose only computation is attention of bf16, or its gradient, says its sizes
    and where its tensors lie (`mt_host.attention`, HostOps.td).

    Not where keys are masked, weights are dropped, a result takes over an
    operand, or, with `causal`, queries and keys have other positions than
    those of one `mt.positions`: a library counts queries and keys from 0.

    ```mlir
    func.func private @k_attention_2x32x4x8xbf16(%context: !llvm.ptr, ...) attributes {
        mt_host.attention = {batch = 2, queries = 32, ..., strides = [array<i64: 1024, 32, 8>, ...]},
        mt_host.attention_tensors = array<i64: 1, 0, 2, 0, 3, 0, 6, 0, 7, 0>, ...}
    ```
  }];
  let dependentDialects = ["::mt::host::MtHostDialect"];
}

def ToLinalg : Pass<"mt-to-linalg", "::mlir::func::FuncOp"> {
  let summary = "expand the op of a kernel into linalg on tensors";
  let description = [{
    Requires: kernels of `mt-outline-kernels`. Ensures: no op of the mt dialect
    in a kernel. Other functions stay as they are.

    Sums over rows, tokens and whole tensors are taken in 64 bits; bf16 is
    computed in f32.

    ```mlir
    // before
    %y = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    // after
    %0 = tensor.empty() : tensor<8xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %1 = arith.mulf %in, %cst fastmath<contract> : f32
      linalg.yield %1 : f32
    } -> tensor<8xf32>
    ```

    On a device, which has more threads than there are heads or rows of a batch,
    attention's tasks are tiles of queries or keys, the scores of its backward
    pass are computed twice, and the rows of a table's gradient are shared,
    each found among the ids by the threads that own it.

    Fails when an op has no lowering.
  }];
  let options = [
    Option<"onDevice", "on-device", "bool", "false",
           "for the many threads of a device rather than a host's few">,
    Option<"sumParts", "sum-parts", "int64_t", "::mt::rowSumParts",
           "parts of the sum of squares of a tensor">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"];
}

def FuseElementwise : Pass<"mt-fuse-elementwise", "::mlir::func::FuncOp"> {
  let summary = "elementwise linalg ops of a kernel become one";
  let description = [{
    Requires: kernels in linalg on tensors. Ensures the same.

    An op is computed inside the op that reads it where each of its elements is
    read once, so that nothing is computed twice: what belongs to a row is not
    computed again for every column.

    ```mlir
    // before
    %1 = linalg.generic {...} ins(%x : tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) { exp }
    %2 = linalg.generic {...} ins(%1, %y : ...) outs(%e : tensor<8x64xf32>) { mul }
    // after
    %2 = linalg.generic {...} ins(%x, %y : ...) outs(%e : tensor<8x64xf32>) { exp, mul }
    ```
  }];
  let options = [
    Option<"widenAgain", "widen-again", "bool", "false",
           "widen bf16 wherever it is read, rather than to keep rows of f32: "
           "shared memory is small">
  ];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::linalg::LinalgDialect"];
}

def ReuseOperands : Pass<"mt-reuse-operands", "::mlir::func::FuncOp"> {
  let summary = "write results over the operands that they take over";
  let description = [{
    Requires: kernels in linalg on tensors. Ensures the same; where a result
    takes over an operand (`mt.reuse`), the op that computes it writes over what
    it reads.

    ```mlir
    // before
    %0 = bufferization.to_tensor %a restrict : memref<8xf32> to tensor<8xf32>
    %1 = tensor.empty() : tensor<8xf32>
    %2 = linalg.generic {...} ins(%0 : tensor<8xf32>) outs(%1 : tensor<8xf32>) {...} -> tensor<8xf32>
    bufferization.materialize_in_destination %2 in writable %a : (tensor<8xf32>, memref<8xf32>) -> ()
    // after
    %0 = bufferization.to_tensor %a restrict writable : memref<8xf32> to tensor<8xf32>
    %2 = linalg.generic {...} ins(%0 : tensor<8xf32>) outs(%0 : tensor<8xf32>) {...} -> tensor<8xf32>
    bufferization.materialize_in_destination %2 in writable %a : (tensor<8xf32>, memref<8xf32>) -> ()
    ```

    Fails, as an internal error, when a kernel reads an element of the operand
    for anything but the same element of the result: then the op promises by
    `getReusableOperands` what its lowering does not keep.
  }];
}

def BufferizeKernels : Pass<"mt-bufferize-kernels", "::mlir::func::FuncOp"> {
  let summary = "kernels on memory only";
  let description = [{
    Requires: kernels in linalg on tensors. Ensures: kernels on memrefs, which
    allocate what they hold beyond their arguments.

    ```mlir
    // before
    %0 = bufferization.to_tensor %a restrict : memref<8xf32> to tensor<8xf32>
    %1 = tensor.empty() : tensor<8xf32>
    %2 = linalg.generic {...} ins(%0 : tensor<8xf32>) outs(%1 : tensor<8xf32>) {...} -> tensor<8xf32>
    bufferization.materialize_in_destination %2 in restrict writable %b : (tensor<8xf32>, memref<8xf32>) -> ()
    // after
    linalg.generic {...} ins(%a : memref<8xf32>) outs(%b : memref<8xf32>) {...}
    ```

    Fails when a tensor cannot be bufferized, which no kernel of `mt-to-linalg`
    causes.
  }];
  let dependentDialects = [
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::memref::MemRefDialect"];
}

def FuseRows : Pass<"mt-fuse-rows", "::mlir::func::FuncOp"> {
  let summary = "linalg ops of a kernel run on a few rows at a time";
  let description = [{
    Requires: kernels on memrefs that allocate what they hold. Ensures the same.

    Rows are all dimensions but the last of the kernel's largest op. Ops that
    touch memory row by row become one loop over blocks of rows, which fit into
    a first-level cache; what only they use holds one block. Sums over rows are
    taken in at most 32 parts, which are then added in order. How rows are cut
    depends on shapes alone: results are the same bits for any number of
    threads. Below `min-points` iterations the loop is an `scf.for`, else an
    `scf.forall`, for `mt-parallelize-kernels`.

    ```mlir
    // before
    linalg.generic {...} ins(%x : memref<128x512xf32>) outs(%m : memref<128xf64>) { max of a row }
    linalg.generic {...} ins(%x, %m : ...) outs(%y : memref<128x512xf32>) { exp }
    // after
    scf.forall (%block) in (16) {
      %first = arith.muli %block, %c8 : index
      %m8 = memref.alloc() : memref<8xf64>
      %x8 = memref.subview %x[%first, 0] [8, 512] [1, 1] : ...
      %y8 = memref.subview %y[%first, 0] [8, 512] [1, 1] : ...
      linalg.generic {...} ins(%x8 : ...) outs(%m8 : memref<8xf64>) { max of a row }
      linalg.generic {...} ins(%x8, %m8 : ...) outs(%y8 : ...) { exp }
    }
    ```
  }];
  let options = [
    Option<"minPoints", "min-points", "int64_t", "32768",
           "iterations of all ops from which on threads share them">,
    Option<"blockBytes", "block-bytes", "int64_t", "32768",
           "what the rows of a block may take of a cache; at least one row is "
           "a block">,
    Option<"sumParts", "sum-parts", "int64_t", "::mt::rowSumParts",
           "tasks that sum over rows at most">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def PlaceScratch : Pass<"mt-place-scratch", "::mlir::func::FuncOp"> {
  let summary = "what kernels allocate lies on stacks or where it was planned";
  let description = [{
    Requires: kernels on memrefs. Ensures: no allocation.

    What a kernel holds beyond its arguments becomes part of its last argument,
    a memref of as many bytes as were planned (`mt_host.scratch_bytes`), or lies
    on the stack: of a thread, if it belongs to a task of an `scf.forall`; of
    the kernel, if it belongs to another loop or is small.

    ```mlir
    // before
    %0 = memref.alloc() : memref<64x256xf32>
    // after
    %0 = memref.view %scratch[%c0][] : memref<65536xi8> to memref<64x256xf32>
    ```

    Fails, as an internal error, when a kernel needs more scratch than was
    planned.
  }];
  let options = [
    Option<"onDevice", "on-device", "bool", "false",
           "leave what tasks of an `scf.forall` hold where it is allocated, and "
           "put on the stack what is more than was planned: a device has more "
           "parts of sums">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def ContractionsToRuntime
    : Pass<"mt-contractions-to-runtime", "::mlir::ModuleOp"> {
  let summary = "matrix products become calls of mt_gemm";
  let description = [{
    Requires: kernels on memrefs.

    A `linalg.generic` that sums products of two f32 or f64 memrefs, or in f32
    those of two bf16 memrefs, is called as a batched product. Dimensions that
    lie next to each other in memory are joined; those that the function has no
    place for become loops. A fill with zero before it is dropped.

    ```mlir
    // before
    linalg.fill ins(%zero : f32) outs(%y : memref<8x16xf32>)
    linalg.generic {...} ins(%x, %w : memref<8x4xf32>, memref<16x4xf32>) outs(%y : memref<8x16xf32>) {...}
    // after
    func.call @mt_gemm_f32(%context, ...)
    ```

    Fails when the kernel does not take the context of its rank first.
  }];
  let options = [
    Option<"outermost", "outermost", "bool", "false",
           "leave products that a task of an `scf.forall` computes">
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def FuseEpilogues : Pass<"mt-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "products of bf16 that add and round by themselves";
  let description = [{
    Requires: kernels on memrefs; for a device.

    A contraction of bf16 whose sums, in f32, lie in memory of their own, and
    the one op that reads them, which may add a bias and a tensor of the result's
    shape, and rounds, are one call: the epilogue of a GEMM. Nothing of f32 is
    written. So is GELU of the result in its tanh form, where the next op is that
    (`mt_host.gelu_tanh`). What is on the kernel's stack stays as it is.

    ```mlir
    // before
    linalg.fill ins(%zero : f32) outs(%sums : memref<8x16xf32>)
    linalg.generic {...} ins(%x, %w : memref<8x4xbf16>, memref<16x4xbf16>) outs(%sums : memref<8x16xf32>) {...}
    linalg.generic {...} ins(%sums, %b : memref<8x16xf32>, memref<16xbf16>) outs(%y : memref<8x16xbf16>) {...}
    // after
    func.call @mt_gemm_epilogue(%context, ...)
    ```

    Fails when the kernel does not take the context of its rank first.
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::memref::MemRefDialect"];
}

def MapToGrids : Pass<"mt-map-to-grids", "::mlir::ModuleOp"> {
  let summary = "loops and linalg ops of kernels become functions of a device";
  let description = [{
    Requires: kernels on memrefs, whose products are calls. Ensures: a
    `gpu.module @device` with a function for every `scf.forall`, every linalg
    op and every other loop of a kernel; kernels queue them
    (`mt_host.grid`) between their calls, and touch no memory themselves.

    A task of an `scf.forall` is run by a warp where its rows are short, else by
    a block; what it holds lies in shared memory. A linalg op is shared by
    threads that take neighbouring points, 16 bytes each where memory is
    aligned for it; sums over a row are taken by all threads of a team, in an
    order that depends on shapes alone. Contractions of bf16 inside of a task,
    of whole tiles, are `nvvm.mma.sync`. A team waits where one of its threads
    touches what another has written. What stacks hold on the host is memory of
    the device (`mt_host.scratch`).

    ```mlir
    // before
    linalg.generic {...} ins(%x : memref<128x512xf32>) outs(%y : memref<128x512xf32>) {...}
    // after
    mt_host.grid %context, @device::@k_gelu_grid(%x, %y) : !llvm.ptr, memref<128x512xf32>, memref<128x512xf32>
    // and, in gpu.module @device
    gpu.func @k_gelu_grid(%x: memref<128x512xf32>, %y: memref<128x512xf32>) kernel attributes {mt_host.blocks = 64 : i64, mt_host.threads = 256 : i64, ...} {...}
    ```

    Fails when a kernel does not take the context of its rank first, and, as an
    internal error, when a task holds more than shared memory does, or the host
    would touch a kernel's memory.
  }];
  let dependentDialects = [
    "::mt::host::MtHostDialect", "::mlir::affine::AffineDialect",
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def CallAttention : Pass<"mt-call-attention", "::mlir::ModuleOp"> {
  let summary = "ask a library for attention before the kernel does it";
  let description = [{
    Requires: kernels of `mt-map-to-grids`, some of them marked by
    `mt-offer-attention`.

    ```mlir
    // before
    mt_host.grid %context, @device::@k_attention_grid(...)
    // after
    %done = call @mt_attention(%context, %number, %addresses)
    cond_br %done, ^end, ^own
    ^own:
    mt_host.grid %context, @device::@k_attention_grid(...)
    ```

    Fails when a kernel does not take the context of its rank first, or has not
    the arguments that its mark says.
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect"];
}

def ExpandDeviceMath
    : Pass<"mt-expand-device-math", "::mlir::gpu::GPUModuleOp"> {
  let summary = "exp, log, tanh, erf, pow, sin, cos as arithmetic";
  let description = [{
    Requires: functions of a device. In 32 bits the same polynomials as on the
    host (`mt-expand-math`), in 64 bits series that are within a few units in
    the last place: devices have no libm, and code for them is to be made
    where nothing of their maker's is installed.

    ```mlir
    // before
    %y = math.exp %x : f64
    // after
    %n = math.roundeven ...
    ```

    Fails where a function has no such expansion.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def ParallelizeKernels : Pass<"mt-parallelize-kernels", "::mlir::ModuleOp"> {
  let summary = "run large loops of kernels on the threads of the rank";
  let description = [{
    Requires: kernels on memrefs. Ensures: every `scf.forall`, and every linalg
    op of at least `min-points` iterations that has a parallel dimension, is a
    part of its kernel that `mt_host.parallel` runs.

    A linalg op is cut along its first long dimension that is not summed over;
    where that is the innermost one, in pieces of 64, so that the same elements
    share a vector register wherever a range ends. So results are the same bits
    for any number of threads.

    ```mlir
    // before
    linalg.generic {...} ins(%x : memref<128x512xf32>) outs(%y : memref<128x512xf32>) {...}
    // after
    func.func private @k_part(%x: memref<128x512xf32>, %y: memref<128x512xf32>, %first: index, %last: index) {
      %size = arith.subi %last, %first : index
      %0 = memref.subview %x[%first, 0] [%size, 512] [1, 1] : ...
      %1 = memref.subview %y[%first, 0] [%size, 512] [1, 1] : ...
      linalg.generic {...} ins(%0 : memref<?x512xf32, ...>) outs(%1 : memref<?x512xf32, ...>) {...}
      return
    }
    mt_host.parallel %context, @k_part(%x, %y) count 128 : ...
    ```

    Fails when a kernel does not take the context of its rank first, and, as an
    internal error, at an `scf.forall` of more than one dimension or of unknown
    size.
  }];
  let options = [
    Option<"minPoints", "min-points", "int64_t", "32768",
           "iterations of a linalg op from which on it is cut">
  ];
  let dependentDialects = [
    "::mt::host::MtHostDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"];
}

def MakeTwins : Pass<"mt-make-twins", "::mlir::ModuleOp"> {
  let summary = "functions of a device as functions of the host, too";
  let description = [{
    Requires: functions of `mt-map-to-grids`. Ensures: for each one a kernel of
    the host, which is one thread of it: it reads the thread's and the block's
    number, and calls back where threads meet and before it touches memory
    (device.h). A simulated device runs them.

    ```mlir
    // before
    gpu.func @k_grid(%x: memref<8xf32>) kernel { %thread = gpu.thread_id x ... gpu.barrier ... }
    // after
    gpu.func @k_grid(%x: memref<8xf32>) kernel { %thread = gpu.thread_id x ... gpu.barrier ... }
    func.func private @k_grid_twin(%thread: !llvm.ptr, %shared: memref<4096xi8>, %x: memref<8xf32>) attributes {mt_host.twin = "k_grid"} {...}
    ```
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"];
}

def EmbedTwins : Pass<"mt-embed-twins", "::mlir::ModuleOp"> {
  let summary = "the table of the twins";
  let description = [{
    Requires: twins in the LLVM dialect. Ensures: the image `mt_image_twin`
    (device.h), which names them.

    ```mlir
    llvm.mlir.global external constant @mt_image_twin() : !llvm.struct<(array<8 x i8>, i64, ptr)> {...}
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def EmbedManifest : Pass<"mt-embed-manifest", "::mlir::ModuleOp"> {
  let summary = "describe the step in the constants that the runtime reads";
  let description = [{
    Requires: places of values. Ensures: globals `mt_manifest` and
    `mt_abi_version` (docs/manifest.md).

    Groups are numbered in the order of their first use, collectives in that of
    their traffic's ids, without gaps: the same numbers that the code passes.

    ```mlir
    llvm.mlir.global external constant @mt_manifest("{...}\00")
    llvm.mlir.global external constant @mt_abi_version(5 : i32) : i32
    ```

    Fails when a buffer that belongs to a parameter names one that the module
    does not have.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"host\"",
           "the manifest's key `target`">,
    Option<"architecture", "architecture", "std::string", "\"\"",
           "of the processor that the code is for; empty: not known">,
    Option<"processor", "processor", "std::string", "\"\"",
           "its name, as `llc -mcpu` takes it">,
    ListOption<"features", "features", "std::string",
               "what the code needs it to have">,
    ListOption<"images", "images", "std::string",
               "code for a device, each `kind:architecture:symbol`">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def ExpandMath : Pass<"mt-expand-math", "::mlir::ModuleOp"> {
  let summary = "exp, log, tanh, erf: polynomials in 32 bits, libm in 64";
  let description = [{
    Requires: kernels. The polynomials are within a few units in the last place
    and can be vectorised; 64 bits are for checking, so they are libm's.

    ```mlir
    // before
    %y = math.exp %x : f64
    // after
    %y = func.call @exp(%x) : (f64) -> f64
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect",
                           "::mlir::func::FuncDialect"];
}

def KernelsToLLVM : Pass<"mt-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "kernels become LLVM functions on bare pointers";
  let description = [{
    Requires: kernels in control flow on memrefs. Ensures: kernels in the LLVM
    dialect. Entries stay. `mt_host.parallel` becomes a call of `mt_parallel`
    with a function that reads the part's inputs from a structure on the stack.

    ```mlir
    // before
    func.func private @k(%context: !llvm.ptr, %x: memref<8xf32> {llvm.noalias}) attributes {mt_host.kernel} {...}
    // after
    llvm.func internal @k(%context: !llvm.ptr, %x: !llvm.ptr {llvm.noalias}) attributes {mt_host.kernel, no_inline} {...}
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::affine::AffineDialect"];
}

def EntriesToLLVM : Pass<"mt-entries-to-llvm", "::mlir::ModuleOp"> {
  let summary = "entries become functions that the runtime calls";
  let description = [{
    Requires: planned buffers, kernels in LLVM. Ensures phase: lowered.

    An entry `@name` becomes `int32_t mt_name(mt_context *, void *const
    *buffers, void *arena)`. Launches become calls, collectives calls of
    abi.def after each of which the entry returns if it must.

    ```mlir
    // before
    %y = mt.all_reduce %x over {tp} of #mesh sum {...} : (tensor<8xf32>) -> tensor<8xf32>
    // after
    %0 = llvm.call @mt_all_reduce(%context, %id, %group, ...) : (...) -> i32
    %1 = llvm.icmp "ne" %0, %zero : i32
    llvm.cond_br %1, ^exit(%0 : i32), ^next
    ```

    Fails when a value of an entry has no place in memory.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def VerifyLowered : Pass<"mt-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "check that only LLVM is left, and calls that abi.def lists";
  let description = [{
    Changes nothing. Besides abi.def, the functions of libm that
    `mt-expand-math` makes may be called.

    Fails at the first op or call that does not belong.
  }];
}

#endif // MT_CONVERSION_PASSES_TD
