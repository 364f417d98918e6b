# mt_library(NAME sources... [DEPENDS targets...] [LINK libraries...])
# A static library of the compiler. All of the compiler links against the
# shared MLIR and LLVM only: static MLIR libraries beside the shared one would
# register every option and every type twice.
function(mt_compiler_flags target)
  target_include_directories(${target} SYSTEM PUBLIC
    ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_include_directories(${target} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
  target_compile_definitions(${target} PUBLIC ${LLVM_DEFINITIONS_LIST})
  target_compile_options(${target} PRIVATE -Wall -Wextra
    -Wno-unused-parameter -Wno-misleading-indentation)
  if(NOT LLVM_ENABLE_RTTI)
    target_compile_options(${target} PRIVATE -fno-rtti)
  endif()
  mt_sanitize(${target})
endfunction()

function(mt_sanitize target)
  if(MT_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${MT_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=${MT_SANITIZE})
  endif()
endfunction()

# Most of the time of compiling a file goes into MLIR's headers: they are
# compiled once, for all libraries of the compiler.
add_library(MtPch STATIC ${PROJECT_SOURCE_DIR}/cmake/pch/Mlir.cpp)
mt_compiler_flags(MtPch)
target_precompile_headers(MtPch PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Pass/PassManager.h>
  <llvm/ADT/MapVector.h>)

function(mt_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  mt_compiler_flags(${name})
  add_dependencies(${name} MtIRIncGen MtPassesIncGen ${ARG_DEPENDS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM MtPch)
endfunction()

# mt_tool(NAME sources... [LINK libraries...]): an executable in bin/.
function(mt_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  mt_compiler_flags(${name})
  add_dependencies(${name} MtIRIncGen MtPassesIncGen)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
endfunction()
