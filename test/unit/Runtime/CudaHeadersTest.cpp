//===- CudaHeadersTest.cpp - our declarations, beside the libraries' own --===//
//
// Nothing runs here: where the headers are there, this file compiles only if
// what mt declares of the three libraries is what they are.
//
//===----------------------------------------------------------------------===//

#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>

#include <type_traits>

#include "cuda/Types.h"

namespace ours = mt::runtime::cuda;

namespace {

/// What matters of a type to a caller: enumerators are numbers, and a pointer
/// to a structure is one whatever the structure's name.
template <typename T, typename = void> struct Plain {
  using type = T;
};
template <typename T> struct Plain<T, std::enable_if_t<std::is_class_v<T>>> {
  using type = std::integral_constant<size_t, sizeof(T)>;
};
template <typename T> struct Plain<T, std::enable_if_t<std::is_enum_v<T>>> {
  using type = std::conditional_t<sizeof(T) == 4, unsigned, T>;
};
template <typename T, typename = void> struct Pointee {
  using type = void;
};
template <typename T>
struct Pointee<T,
               std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                std::is_void_v<T> || std::is_pointer_v<T>>> {
  using type = typename Plain<T>::type;
};
template <typename T> struct Plain<T *> {
  using type = typename Pointee<std::remove_const_t<T>>::type *;
};
template <typename R, typename... A> struct Plain<R(A...)> {
  using type = void(typename Plain<R>::type, typename Plain<A>::type...);
};

template <typename OursT, typename TheirsT>
constexpr bool isSame =
    std::is_same_v<typename Plain<OursT>::type, typename Plain<TheirsT>::type>;

} // namespace

namespace mt::runtime::cuda {

#define MT_CUDA_FUNCTION(name, symbol, parameters)                             \
  static_assert(isSame<CUresult parameters, decltype(::symbol)>,               \
                "expected the header's " #symbol);
#include "cuda/Driver.def"

#define MT_CUBLASLT_FUNCTION(result, name, symbol, parameters)                 \
  static_assert(isSame<result parameters, decltype(::symbol)>,                 \
                "expected the header's " #symbol);
#include "cuda/CublasLt.def"

#define MT_NCCL_FUNCTION(result, name, symbol, parameters)                     \
  static_assert(isSame<result parameters, decltype(::symbol)>,                 \
                "expected the header's " #symbol);
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 19, 0)
#define MT_NCCL_OPTIONAL(result, name, symbol, parameters)
#endif
#include "cuda/Nccl.def"

} // namespace mt::runtime::cuda

#define MT_SAME(name)                                                          \
  static_assert(unsigned(ours::name) == unsigned(::name), #name);
MT_SAME(CUDA_SUCCESS)
MT_SAME(CUDA_ERROR_INVALID_VALUE)
MT_SAME(CUDA_ERROR_OUT_OF_MEMORY)
MT_SAME(CUDA_ERROR_NOT_INITIALIZED)
MT_SAME(CUDA_ERROR_NO_DEVICE)
MT_SAME(CUDA_ERROR_INVALID_DEVICE)
MT_SAME(CUDA_ERROR_INVALID_IMAGE)
MT_SAME(CUDA_ERROR_INVALID_CONTEXT)
MT_SAME(CUDA_ERROR_INVALID_HANDLE)
MT_SAME(CUDA_ERROR_NOT_FOUND)
MT_SAME(CUDA_ERROR_NOT_READY)
MT_SAME(CUDA_ERROR_ASSERT)
MT_SAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
MT_SAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
MT_SAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
MT_SAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
MT_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
MT_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
MT_SAME(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
MT_SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
MT_SAME(CU_STREAM_NON_BLOCKING)
MT_SAME(CU_EVENT_DEFAULT)
MT_SAME(CU_EVENT_DISABLE_TIMING)
MT_SAME(CUBLAS_STATUS_SUCCESS)
MT_SAME(CUBLAS_STATUS_INVALID_VALUE)
MT_SAME(CUBLAS_STATUS_EXECUTION_FAILED)
MT_SAME(CUBLAS_STATUS_NOT_SUPPORTED)
MT_SAME(CUBLAS_COMPUTE_32F)
MT_SAME(CUBLAS_COMPUTE_64F)
MT_SAME(CUBLAS_COMPUTE_32F_FAST_TF32)
MT_SAME(CUDA_R_32F)
MT_SAME(CUDA_R_64F)
MT_SAME(CUDA_R_16BF)
MT_SAME(CUBLAS_OP_N)
MT_SAME(CUBLAS_OP_T)
MT_SAME(CUBLASLT_MATRIX_LAYOUT_ORDER)
MT_SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
MT_SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
MT_SAME(CUBLASLT_MATMUL_DESC_TRANSA)
MT_SAME(CUBLASLT_MATMUL_DESC_TRANSB)
MT_SAME(CUBLASLT_MATMUL_DESC_EPILOGUE)
MT_SAME(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
MT_SAME(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
MT_SAME(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE)
MT_SAME(CUBLASLT_MATMUL_DESC_BIAS_POINTER)
MT_SAME(CUBLASLT_EPILOGUE_DEFAULT)
MT_SAME(CUBLASLT_EPILOGUE_BIAS)
MT_SAME(CUBLASLT_EPILOGUE_GELU_AUX)
MT_SAME(CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
MT_SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
MT_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
MT_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
MT_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
MT_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
MT_SAME(ncclSuccess)
MT_SAME(ncclUnhandledCudaError)
MT_SAME(ncclInvalidArgument)
MT_SAME(ncclInvalidUsage)
MT_SAME(ncclInProgress)
MT_SAME(ncclInt32)
MT_SAME(ncclInt64)
MT_SAME(ncclFloat32)
MT_SAME(ncclFloat64)
MT_SAME(ncclBfloat16)
MT_SAME(ncclSum)
MT_SAME(ncclMax)
MT_SAME(ncclMin)

static_assert(sizeof(ours::ncclUniqueId) == sizeof(::ncclUniqueId), "");
static_assert(sizeof(ours::cublasLtMatmulHeuristicResult_t) ==
                  sizeof(::cublasLtMatmulHeuristicResult_t),
              "");
static_assert(offsetof(ours::cublasLtMatmulHeuristicResult_t, workspaceSize) ==
                  offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize),
              "");
static_assert(offsetof(ours::ncclConfig_t, blocking) ==
                  offsetof(::ncclConfig_t, blocking),
              "");
static_assert(offsetof(ours::ncclConfig_t, splitShare) ==
                  offsetof(::ncclConfig_t, splitShare),
              "");
