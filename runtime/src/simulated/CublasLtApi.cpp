//===- CublasLtApi.cpp - cuBLASLt's functions, simulated ------------------===//

#include "Simulator.h"

#include <algorithm>
#include <cstring>

using namespace mt::simulated;

#define MT_CUBLASLT_FUNCTION(result, name, symbol, parameters)                 \
  extern "C" result symbol parameters;
#include "../cuda/CublasLt.def"

namespace {

/// What the simulated algorithm says it needs.
constexpr size_t workspaceNeed = 4096;

struct Layout {
  cudaDataType type;
  int64_t rows, columns, leading;
  bool isByRows = false;
  int32_t batches = 1;
  int64_t batchStride = 0;

  int64_t elementSize() const {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_16BF ? 2 : 4;
  }
  int64_t index(int64_t batch, int64_t row, int64_t column) const {
    return batch * batchStride +
           (isByRows ? row * leading + column : column * leading + row);
  }
  double load(const void *data, int64_t i) const {
    if (type == CUDA_R_64F)
      return static_cast<const double *>(data)[i];
    if (type == CUDA_R_32F)
      return double(static_cast<const float *>(data)[i]);
    uint32_t bits = uint32_t(static_cast<const uint16_t *>(data)[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return double(value);
  }
  void store(void *data, int64_t i, double value) const {
    if (type == CUDA_R_64F)
      static_cast<double *>(data)[i] = value;
    else
      static_cast<float *>(data)[i] = float(value);
  }
  /// What a matrix at `data` takes, line by line.
  void addRanges(const void *data, std::vector<Range> &ranges) const {
    int64_t lines = isByRows ? rows : columns, line = isByRows ? columns : rows;
    bool isDense = leading == line;
    for (int64_t batch = 0; batch < batches; ++batch) {
      // All batches are one where they do not move on.
      if (batch > 0 && batchStride == 0)
        return;
      for (int64_t i = 0; i < (isDense ? 1 : lines); ++i) {
        int64_t first = batch * batchStride + i * leading;
        ranges.push_back(
            {reinterpret_cast<uintptr_t>(data) +
                 uintptr_t(first * elementSize()),
             size_t((isDense ? lines * line : line) * elementSize())});
      }
    }
  }
};

struct Description {
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};

Layout &layoutOf(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<Layout *>(layout);
}

Description &descriptionOf(cublasLtMatmulDesc_t description) {
  return *reinterpret_cast<Description *>(description);
}

double scalar(const void *value, cudaDataType type) {
  return type == CUDA_R_64F ? *static_cast<const double *>(value)
                            : double(*static_cast<const float *>(value));
}

/// One product of matrices, all batches of it.
struct Product {
  Description description;
  double alpha, beta;
  const void *a, *b, *c;
  void *d;
  Layout aLayout, bLayout, cLayout, dLayout;

  void run() const;

private:
  void runBatch(int64_t batch) const;
};

/// A factor by rows, turned where it is to be.
std::vector<double> load(const Layout &layout, const void *data, int64_t batch,
                         cublasOperation_t operation) {
  bool isTurned = operation != CUBLAS_OP_N;
  int64_t rows = isTurned ? layout.columns : layout.rows;
  int64_t columns = isTurned ? layout.rows : layout.columns;
  std::vector<double> values;
  values.reserve(size_t(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      values.push_back(layout.load(
          data, layout.index(batch, isTurned ? j : i, isTurned ? i : j)));
  return values;
}

void Product::runBatch(int64_t batch) const {
  std::vector<double> left = load(aLayout, a, batch, description.a);
  std::vector<double> right = load(bLayout, b, batch, description.b);
  size_t rows = size_t(dLayout.rows), columns = size_t(dLayout.columns);
  size_t depth = left.size() / rows;
  std::vector<double> sums(columns);
  for (size_t i = 0; i < rows; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (size_t l = 0; l < depth; ++l) {
      double factor = left[i * depth + l];
      const double *row = &right[l * columns];
      for (size_t j = 0; j < columns; ++j)
        sums[j] += factor * row[j];
    }
    for (size_t j = 0; j < columns; ++j) {
      int64_t c = cLayout.index(batch, int64_t(i), int64_t(j));
      // What is overwritten is not read: it may be no number.
      double addend = beta == 0 ? 0 : beta * cLayout.load(this->c, c);
      dLayout.store(d, dLayout.index(batch, int64_t(i), int64_t(j)),
                    alpha * sums[j] + addend);
    }
  }
}

void Product::run() const {
  for (int64_t batch = 0; batch < dLayout.batches; ++batch)
    runBatch(batch);
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value"
                                               : "a failed execution";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t,
                                        cudaDataType scale) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &descriptionOf(description);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  cublasOperation_t operation;
  if (bytes != sizeof operation)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&operation, value, bytes);
  (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? descriptionOf(description).a
                                            : descriptionOf(description).b) =
      operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, int64_t(rows), int64_t(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &layoutOf(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  Layout &it = layoutOf(layout);
  int32_t order = 0;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
      bytes == sizeof it.batchStride)
    std::memcpy(&it.batchStride, value, bytes);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
           bytes == sizeof it.batches)
    std::memcpy(&it.batches, value, bytes);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_ORDER && bytes == sizeof order)
    std::memcpy(&order, value, bytes), it.isByRows = order != 0;
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<char *>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t,
                                     const void *, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t description,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int asked,
    cublasLtMatmulHeuristicResult_t *results, int *found) {
  *found = 0;
  for (const Layout *layout : {&layoutOf(a), &layoutOf(b), &layoutOf(d)})
    if (layout->leading < (layout->isByRows ? layout->columns : layout->rows))
      return CUBLAS_STATUS_INVALID_VALUE;
  const Description &operations = descriptionOf(description);
  auto shape = [](const Layout &layout, cublasOperation_t operation) {
    return operation == CUBLAS_OP_N ? std::pair(layout.rows, layout.columns)
                                    : std::pair(layout.columns, layout.rows);
  };
  auto [m, k] = shape(layoutOf(a), operations.a);
  auto [depth, n] = shape(layoutOf(b), operations.b);
  if (asked < 1 || k != depth || m != layoutOf(d).rows ||
      n != layoutOf(d).columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  results[0].workspaceSize = workspaceNeed;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t cLayout, void *d,
               cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *,
               void *workspace, size_t workspaceBytes, CUstream stream) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (sim.hasFailed() || workspaceBytes < workspaceNeed)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const Description &operations = descriptionOf(description);
  Product product{operations,
                  scalar(alpha, operations.scale),
                  scalar(beta, operations.scale),
                  a,
                  b,
                  c,
                  d,
                  layoutOf(aLayout),
                  layoutOf(bLayout),
                  layoutOf(cLayout),
                  layoutOf(dLayout)};
  Operation operation;
  operation.name = "matrix product";
  product.aLayout.addRanges(a, operation.reads);
  product.bLayout.addRanges(b, operation.reads);
  if (product.beta != 0)
    product.cLayout.addRanges(c, operation.reads);
  product.dLayout.addRanges(d, operation.writes);
  operation.writes.push_back(
      {reinterpret_cast<uintptr_t>(workspace), workspaceNeed});
  operation.run = [product] { product.run(); };
  sim.enqueue(streamOf(stream), std::move(operation));
  return CUBLAS_STATUS_SUCCESS;
}
