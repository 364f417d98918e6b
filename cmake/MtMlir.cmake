# Finds MLIR 22 and nothing else: other LLVM versions may lie beside it.
#
# Set MLIR_DIR to use an installation outside the usual places.
set(MT_LLVM_VERSION 22)

find_package(MLIR ${MT_LLVM_VERSION} CONFIG QUIET
  HINTS /usr/lib/llvm-${MT_LLVM_VERSION}/lib/cmake/mlir
        $ENV{LLVM_ROOT}/lib/cmake/mlir)
if(NOT MLIR_FOUND)
  # MLIR's package files state no version on some systems: check by hand.
  find_package(MLIR CONFIG QUIET NO_DEFAULT_PATH
    PATHS ${MLIR_DIR} /usr/lib/llvm-${MT_LLVM_VERSION}/lib/cmake/mlir)
endif()
if(NOT MLIR_FOUND)
  message(FATAL_ERROR
    "MLIR ${MT_LLVM_VERSION} was not found. On Debian: "
    "apt-get install libmlir-${MT_LLVM_VERSION}-dev "
    "mlir-${MT_LLVM_VERSION}-tools llvm-${MT_LLVM_VERSION}-dev "
    "(the LLVM project's repository has them); elsewhere pass "
    "-DMLIR_DIR=<prefix>/lib/cmake/mlir")
endif()
if(NOT LLVM_VERSION_MAJOR EQUAL MT_LLVM_VERSION)
  message(FATAL_ERROR
    "mt needs MLIR ${MT_LLVM_VERSION}; ${MLIR_DIR} belongs to LLVM "
    "${LLVM_PACKAGE_VERSION}. Pass -DMLIR_DIR=<prefix>/lib/cmake/mlir of "
    "version ${MT_LLVM_VERSION}")
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
