//===- AttentionGraph.cpp - attention as cuDNN knows it -------------------===//

#include "AttentionGraph.h"

#include <utility>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

constexpr cudnnDataType_t f32 = CUDNN_DATA_FLOAT, bf16 = CUDNN_DATA_BFLOAT16;

class Builder {
public:
  Builder(CudnnGraph &graph, const DeviceAttention &attention)
      : graph(graph), is(attention), scale(graph.scalar(Scale)) {}

  void addForward();
  void addGradient();

private:
  bool isOfKeys(AttentionTensor tensor) const {
    return tensor == Key || tensor == Value || tensor == KeyGrad ||
           tensor == ValueGrad;
  }
  CudnnShape shape(AttentionTensor tensor) const {
    return isOfKeys(tensor)
               ? CudnnShape{is.batch, is.keyHeads, is.keys, is.width}
               : CudnnShape{is.batch, is.heads, is.queries,
                            tensor == LogSumExp ? 1 : is.width};
  }
  CudnnShape strides(AttentionTensor tensor) const {
    const AttentionStrides &of = is.strides[size_t(tensor)];
    return {of.batch, of.head, of.sequence, 1};
  }
  CudnnTensor inMemory(AttentionTensor tensor) {
    return graph.inMemory(tensor, tensor == LogSumExp ? f32 : bf16,
                          shape(tensor), strides(tensor));
  }
  /// With its two inner dimensions swapped.
  CudnnTensor transposed(AttentionTensor tensor) {
    CudnnShape dims = shape(tensor), steps = strides(tensor);
    std::swap(dims[2], dims[3]);
    std::swap(steps[2], steps[3]);
    return graph.inMemory(tensor, bf16, dims, steps);
  }

  /// A new tensor of f32, of x's shape.
  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor &x) {
    CudnnTensor y = graph.between(f32, x.dims);
    graph.apply(mode, x, nullptr, y);
    return y;
  }
  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor &x,
                    const CudnnTensor &b) {
    CudnnTensor y = graph.between(f32, x.dims);
    graph.apply(mode, x, &b, y);
    return y;
  }
  /// A number a row.
  CudnnTensor reduceRows(cudnnReduceTensorOp_t mode, const CudnnTensor &x) {
    CudnnTensor y =
        graph.between(f32, {x.dims[0], x.dims[1], x.dims[2], /*columns=*/1});
    graph.reduce(mode, x, y);
    return y;
  }
  /// A product of queries and keys: of f32.
  CudnnTensor scores(const CudnnTensor &rows, const CudnnTensor &columns) {
    CudnnTensor product =
        graph.between(f32, {is.batch, is.heads, is.queries, is.keys});
    graph.multiply(rows, columns, product);
    return product;
  }
  CudnnTensor masked(const CudnnTensor &scores);
  CudnnTensor roundedTranspose(const CudnnTensor &scores);
  void multiplyByKeyHeads(const CudnnTensor &a, const CudnnTensor &b,
                          AttentionTensor result);

  CudnnGraph &graph;
  const DeviceAttention &is;
  CudnnTensor scale;
};

/// What a query does not see is MaskedScore.
CudnnTensor Builder::masked(const CudnnTensor &scores) {
  if (!is.isCausal)
    return scores;
  CudnnTensor row = graph.between(CUDNN_DATA_INT32, scores.dims);
  graph.index(2, scores, row);
  CudnnTensor column = graph.between(CUDNN_DATA_INT32, scores.dims);
  graph.index(3, scores, column);
  CudnnTensor isSeen = graph.between(CUDNN_DATA_BOOLEAN, scores.dims);
  graph.apply(CUDNN_POINTWISE_CMP_GE, row, &column, isSeen);
  CudnnTensor result = graph.between(f32, scores.dims);
  graph.select(isSeen, scores, graph.scalar(MaskedScore), result);
  return result;
}

/// The same memory, by columns.
CudnnTensor Builder::roundedTranspose(const CudnnTensor &scores) {
  CudnnTensor result =
      graph.between(bf16, {is.batch, is.heads, is.keys, is.queries},
                    {is.heads * is.queries * is.keys, is.queries * is.keys,
                     /*row=*/1, /*column=*/is.keys});
  graph.reshape(scores, result);
  return result;
}

void Builder::multiplyByKeyHeads(const CudnnTensor &a, const CudnnTensor &b,
                                 AttentionTensor result) {
  CudnnTensor target = inMemory(result);
  if (is.heads == is.keyHeads)
    return graph.multiply(a, b, target);
  CudnnTensor all =
      graph.between(bf16, {is.batch, is.heads, is.keys, is.width});
  graph.multiply(a, b, all);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, all, target);
}

void Builder::addForward() {
  CudnnTensor products = scores(inMemory(Query), transposed(Key));
  CudnnTensor seen = masked(apply(CUDNN_POINTWISE_MUL, products, scale));
  CudnnTensor most = reduceRows(CUDNN_REDUCE_TENSOR_MAX, seen);
  CudnnTensor powers =
      apply(CUDNN_POINTWISE_EXP, apply(CUDNN_POINTWISE_SUB, seen, most));
  CudnnTensor sum = reduceRows(CUDNN_REDUCE_TENSOR_ADD, powers);
  CudnnTensor logOfSum = apply(CUDNN_POINTWISE_LOG, sum);
  graph.apply(CUDNN_POINTWISE_ADD, most, &logOfSum, inMemory(LogSumExp));
  CudnnTensor weights = graph.between(bf16, powers.dims);
  graph.apply(CUDNN_POINTWISE_DIV, powers, &sum, weights);
  graph.multiply(weights, inMemory(Value), inMemory(Output));
}

void Builder::addGradient() {
  CudnnTensor query = inMemory(Query), cotangent = inMemory(Cotangent);
  CudnnTensor key = transposed(Key);
  CudnnShape rows = {is.batch, is.heads, is.queries, 1};
  CudnnTensor sums =
      reduceRows(CUDNN_REDUCE_TENSOR_ADD,
                 apply(CUDNN_POINTWISE_MUL, cotangent, inMemory(Output)));
  CudnnTensor rowSums = graph.inMemory(
      RowSums, f32, rows, {is.heads * is.queries, is.queries, 1, 1});
  // Where there is dropout, by its factor.
  CudnnTensor one = graph.scalar(One);
  graph.apply(CUDNN_POINTWISE_MUL, sums, &one, rowSums);

  CudnnTensor scaled = apply(CUDNN_POINTWISE_MUL, scores(query, key), scale);
  CudnnTensor weights =
      apply(CUDNN_POINTWISE_EXP,
            masked(apply(CUDNN_POINTWISE_SUB, scaled, inMemory(LogSumExp))));
  multiplyByKeyHeads(roundedTranspose(weights), cotangent, ValueGrad);

  CudnnTensor inner =
      apply(CUDNN_POINTWISE_SUB, scores(cotangent, transposed(Value)), rowSums);
  CudnnTensor grad = apply(CUDNN_POINTWISE_MUL,
                           apply(CUDNN_POINTWISE_MUL, inner, weights), scale);
  multiplyByKeyHeads(roundedTranspose(grad), query, KeyGrad);

  CudnnTensor plainKey = graph.between(f32, shape(Key), strides(Key));
  graph.reshape(key, plainKey);
  CudnnShape dims = shape(QueryGrad);
  CudnnTensor querySums = graph.inMemory(
      QuerySums, f32, dims,
      {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1});
  graph.multiply(grad, plainKey, querySums);
  graph.apply(CUDNN_POINTWISE_IDENTITY, querySums, nullptr,
              inMemory(QueryGrad));
}

} // namespace

void mt::runtime::cuda::addAttention(CudnnGraph &graph,
                                     const DeviceAttention &attention) {
  Builder builder(graph, attention);
  if (attention.isGradient)
    builder.addGradient();
  else
    builder.addForward();
}
