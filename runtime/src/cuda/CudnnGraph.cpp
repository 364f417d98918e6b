//===- CudnnGraph.cpp - graphs of cuDNN's operations ----------------------===//

#include "CudnnGraph.h"

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// In bytes, of everything in memory.
constexpr int64_t alignment = 16;

CudnnShape stridesByRows(const CudnnShape &dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

} // namespace

CudnnDescriptor::CudnnDescriptor(const Cudnn &library,
                                 cudnnBackendDescriptorType_t type)
    : library(&library) {
  cudnnBackendDescriptor_t made = nullptr;
  MT_CHECK(library, BackendCreateDescriptor, type, &made);
  handle = {made, library.BackendDestroyDescriptor};
}

void CudnnDescriptor::set(Name name, cudnnBackendAttributeType_t type,
                          int64_t count, const void *values) {
  MT_CHECK(*library, BackendSetAttribute, handle.get(), name, type, count,
           values);
}

cudnnBackendDescriptor_t CudnnGraph::keep(CudnnDescriptor description) {
  description.finalize();
  parts.push_back(std::move(description));
  return parts.back().get();
}

void CudnnGraph::addOperation(CudnnDescriptor operation) {
  operation.finalize();
  operations.push_back(std::move(operation));
}

CudnnTensor CudnnGraph::add(int64_t id, cudnnDataType_t type,
                            const CudnnShape &dims, const CudnnShape &strides,
                            bool isVirtual, bool isByValue) {
  CudnnDescriptor tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
             int64_t(dims.size()), dims.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
             int64_t(strides.size()), strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, isVirtual);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, isByValue);
  return {type, dims, keep(std::move(tensor))};
}

CudnnTensor CudnnGraph::inMemory(int64_t id, cudnnDataType_t type,
                                 const CudnnShape &dims,
                                 const CudnnShape &strides) {
  return add(id, type, dims, strides, false, false);
}

CudnnTensor CudnnGraph::scalar(int64_t id) {
  return add(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

CudnnTensor CudnnGraph::between(cudnnDataType_t type, const CudnnShape &dims) {
  return between(type, dims, stridesByRows(dims));
}

CudnnTensor CudnnGraph::between(cudnnDataType_t type, const CudnnShape &dims,
                                const CudnnShape &strides) {
  return add(nextId++, type, dims, strides, true, false);
}

void CudnnGraph::multiply(const CudnnTensor &a, const CudnnTensor &b,
                          const CudnnTensor &c) {
  CudnnDescriptor description = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  description.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  description.set(CUDNN_ATTR_MATMUL_PADDING_VALUE, 0.0);
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(description)));
  addOperation(std::move(operation));
}

void CudnnGraph::addPointwise(CudnnDescriptor description, const CudnnTensor &x,
                              const CudnnTensor *b,
                              const CudnnTensor *condition,
                              const CudnnTensor &y) {
  CudnnDescriptor operation =
      make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                keep(std::move(description)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  if (b)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
  if (condition)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, condition->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  addOperation(std::move(operation));
}

void CudnnGraph::apply(cudnnPointwiseMode_t mode, const CudnnTensor &x,
                       const CudnnTensor *b, const CudnnTensor &y) {
  CudnnDescriptor description = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  description.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  description.set(CUDNN_ATTR_POINTWISE_MATH_PREC, y.type == CUDNN_DATA_BOOLEAN
                                                      ? CUDNN_DATA_BOOLEAN
                                                      : CUDNN_DATA_FLOAT);
  addPointwise(std::move(description), x, b, nullptr, y);
}

void CudnnGraph::index(int64_t dimension, const CudnnTensor &x,
                       const CudnnTensor &y) {
  CudnnDescriptor description = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  description.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  description.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  description.set(CUDNN_ATTR_POINTWISE_AXIS, dimension);
  addPointwise(std::move(description), x, nullptr, nullptr, y);
}

void CudnnGraph::select(const CudnnTensor &condition, const CudnnTensor &x,
                        const CudnnTensor &otherwise, const CudnnTensor &y) {
  CudnnDescriptor description = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  description.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_BINARY_SELECT);
  description.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  addPointwise(std::move(description), x, &otherwise, &condition, y);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t mode, const CudnnTensor &x,
                        const CudnnTensor &y) {
  CudnnDescriptor description = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  description.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  description.set(CUDNN_ATTR_REDUCTION_OPERATOR, mode);
  CudnnDescriptor operation =
      make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC,
                keep(std::move(description)));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  addOperation(std::move(operation));
}

void CudnnGraph::reshape(const CudnnTensor &x, const CudnnTensor &y) {
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  addOperation(std::move(operation));
}

bool CudnnGraph::finish(const CudnnDevice &device) {
  std::vector<cudnnBackendDescriptor_t> list;
  for (const CudnnDescriptor &operation : operations)
    list.push_back(operation.get());
  graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (device.handle)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, device.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            int64_t(list.size()), list.data());
  cudnnStatus_t status = graph.tryFinalize();
  if (isUnsupported(status))
    return false;
  library.check(status, "BackendFinalize of a graph");
  return true;
}

std::vector<CudnnDescriptor>
CudnnGraph::engines(const CudnnDevice &device) const {
  CudnnDescriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (device.properties)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.properties);
  cudnnStatus_t status = heuristics.tryFinalize();
  if (isUnsupported(status))
    return {};
  library.check(status, "BackendFinalize of heuristics");
  auto ask = [&](int64_t asked, int64_t *found, void *into) {
    return library.BackendGetAttribute(
        heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, asked, found, into);
  };
  int64_t count = 0;
  status = ask(0, &count, nullptr);
  if (isUnsupported(status) || (status == CUDNN_STATUS_SUCCESS && count == 0))
    return {};
  library.check(status, "BackendGetAttribute of heuristics");
  std::vector<CudnnDescriptor> result;
  std::vector<cudnnBackendDescriptor_t> list;
  for (int64_t i = 0; i < count; ++i) {
    result.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    list.push_back(result.back().get());
  }
  status = ask(count, &count, list.data());
  if (isUnsupported(status))
    return {};
  library.check(status, "BackendGetAttribute of heuristics");
  result.resize(size_t(count));
  return result;
}

cudnnStatus_t CudnnGraph::makePlan(const CudnnDescriptor &engine,
                                   const CudnnDevice &device,
                                   CudnnDescriptor &plan) const {
  plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (device.handle)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, device.handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.get());
  return plan.tryFinalize();
}
