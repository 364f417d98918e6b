//===- CudnnDescriptors.cpp - cuDNN's descriptors, simulated --------------===//

#include "CudnnDescriptors.h"

#include <algorithm>
#include <functional>
#include <set>

using namespace mt::simulated;

namespace {

/// What a kind of descriptor may have, or must.
struct Attribute {
  cudnnBackendDescriptorType_t of;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t most;
  bool isNeeded;
  /// Where it is a descriptor: of which type. Any operation's stands for all.
  cudnnBackendDescriptorType_t part = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
};

/// Of lists.
constexpr int64_t many = 1000;
/// Of dimensions.
constexpr int64_t mostDimensions = 8;
/// The widest rows that there are kernels for, and what their length is a
/// multiple of.
constexpr int64_t mostColumns = 256, columnGranule = 8;
/// What a plan needs for each operation.
constexpr int64_t workspacePerOperation = 256;

#define TENSOR(descriptor, name, isNeeded)                                     \
  {CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name,                 \
   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, isNeeded}
#define PART(descriptor, name, most, partType)                                 \
  {CUDNN_BACKEND_##descriptor##_DESCRIPTOR,                                    \
   CUDNN_ATTR_##name,                                                          \
   CUDNN_TYPE_BACKEND_DESCRIPTOR,                                              \
   most,                                                                       \
   true,                                                                       \
   CUDNN_BACKEND_##partType##_DESCRIPTOR}
#define VALUE(descriptor, name, type, most, isNeeded)                          \
  {CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name,                 \
   CUDNN_TYPE_##type, most, isNeeded}

const Attribute schema[] = {
    VALUE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, true),
    VALUE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, true),
    VALUE(TENSOR, TENSOR_DIMENSIONS, INT64, mostDimensions, true),
    VALUE(TENSOR, TENSOR_STRIDES, INT64, mostDimensions, true),
    VALUE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, true),
    VALUE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 1, false),
    VALUE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 1, false),
    VALUE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, true),
    VALUE(MATMUL, MATMUL_PADDING_VALUE, DOUBLE, 1, false),
    VALUE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, true),
    VALUE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, true),
    VALUE(POINTWISE, POINTWISE_AXIS, INT64, 1, false),
    VALUE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, true),
    VALUE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, true),
    TENSOR(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, true),
    TENSOR(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, true),
    TENSOR(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, true),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_DESC, 1, MATMUL),
    TENSOR(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, true),
    TENSOR(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, false),
    TENSOR(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, false),
    TENSOR(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, true),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, 1, POINTWISE),
    TENSOR(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, true),
    TENSOR(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, true),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, 1, REDUCTION),
    TENSOR(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, true),
    TENSOR(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, true),
    VALUE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, true),
    PART(OPERATIONGRAPH, OPERATIONGRAPH_OPS, many, OPERATION_POINTWISE),
    PART(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, 1, OPERATIONGRAPH),
    VALUE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, true),
    VALUE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, true),
    PART(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, 1, ENGINECFG),
    VALUE(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, many, true),
    VALUE(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, many, true),
    VALUE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, true),
};

CudnnResult wrong(const std::string &reason) {
  return {CUDNN_STATUS_BAD_PARAM, reason};
}

bool isOperation(cudnnBackendDescriptorType_t type) {
  switch (type) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    return true;
  default:
    return false;
  }
}

CudnnResult checkAttributes(const CudnnDescriptor &descriptor) {
  for (const Attribute &attribute : schema) {
    if (attribute.of != descriptor.type)
      continue;
    std::string name = "attribute " + std::to_string(attribute.name);
    if (!descriptor.has(attribute.name)) {
      if (attribute.isNeeded)
        return wrong("expected " + name + ", found none");
      continue;
    }
    for (const CudnnPart &part : descriptor.parts(attribute.name)) {
      if (!part || !part->isFinal)
        return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                "expected what is finalized as " + name};
      bool fits = isOperation(attribute.part) ? isOperation(part->type)
                                              : part->type == attribute.part;
      if (!fits)
        return wrong("expected another type of descriptor as " + name);
    }
  }
  return {};
}

CudnnResult checkTensor(const CudnnDescriptor &descriptor) {
  CudnnTensorInfo tensor = readTensor(descriptor);
  if (tensor.dims.size() != tensor.strides.size())
    return wrong("expected as many strides as dimensions");
  for (size_t d = 0; d < tensor.dims.size(); ++d)
    if (tensor.dims[d] < 1 || tensor.strides[d] < 1)
      return wrong("expected dimensions and strides of at least 1");
  if (tensor.type != CUDNN_DATA_FLOAT && tensor.type != CUDNN_DATA_INT32 &&
      tensor.type != CUDNN_DATA_BFLOAT16 && tensor.type != CUDNN_DATA_BOOLEAN)
    return {CUDNN_STATUS_NOT_SUPPORTED, "no such type is simulated"};
  if (tensor.isByValue && (tensor.isVirtual || tensor.elements() != 1 ||
                           tensor.type != CUDNN_DATA_FLOAT))
    return wrong("expected one number of f32 by value");
  return {};
}

CudnnResult mismatch(const char *what) {
  return {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
          std::string("expected shapes that fit a ") + what};
}

CudnnResult checkMatmul(const CudnnDescriptor &operation) {
  std::vector<CudnnTensorInfo> inputs = inputsOf(operation);
  const auto &a = inputs[0].dims, &b = inputs[1].dims;
  const auto c = outputOf(operation).dims;
  size_t rank = a.size();
  if (rank < 2 || b.size() != rank || c.size() != rank)
    return mismatch("product");
  for (size_t d = 0; d + 2 < rank; ++d)
    if (c[d] != a[d] || a[d] % b[d] != 0)
      return mismatch("product");
  if (c[rank - 2] != a[rank - 2] || a[rank - 1] != b[rank - 2] ||
      c[rank - 1] != b[rank - 1])
    return mismatch("product");
  return {};
}

/// How many tensors a mode reads; 0: it is not known.
size_t operandsOf(cudnnPointwiseMode_t mode) {
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
  case CUDNN_POINTWISE_LOG:
  case CUDNN_POINTWISE_IDENTITY:
  case CUDNN_POINTWISE_GEN_INDEX:
    return 1;
  case CUDNN_POINTWISE_ADD:
  case CUDNN_POINTWISE_MUL:
  case CUDNN_POINTWISE_DIV:
  case CUDNN_POINTWISE_SUB:
  case CUDNN_POINTWISE_CMP_GE:
    return 2;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return 3;
  }
  return 0;
}

CudnnResult checkPointwise(const CudnnDescriptor &operation) {
  CudnnPart description =
      operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  auto mode = description->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  std::vector<CudnnTensorInfo> inputs = inputsOf(operation);
  CudnnTensorInfo y = outputOf(operation);
  bool isSelect = mode == CUDNN_POINTWISE_BINARY_SELECT;
  if (operandsOf(mode) == 0 || inputs.size() != operandsOf(mode) ||
      operation.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC) != isSelect)
    return wrong("expected a known mode, with its operands");
  int64_t rank = int64_t(y.dims.size());
  int64_t axis = description->one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
  bool isIndex = mode == CUDNN_POINTWISE_GEN_INDEX;
  if (isIndex != (axis >= 0 && axis < rank))
    return wrong("expected a dimension for an index, and for nothing else");
  if ((y.type == CUDNN_DATA_INT32) != isIndex ||
      (y.type == CUDNN_DATA_BOOLEAN) != (mode == CUDNN_POINTWISE_CMP_GE))
    return wrong("expected an index of i32, a comparison of booleans");
  if (isSelect && inputs[2].type != CUDNN_DATA_BOOLEAN)
    return wrong("expected a condition of booleans");
  std::vector<int64_t> most(size_t(rank), 1);
  for (const CudnnTensorInfo &input : inputs) {
    if (input.dims.size() != y.dims.size())
      return mismatch("pointwise operation");
    for (size_t d = 0; d < most.size(); ++d) {
      if (input.dims[d] != 1 && input.dims[d] != y.dims[d])
        return mismatch("pointwise operation");
      most[d] = std::max(most[d], input.dims[d]);
    }
  }
  return most == y.dims ? CudnnResult() : mismatch("pointwise operation");
}

CudnnResult checkReduction(const CudnnDescriptor &operation) {
  auto mode = operation.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                  ->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  if (mode != CUDNN_REDUCE_TENSOR_ADD && mode != CUDNN_REDUCE_TENSOR_MAX)
    return wrong("expected a known reduction");
  CudnnTensorInfo x = inputsOf(operation)[0], y = outputOf(operation);
  if (x.dims.size() != y.dims.size())
    return mismatch("reduction");
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (x.dims[d] % y.dims[d] != 0)
      return mismatch("reduction");
  return {};
}

CudnnResult checkReshape(const CudnnDescriptor &operation) {
  CudnnTensorInfo x = inputsOf(operation)[0], y = outputOf(operation);
  if (x.elements() != y.elements())
    return mismatch("reshape");
  if (permutation(x, y).empty())
    return {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
            "expected a reshape that permutes dimensions"};
  return {};
}

/// Operations must come behind those whose results they use, and each tensor
/// from one of them, or from memory.
CudnnResult checkGraph(const CudnnDescriptor &graph) {
  std::map<int64_t, CudnnTensorInfo> known;
  std::set<int64_t> written, read;
  auto isKnownTwice = [&](const CudnnTensorInfo &tensor) {
    const CudnnTensorInfo &first =
        known.emplace(tensor.id, tensor).first->second;
    return first.dims != tensor.dims || first.strides != tensor.strides ||
           first.type != tensor.type || first.isVirtual != tensor.isVirtual;
  };
  for (const CudnnPart &part : graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    for (const CudnnTensorInfo &input : inputsOf(*part)) {
      if (isKnownTwice(input))
        return wrong("expected one tensor of each id");
      if (input.isVirtual && !written.count(input.id))
        return wrong("expected tensors to be written before they are read");
      read.insert(input.id);
    }
    CudnnTensorInfo output = outputOf(*part);
    if (output.isByValue || isKnownTwice(output) || read.count(output.id) ||
        !written.insert(output.id).second)
      return wrong("expected each tensor to be written once, and by one");
  }
  for (const auto &[id, tensor] : known)
    if (tensor.isVirtual && !read.count(id))
      return wrong("expected virtual tensors to be read");
  return {};
}

/// There are kernels for rows of some lengths alone.
CudnnResult checkPlan(const CudnnDescriptor &plan) {
  auto hasKernel = [](const CudnnTensorInfo &tensor) {
    if (!tensor.isInMemory() || tensor.type != CUDNN_DATA_BFLOAT16)
      return true;
    bool hasColumns = false;
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      if (tensor.dims[d] == 1)
        continue;
      bool isColumns = tensor.strides[d] == 1;
      hasColumns |= isColumns;
      if (isColumns ? tensor.dims[d] % columnGranule != 0 ||
                          tensor.dims[d] > mostColumns
                    : tensor.strides[d] % columnGranule != 0)
        return false;
    }
    return hasColumns;
  };
  for (const CudnnPart &operation : operationsOf(plan)) {
    std::vector<CudnnTensorInfo> tensors = inputsOf(*operation);
    tensors.push_back(outputOf(*operation));
    if (!std::all_of(tensors.begin(), tensors.end(), hasKernel))
      return {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "no kernel has such rows"};
  }
  return {};
}

CudnnResult checkVariants(const CudnnDescriptor &variants) {
  auto ids = variants.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = variants.all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size() ||
      std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size())
    return wrong("expected an address for each id, and each once");
  return {};
}

} // namespace

int64_t CudnnTensorInfo::elements() const {
  int64_t result = 1;
  for (int64_t size : dims)
    result *= size;
  return result;
}

CudnnTensorInfo mt::simulated::readTensor(const CudnnDescriptor &descriptor) {
  return {descriptor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          descriptor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          descriptor.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          descriptor.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          descriptor.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false),
          descriptor.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)};
}

std::vector<CudnnTensorInfo>
mt::simulated::inputsOf(const CudnnDescriptor &operation) {
  std::vector<CudnnTensorInfo> result;
  for (cudnnBackendAttributeName_t name :
       {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
        CUDNN_ATTR_OPERATION_RESHAPE_XDESC})
    if (CudnnPart part = operation.part(name))
      result.push_back(readTensor(*part));
  return result;
}

CudnnTensorInfo mt::simulated::outputOf(const CudnnDescriptor &operation) {
  for (cudnnBackendAttributeName_t name :
       {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
        CUDNN_ATTR_OPERATION_REDUCTION_YDESC})
    if (CudnnPart part = operation.part(name))
      return readTensor(*part);
  return readTensor(*operation.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
}

std::vector<size_t> mt::simulated::permutation(const CudnnTensorInfo &from,
                                               const CudnnTensorInfo &to) {
  std::vector<size_t> result;
  std::vector<bool> isTaken(from.dims.size());
  for (size_t d = 0; d < to.dims.size(); ++d)
    for (size_t other = 0; other < from.dims.size(); ++other)
      if (!isTaken[other] && to.dims[d] == from.dims[other] &&
          to.strides[d] == from.strides[other]) {
        isTaken[other] = true;
        result.push_back(other);
        break;
      }
  if (result.size() != from.dims.size() || result.size() != to.dims.size())
    result.clear();
  return result;
}

bool mt::simulated::isKnown(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR ||
         std::any_of(std::begin(schema), std::end(schema),
                     [&](const Attribute &it) { return it.of == type; });
}

size_t mt::simulated::sizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_DATA_TYPE:
  case CUDNN_TYPE_HEUR_MODE:
  case CUDNN_TYPE_POINTWISE_MODE:
  case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
    return 4;
  default:
    return 8;
  }
}

CudnnResult mt::simulated::mayHave(cudnnBackendDescriptorType_t type,
                                   cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t valueType,
                                   int64_t count) {
  for (const Attribute &attribute : schema)
    if (attribute.of == type && attribute.name == name) {
      if (attribute.type != valueType || count < 1 || count > attribute.most)
        return wrong("expected another type or count of values");
      return {};
    }
  return wrong("expected an attribute of this descriptor");
}

CudnnResult mt::simulated::checkDescriptor(const CudnnDescriptor &descriptor) {
  if (CudnnResult result = checkAttributes(descriptor); !result)
    return result;
  switch (descriptor.type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return checkTensor(descriptor);
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    return checkMatmul(descriptor);
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    return checkPointwise(descriptor);
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    return checkReduction(descriptor);
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    return checkReshape(descriptor);
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return checkGraph(descriptor);
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    return checkPlan(descriptor);
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return checkVariants(descriptor);
  default:
    return {};
  }
}

const std::vector<CudnnPart> &
mt::simulated::operationsOf(const CudnnDescriptor &plan) {
  return plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
      ->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
      ->parts(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

int64_t mt::simulated::workspaceBytes(const CudnnDescriptor &plan) {
  return workspacePerOperation * int64_t(operationsOf(plan).size());
}
