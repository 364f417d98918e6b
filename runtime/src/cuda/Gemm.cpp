//===- Gemm.cpp - matrix products by cuBLASLt -----------------------------===//

#include "Gemm.h"

#include "../Elements.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

mt_dtype sumType(mt_dtype dtype) { return dtype == MT_F64 ? MT_F64 : MT_F32; }

cudaDataType dataType(mt_dtype dtype) {
  switch (dtype) {
  case MT_F64:
    return CUDA_R_64F;
  case MT_BF16:
    return CUDA_R_16BF;
  default:
    return CUDA_R_32F;
  }
}

/// The largest power of two up to 256 that divides the address.
int64_t alignmentOf(const void *data) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(data) | 256;
  return int64_t(bits & (~bits + 1));
}

/// `matrix` at a place of the outer batch.
DeviceMatrix at(DeviceMatrix matrix, int64_t index, mt_dtype dtype) {
  matrix.data = static_cast<const char *>(matrix.data) +
                index * matrix.batch0 * elementBytes(dtype);
  return matrix;
}

DeviceMatrix transposed(DeviceMatrix matrix) {
  std::swap(matrix.row, matrix.column);
  return matrix;
}

} // namespace

/// What the library is handed for a shape.
struct Gemm::Plan {
  explicit Plan(const CublasLt &library) : library(library) {}
  ~Plan() {
    if (description)
      library.MatmulDescDestroy(description);
    for (cublasLtMatrixLayout_t layout : {x, y, result})
      if (layout)
        library.MatrixLayoutDestroy(layout);
  }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  const CublasLt &library;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t x = nullptr, y = nullptr, result = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};
};

Gemm::Gemm(const CublasLt &library, const Driver &driver, CUstream stream,
           void *workspace, bool allowsTf32, AlgorithmFile *file)
    : library(library), driver(driver), stream(stream), workspace(workspace),
      allowsTf32(allowsTf32), file(file) {
  MT_CHECK(library, Create, &handle);
}

Gemm::~Gemm() {
  plans.clear();
  library.Destroy(handle);
}

ProductKey Gemm::Shape::key() const {
  return {dtype,
          result,
          hasBias,
          hasGelu,
          allowsTf32,
          batch,
          m,
          n,
          k,
          x.isTransposed,
          x.leading,
          x.batch,
          y.isTransposed,
          y.leading,
          y.batch,
          leading,
          batchOfResult,
          alignX,
          alignY,
          alignResult};
}

void Gemm::multiply(const DeviceProduct &product) {
  if (product.m == 0 || product.n == 0 || product.batch0 == 0 ||
      product.batch1 == 0)
    return;
  if (product.k == 0 && (product.addend || product.bias || product.gelu))
    throw Error("mt_gemm_epilogue: expected products to sum, found none");
  if (product.k == 0)
    return product.accumulate ? void() : zero(product);
  DeviceProduct one = product;
  // One level of batches where the two lie as one.
  bool isOneLevel = true;
  for (const DeviceMatrix *matrix : {&one.a, &one.b, &one.c})
    isOneLevel &= matrix->batch0 == one.batch1 * matrix->batch1;
  if (isOneLevel) {
    one.batch1 *= one.batch0;
    one.batch0 = 1;
  } else if (one.batch0 > one.batch1) {
    std::swap(one.batch0, one.batch1);
    for (DeviceMatrix *matrix : {&one.a, &one.b, &one.c})
      std::swap(matrix->batch0, matrix->batch1);
  }
  int64_t outer = one.batch0;
  one.batch0 = 1;
  DeviceProduct part = one;
  for (int64_t i = 0; i < outer; ++i) {
    part.a = at(one.a, i, one.dtype);
    part.b = at(one.b, i, one.dtype);
    part.c = at(one.c, i, one.result);
    if (one.addend) {
      DeviceMatrix addend = one.c;
      addend.data = one.addend;
      part.addend = at(addend, i, one.result).data;
    }
    if (one.gelu)
      part.gelu = static_cast<char *>(one.gelu) +
                  i * one.c.batch0 * elementBytes(one.result);
    multiplyBatch(part);
  }
}

/// A bias is one number a row of what the library calls C: a column here. What
/// a GELU is of has its rows, of C by rows, one behind the other too.
void Gemm::multiplyBatch(const DeviceProduct &product) {
  if ((product.c.row == 1 || product.m == 1) && !product.bias && !product.gelu)
    return multiplyByColumns(product);
  DeviceProduct other = product;
  std::swap(other.m, other.n);
  other.a = transposed(product.b);
  other.b = transposed(product.a);
  other.c = transposed(product.c);
  multiplyByColumns(other);
}

void Gemm::multiplyByColumns(const DeviceProduct &product) {
  auto describe = [](const DeviceMatrix &matrix, int64_t rows,
                     int64_t columns) {
    bool isByColumns = matrix.row == 1 || rows == 1;
    return isByColumns
               ? Factor{false, std::max(matrix.column, rows), matrix.batch1}
               : Factor{true, std::max(matrix.row, columns), matrix.batch1};
  };
  Shape shape{product.dtype,
              product.result,
              product.bias != nullptr,
              product.gelu != nullptr,
              allowsTf32,
              product.batch1,
              product.m,
              product.n,
              product.k,
              describe(product.a, product.m, product.k),
              describe(product.b, product.k, product.n),
              std::max(product.c.column, product.m),
              product.c.batch1,
              alignmentOf(product.a.data),
              alignmentOf(product.b.data),
              alignmentOf(product.c.data)};
  const Plan &plan = this->plan(shape);
  // Of the type of the sums.
  double one = 1, factor = product.accumulate || product.addend ? 1 : 0;
  float oneFloat = 1, factorFloat = float(factor);
  bool isDouble = product.dtype == MT_F64;
  void *c = const_cast<void *>(product.c.data);
  if (product.bias)
    MT_CHECK(library, MatmulDescSetAttribute, plan.description,
             CUBLASLT_MATMUL_DESC_BIAS_POINTER, &product.bias,
             sizeof product.bias);
  if (product.gelu)
    MT_CHECK(library, MatmulDescSetAttribute, plan.description,
             CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &c, sizeof c);
  MT_CHECK(library, Matmul, handle, plan.description,
           isDouble ? static_cast<void *>(&one) : &oneFloat, product.a.data,
           plan.x, product.b.data, plan.y,
           isDouble ? static_cast<void *>(&factor) : &factorFloat,
           product.addend ? product.addend : c, plan.result,
           product.gelu ? product.gelu : c, plan.result, &plan.chosen.algo,
           workspace, plan.chosen.workspaceSize, stream);
}

/// A sum of no products; rows of C may have gaps between them.
void Gemm::zero(const DeviceProduct &product) {
  bool isByRows = product.c.column == 1 || product.n == 1;
  int64_t lines = isByRows ? product.m : product.n;
  int64_t stride = isByRows ? product.c.row : product.c.column;
  int64_t bytes = elementBytes(product.result);
  auto c = reinterpret_cast<CUdeviceptr>(product.c.data);
  for (int64_t i = 0; i < product.batch0; ++i)
    for (int64_t j = 0; j < product.batch1; ++j)
      for (int64_t line = 0; line < lines; ++line)
        MT_CHECK(driver, MemsetD8Async,
                 c + CUdeviceptr((i * product.c.batch0 + j * product.c.batch1 +
                                  line * stride) *
                                 bytes),
                 0, size_t((isByRows ? product.n : product.m) * bytes), stream);
}

const Gemm::Plan &Gemm::plan(const Shape &shape) {
  std::unique_ptr<Plan> &known = plans[shape.key()];
  if (!known)
    known = makePlan(shape);
  return *known;
}

std::unique_ptr<Gemm::Plan> Gemm::makePlan(const Shape &shape) {
  auto plan = std::make_unique<Plan>(library);
  cudaDataType type = dataType(shape.dtype);
  cudaDataType sums = dataType(sumType(shape.dtype));
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  if (shape.dtype == MT_F64)
    compute = CUBLAS_COMPUTE_64F;
  else if (shape.dtype == MT_F32 && allowsTf32)
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  MT_CHECK(library, MatmulDescCreate, &plan->description, compute, sums);
  auto setTransposed = [&](cublasLtMatmulDescAttributes_t attribute, bool is) {
    cublasOperation_t operation = is ? CUBLAS_OP_T : CUBLAS_OP_N;
    MT_CHECK(library, MatmulDescSetAttribute, plan->description, attribute,
             &operation, sizeof operation);
  };
  setTransposed(CUBLASLT_MATMUL_DESC_TRANSA, shape.x.isTransposed);
  setTransposed(CUBLASLT_MATMUL_DESC_TRANSB, shape.y.isTransposed);

  auto makeLayout = [&](cublasLtMatrixLayout_t &layout, cudaDataType of,
                        int64_t rows, int64_t columns, int64_t leading,
                        int64_t stride) {
    MT_CHECK(library, MatrixLayoutCreate, &layout, of, uint64_t(rows),
             uint64_t(columns), leading);
    int32_t count = int32_t(shape.batch);
    MT_CHECK(library, MatrixLayoutSetAttribute, layout,
             CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    MT_CHECK(library, MatrixLayoutSetAttribute, layout,
             CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
             sizeof stride);
  };
  auto makeFactor = [&](cublasLtMatrixLayout_t &layout, const Factor &factor,
                        int64_t rows, int64_t columns) {
    if (factor.isTransposed)
      std::swap(rows, columns);
    makeLayout(layout, type, rows, columns, factor.leading, factor.batch);
  };
  makeFactor(plan->x, shape.x, shape.m, shape.k);
  makeFactor(plan->y, shape.y, shape.k, shape.n);
  makeLayout(plan->result, dataType(shape.result), shape.m, shape.n,
             shape.leading, shape.batchOfResult);
  setEpilogue(shape, *plan);
  choose(shape, *plan);
  return plan;
}

void Gemm::setEpilogue(const Shape &shape, Plan &plan) {
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    MT_CHECK(library, MatmulDescSetAttribute, plan.description, attribute,
             &value, sizeof value);
  };
  if (shape.hasGelu) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, shape.hasBias
                                           ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                           : CUBLASLT_EPILOGUE_GELU_AUX);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.leading);
    if (shape.batch > 1)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, shape.batchOfResult);
  } else if (shape.hasBias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }
}

void Gemm::choose(const Shape &shape, Plan &plan) {
  ProductKey key = shape.key();
  std::optional<ProductAlgorithm> kept;
  if (file)
    kept = file->find(key);
  if (kept && kept->workspaceBytes <= size_t(workspaceBytes)) {
    plan.chosen.algo = kept->algorithm;
    plan.chosen.workspaceSize = kept->workspaceBytes;
    return;
  }
  askLibrary(shape, plan);
  if (file)
    file->add(key, {plan.chosen.algo, plan.chosen.workspaceSize});
}

/// Asks the library for its best algorithm.
void Gemm::askLibrary(const Shape &shape, Plan &plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  MT_CHECK(library, MatmulPreferenceCreate, &preference);
  std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                  cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      guard(preference, library.MatmulPreferenceDestroy);
  size_t workspaceSize = size_t(workspaceBytes);
  MT_CHECK(library, MatmulPreferenceSetAttribute, preference,
           CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspaceSize,
           sizeof workspaceSize);
  const std::pair<cublasLtMatmulPreferenceAttributes_t, int64_t> alignments[] =
      {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.alignX},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.alignY},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.alignResult},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.alignResult}};
  for (const auto &[attribute, bytes] : alignments) {
    uint32_t value = uint32_t(bytes);
    MT_CHECK(library, MatmulPreferenceSetAttribute, preference, attribute,
             &value, sizeof value);
  }
  int found = 0;
  cublasStatus_t status = library.MatmulAlgoGetHeuristic(
      handle, plan.description, plan.x, plan.y, plan.result, plan.result,
      preference, 1, &plan.chosen, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0)
    throw Error("cublaslt: expected an algorithm for a product of " +
                std::to_string(shape.m) + " x " + std::to_string(shape.n) +
                " x " + std::to_string(shape.k) + " of " +
                dtypeName(shape.dtype) + ", found none");
}
