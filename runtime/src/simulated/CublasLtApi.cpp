//===- CublasLtApi.cpp - cuBLASLt's functions, simulated ------------------===//

#include "../Elements.h"
#include "Gelu.h"
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

/// What every algorithm holds, so that no other is taken.
constexpr uint64_t algorithmMark = 0x6d7461;

/// Multiplications for which a product takes no help.
constexpr int64_t fewProducts = 100000;

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
    else if (type == CUDA_R_32F)
      static_cast<float *>(data)[i] = float(value);
    else
      mt::runtime::storeFloat(MT_BF16, data, i, double(float(value)));
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
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
  /// Receives what the GELU is of.
  void *aux = nullptr;
  int64_t auxLeading = 0, auxBatchStride = 0;

  bool hasBias() const {
    return epilogue == CUBLASLT_EPILOGUE_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool hasGelu() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
};

Layout &layoutOf(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<Layout *>(layout);
}

Description &descriptionOf(cublasLtMatmulDesc_t description) {
  return *reinterpret_cast<Description *>(description);
}

/// As the library asks of what it writes beside a GELU.
bool isAuxValid(const Description &description, const Layout &result) {
  return description.aux &&
         reinterpret_cast<uintptr_t>(description.aux) % 16 == 0 &&
         description.auxLeading % 8 == 0 &&
         description.auxLeading >= result.rows &&
         description.auxBatchStride % 8 == 0;
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

  /// Of what the GELU is of.
  Layout auxLayout() const {
    Layout layout = dLayout;
    layout.leading = description.auxLeading;
    layout.batchStride = description.auxBatchStride;
    return layout;
  }
  void run(mt::runtime::ThreadPool &pool) const;

private:
  void runBatch(int64_t batch, mt::runtime::ThreadPool &pool) const;
  void store(int64_t batch, int64_t firstRow, int64_t firstColumn,
             const double *sums) const;
};

/// Rows of a tile of the result, and columns: as many sums as registers hold.
constexpr int64_t tileRows = 4, tileColumns = 8;

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// A factor cut into strips of `width` along the dimension of the result that
/// it has, each [depth, width]; zeros where it ends.
struct Strips {
  int64_t depth, width;
  std::vector<double> values;

  const double *at(int64_t strip) const {
    return values.data() + strip * depth * width;
  }
};

/// `extent` is along the result, `isTurned` says that it is the second index.
Strips pack(const Layout &layout, const void *data, int64_t batch,
            int64_t extent, int64_t depth, bool isTurned, int64_t width) {
  Strips strips{depth, width, {}};
  strips.values.resize(size_t(roundUp(extent, width) * depth));
  int64_t along = layout.index(0, isTurned ? 0 : 1, isTurned ? 1 : 0);
  int64_t deep = layout.index(0, isTurned ? 1 : 0, isTurned ? 0 : 1);
  int64_t first = batch * layout.batchStride;
  for (int64_t i = 0; i < extent; ++i) {
    double *to = strips.values.data() + i / width * depth * width + i % width;
    for (int64_t l = 0; l < depth; ++l)
      to[l * width] = layout.load(data, first + i * along + l * deep);
  }
  return strips;
}

// Wider where the processor has it: the same sums in the same order.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define MT_WIDER __attribute__((target_clones("avx2", "default")))
#else
#define MT_WIDER
#endif

/// One tile of a product.
MT_WIDER void multiplyTile(int64_t depth, const double *left,
                           const double *right, double *sums) {
  using Half = double __attribute__((vector_size(32), aligned(8), may_alias));
  static_assert(tileRows == 4 && tileColumns == 8, "eight halves of rows");
  Half a0{}, a1{}, b0{}, b1{}, c0{}, c1{}, d0{}, d1{};
  for (int64_t l = 0; l < depth; ++l, left += tileRows, right += tileColumns) {
    Half low = *reinterpret_cast<const Half *>(right);
    Half high = *reinterpret_cast<const Half *>(right + 4);
    a0 += left[0] * low;
    a1 += left[0] * high;
    b0 += left[1] * low;
    b1 += left[1] * high;
    c0 += left[2] * low;
    c1 += left[2] * high;
    d0 += left[3] * low;
    d1 += left[3] * high;
  }
  for (const Half &half : {a0, a1, b0, b1, c0, c1, d0, d1}) {
    std::memcpy(sums, &half, sizeof half);
    sums += 4;
  }
}

void Product::store(int64_t batch, int64_t firstRow, int64_t firstColumn,
                    const double *sums) const {
  int64_t rows = std::min(tileRows, dLayout.rows - firstRow);
  int64_t columns = std::min(tileColumns, dLayout.columns - firstColumn);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      int64_t at = cLayout.index(batch, firstRow + i, firstColumn + j);
      // What is overwritten is not read: it may be no number.
      double addend = beta == 0 ? 0 : beta * cLayout.load(c, at);
      if (description.hasBias())
        addend += dLayout.load(description.bias, firstRow + i);
      double value = alpha * sums[i * tileColumns + j] + addend;
      if (description.hasGelu()) {
        Layout layout = auxLayout();
        layout.store(description.aux,
                     layout.index(batch, firstRow + i, firstColumn + j), value);
        value = gelu(value);
      }
      dLayout.store(d, dLayout.index(batch, firstRow + i, firstColumn + j),
                    value);
    }
}

void Product::runBatch(int64_t batch, mt::runtime::ThreadPool &pool) const {
  bool isATurned = description.a != CUBLAS_OP_N;
  bool isBTurned = description.b != CUBLAS_OP_N;
  int64_t depth = isATurned ? aLayout.rows : aLayout.columns;
  Strips left =
      pack(aLayout, a, batch, dLayout.rows, depth, isATurned, tileRows);
  Strips right =
      pack(bLayout, b, batch, dLayout.columns, depth, !isBTurned, tileColumns);
  auto runStrips = [&](int64_t first, int64_t last) {
    double sums[tileRows * tileColumns];
    for (int64_t i = first; i < last; ++i)
      for (int64_t j = 0; j * tileColumns < dLayout.columns; ++j) {
        multiplyTile(depth, left.at(i), right.at(j), sums);
        store(batch, i * tileRows, j * tileColumns, sums);
      }
  };
  int64_t strips = roundUp(dLayout.rows, tileRows) / tileRows;
  if (dLayout.rows * dLayout.columns * depth < fewProducts)
    runStrips(0, strips);
  else
    pool.run(strips, runStrips);
}

void Product::run(mt::runtime::ThreadPool &pool) const {
  for (int64_t batch = 0; batch < dLayout.batches; ++batch)
    runBatch(batch, pool);
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

size_t cublasLtGetVersion() { return 130000; }

const char *cublasLtGetStatusString(cublasStatus_t status) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  static thread_local std::string kept;
  if (status == CUBLAS_STATUS_INVALID_VALUE)
    kept = "an invalid value";
  else
    kept = sim.hasFailed() ? sim.memory.problem : "a failed execution";
  return kept.c_str();
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
  Description &it = descriptionOf(description);
  auto set = [&](auto &field) {
    if (bytes != sizeof field)
      return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(it.a);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(it.b);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(it.epilogue);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(it.bias);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(it.aux);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(it.auxLeading);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
    return set(it.auxBatchStride);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
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
  results[0].algo.data[0] = algorithmMark;
  results[0].workspaceSize = workspaceNeed;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t cLayout, void *d,
               cublasLtMatrixLayout_t dLayout,
               const cublasLtMatmulAlgo_t *algorithm, void *workspace,
               size_t workspaceBytes, CUstream stream) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (sim.hasFailed() || workspaceBytes < workspaceNeed)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const Description &operations = descriptionOf(description);
  if (algorithm->data[0] != algorithmMark ||
      (operations.hasBias() && !operations.bias) ||
      (operations.hasGelu() && !isAuxValid(operations, layoutOf(dLayout))))
    return CUBLAS_STATUS_INVALID_VALUE;
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
  if (operations.hasBias())
    operation.reads.push_back(
        {reinterpret_cast<uintptr_t>(operations.bias),
         size_t(product.dLayout.rows * product.dLayout.elementSize())});
  product.dLayout.addRanges(d, operation.writes);
  if (operations.hasGelu())
    product.auxLayout().addRanges(operations.aux, operation.writes);
  operation.writes.push_back(
      {reinterpret_cast<uintptr_t>(workspace), workspaceNeed});
  operation.run = [&sim, product] { product.run(*sim.pool); };
  sim.enqueue(streamOf(stream), std::move(operation));
  return CUBLAS_STATUS_SUCCESS;
}
