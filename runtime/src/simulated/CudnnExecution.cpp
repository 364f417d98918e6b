//===- CudnnExecution.cpp - a graph of cuDNN's, run on the host -----------===//

#include "CudnnExecution.h"

#include "../Elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mt::simulated;
using mt::runtime::ThreadPool;

namespace {

using Sizes = std::vector<int64_t>;

/// Calls action(index, offsets) for all indices of `dims` in order; an offset
/// for each of `strides`.
template <typename ActionFn>
void forEach(const Sizes &dims, const std::vector<Sizes> &strides,
             ActionFn action) {
  Sizes index(dims.size(), 0), offsets(strides.size(), 0);
  int64_t count = 1;
  for (int64_t size : dims)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    action(index, offsets);
    for (size_t d = dims.size(); d-- > 0;) {
      bool isWhole = ++index[d] == dims[d];
      for (size_t s = 0; s < strides.size(); ++s)
        offsets[s] += strides[s][d] * (isWhole ? 1 - dims[d] : 1);
      if (!isWhole)
        break;
      index[d] = 0;
    }
  }
}

Sizes stridesByRows(const Sizes &dims) {
  Sizes result(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;)
    result[d - 1] = result[d] * dims[d];
  return result;
}

/// Of an operand in the shape of the result: what has one element stays there.
Sizes broadcastStrides(const Sizes &dims) {
  Sizes result = stridesByRows(dims);
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == 1)
      result[d] = 0;
  return result;
}

float rounded(double value, cudnnDataType_t type) {
  auto single = float(value);
  return type == CUDNN_DATA_BFLOAT16
             ? mt::runtime::bf16ToFloat(mt::runtime::floatToBf16(single))
             : single;
}

void addRangesOf(const CudnnTensorInfo &tensor, uintptr_t address,
                 std::vector<Range> &ranges) {
  // By strides, neighbours that lie as one joined.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < tensor.dims.size(); ++d)
    if (tensor.dims[d] > 1)
      dims.push_back({tensor.strides[d], tensor.dims[d]});
  std::sort(dims.begin(), dims.end());
  int64_t run = 1;
  Sizes sizes, strides;
  for (auto [stride, size] : dims) {
    if (sizes.empty() && stride == run) {
      run *= size;
      continue;
    }
    sizes.push_back(size);
    strides.push_back(stride);
  }
  int64_t bytes = tensor.elementSize();
  forEach(sizes, {strides}, [&](const Sizes &, const Sizes &offsets) {
    ranges.push_back(
        {address + uintptr_t(offsets[0] * bytes), size_t(run * bytes)});
  });
}

double combine(cudnnPointwiseMode_t mode, double x, double b,
               double condition) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return condition != 0 ? x : b;
  case CUDNN_POINTWISE_IDENTITY:
  case CUDNN_POINTWISE_GEN_INDEX:
    break;
  }
  return x;
}

} // namespace

CudnnExecution::CudnnExecution(std::vector<CudnnPart> operations,
                               std::map<int64_t, uintptr_t> addresses,
                               bool sumsUp)
    : operations(std::move(operations)), addresses(std::move(addresses)),
      sumsUp(sumsUp) {
  for (const CudnnPart &operation : this->operations)
    for (const CudnnTensorInfo &input : inputsOf(*operation))
      if (input.isByValue && this->addresses.count(input.id))
        numbers[input.id] = *reinterpret_cast<const float *>(address(input));
}

int64_t CudnnExecution::findUnplaced() const {
  constexpr uintptr_t alignment = 16;
  for (const CudnnPart &operation : operations) {
    std::vector<CudnnTensorInfo> tensors = inputsOf(*operation);
    tensors.push_back(outputOf(*operation));
    for (const CudnnTensorInfo &tensor : tensors) {
      auto found = addresses.find(tensor.id);
      bool isPlaced = found != addresses.end() && found->second != 0 &&
                      (tensor.isByValue || found->second % alignment == 0);
      if (!tensor.isVirtual && !isPlaced)
        return tensor.id;
    }
  }
  return -1;
}

bool CudnnExecution::hasInfinity() const {
  return std::any_of(numbers.begin(), numbers.end(), [](const auto &number) {
    return std::isinf(number.second);
  });
}

void CudnnExecution::addRanges(std::vector<Range> &reads,
                               std::vector<Range> &writes) const {
  std::map<int64_t, bool> isWritten;
  for (const CudnnPart &operation : operations) {
    // What is written here and read again is no input.
    for (const CudnnTensorInfo &input : inputsOf(*operation))
      if (input.isInMemory() && isWritten.emplace(input.id, false).second)
        addRangesOf(input, address(input), reads);
    CudnnTensorInfo output = outputOf(*operation);
    if (!output.isInMemory())
      continue;
    isWritten[output.id] = true;
    addRangesOf(output, address(output), writes);
  }
}

CudnnExecution::Array
CudnnExecution::load(const CudnnTensorInfo &tensor) const {
  Array result;
  result.reserve(size_t(tensor.elements()));
  auto data = reinterpret_cast<const void *>(address(tensor));
  mt_dtype type = tensor.type == CUDNN_DATA_BFLOAT16 ? MT_BF16 : MT_F32;
  forEach(
      tensor.dims, {tensor.strides}, [&](const Sizes &, const Sizes &offsets) {
        result.push_back(float(mt::runtime::loadFloat(type, data, offsets[0])));
      });
  return result;
}

const CudnnExecution::Array &
CudnnExecution::get(const CudnnTensorInfo &tensor) {
  auto found = arrays.find(tensor.id);
  if (found != arrays.end())
    return found->second;
  return arrays[tensor.id] =
             tensor.isByValue ? Array{numbers.at(tensor.id)} : load(tensor);
}

void CudnnExecution::put(const CudnnTensorInfo &tensor, Array values) {
  for (float &value : values)
    value = rounded(double(value), tensor.type);
  if (tensor.isInMemory()) {
    auto data = reinterpret_cast<void *>(address(tensor));
    mt_dtype type = tensor.type == CUDNN_DATA_BFLOAT16 ? MT_BF16 : MT_F32;
    size_t next = 0;
    forEach(tensor.dims, {tensor.strides},
            [&](const Sizes &, const Sizes &offsets) {
              mt::runtime::storeFloat(type, data, offsets[0],
                                      double(values[next++]));
            });
  }
  arrays[tensor.id] = std::move(values);
}

CudnnExecution::Array CudnnExecution::multiply(const CudnnDescriptor &operation,
                                               ThreadPool &pool) {
  std::vector<CudnnTensorInfo> inputs = inputsOf(operation);
  CudnnTensorInfo output = outputOf(operation);
  const Sizes &dims = inputs[0].dims, &others = inputs[1].dims;
  size_t outer = dims.size() - 2;
  int64_t m = dims[outer], k = dims[outer + 1], n = others[outer + 1];
  const Array &a = get(inputs[0]), &b = get(inputs[1]);
  bool isAdded =
      sumsUp && output.isInMemory() && output.type == CUDNN_DATA_FLOAT;
  Array c = isAdded ? load(output) : Array(size_t(output.elements()));
  // Where b has fewer, several of a's neighbours share one of b's.
  std::vector<int64_t> factors;
  forEach(Sizes(dims.begin(), dims.begin() + int64_t(outer)), {},
          [&](const Sizes &index, const Sizes &) {
            int64_t place = 0;
            for (size_t d = 0; d < outer; ++d)
              place = place * others[d] + index[d] / (dims[d] / others[d]);
            factors.push_back(place);
          });
  pool.run(int64_t(factors.size()) * m, [&](int64_t first, int64_t last) {
    std::vector<double> sums(static_cast<size_t>(n));
    for (int64_t row = first; row < last; ++row) {
      float *to = c.data() + row * n;
      sums.assign(to, to + n);
      const float *right = b.data() + factors[size_t(row / m)] * k * n;
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          sums[size_t(j)] +=
              double(a[size_t(row * k + l)]) * double(right[l * n + j]);
      std::copy(sums.begin(), sums.end(), to);
    }
  });
  return c;
}

CudnnExecution::Array CudnnExecution::apply(const CudnnDescriptor &operation) {
  CudnnPart description =
      operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  auto mode = description->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  auto axis = size_t(description->one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, 0));
  std::vector<const Array *> operands;
  std::vector<Sizes> strides;
  for (const CudnnTensorInfo &input : inputsOf(operation)) {
    operands.push_back(&get(input));
    strides.push_back(broadcastStrides(input.dims));
  }
  Array y;
  forEach(outputOf(operation).dims, strides,
          [&](const Sizes &index, const Sizes &offsets) {
            double values[3] = {};
            for (size_t i = 0; i < operands.size(); ++i)
              values[i] = double((*operands[i])[size_t(offsets[i])]);
            if (mode == CUDNN_POINTWISE_GEN_INDEX)
              values[0] = double(index[axis]);
            y.push_back(float(combine(mode, values[0], values[1], values[2])));
          });
  return y;
}

CudnnExecution::Array CudnnExecution::reduce(const CudnnDescriptor &operation) {
  bool isSum =
      operation.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
          ->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
      CUDNN_REDUCE_TENSOR_ADD;
  CudnnTensorInfo input = inputsOf(operation)[0], output = outputOf(operation);
  const Array &x = get(input);
  std::vector<double> y(size_t(output.elements()),
                        isSum ? 0 : -std::numeric_limits<double>::infinity());
  size_t next = 0;
  forEach(input.dims, {}, [&](const Sizes &index, const Sizes &) {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d)
      place =
          place * output.dims[d] + index[d] / (input.dims[d] / output.dims[d]);
    double &to = y[size_t(place)];
    auto value = double(x[next++]);
    to = isSum ? to + value : std::max(to, value);
  });
  return {y.begin(), y.end()};
}

CudnnExecution::Array
CudnnExecution::reshape(const CudnnDescriptor &operation) {
  CudnnTensorInfo input = inputsOf(operation)[0], output = outputOf(operation);
  const Array &x = get(input);
  Sizes byRows = stridesByRows(input.dims), strides;
  for (size_t d : permutation(input, output))
    strides.push_back(byRows[d]);
  Array y;
  forEach(output.dims, {strides}, [&](const Sizes &, const Sizes &offsets) {
    y.push_back(x[size_t(offsets[0])]);
  });
  return y;
}

void CudnnExecution::run(ThreadPool &pool) {
  arrays.clear();
  for (const CudnnPart &part : operations) {
    const CudnnDescriptor &operation = *part;
    CudnnTensorInfo output = outputOf(operation);
    if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      put(output, multiply(operation, pool));
    else if (operation.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      put(output, apply(operation));
    else if (operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      put(output, reduce(operation));
    else
      put(output, reshape(operation));
  }
  arrays.clear();
}
