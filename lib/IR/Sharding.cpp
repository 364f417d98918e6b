//===- Sharding.cpp - the algebra of layouts ------------------------------===//

#include "mt/IR/Sharding.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mt;

Sharding::Sharding(ShardingAttr attr)
    : mesh(attr.getMesh()), reduction(attr.getReduction()) {
  for (unsigned dim = 0; dim < attr.getRank(); ++dim)
    dims.emplace_back(attr.getDimAxes(dim));
  partial.assign(attr.getPartialAxes().begin(), attr.getPartialAxes().end());
}

AxisState Sharding::getState(Axis axis) const {
  if (llvm::is_contained(partial, axis))
    return AxisState::Partial;
  return getShardedDim(axis) ? AxisState::Sharded : AxisState::Replicated;
}

std::optional<unsigned> Sharding::getShardedDim(Axis axis) const {
  for (auto [dim, axes] : llvm::enumerate(dims))
    if (llvm::is_contained(axes, axis))
      return dim;
  return std::nullopt;
}

void Sharding::addPartial(Axis axis) {
  auto *position = llvm::lower_bound(partial, axis);
  if (position == partial.end() || *position != axis)
    partial.insert(position, axis);
}

Sharding Sharding::withoutPartial() const {
  Sharding result = *this;
  result.partial.clear();
  result.reduction = Reduction::Sum;
  return result;
}

Sharding Sharding::onSplitMesh(MeshAttr splitMesh, Axis axis) const {
  unsigned parts = splitMesh.getNumAxes() - mesh.getNumAxes() + 1;
  auto translate = [&](ArrayRef<Axis> axes) {
    AxisList result;
    for (Axis old : axes) {
      if (old != axis) {
        result.push_back(old < axis ? old : old + parts - 1);
        continue;
      }
      for (unsigned part = 0; part < parts; ++part)
        result.push_back(axis + part);
    }
    return result;
  };
  Sharding result(splitMesh, getRank());
  for (auto [to, from] : llvm::zip_equal(result.dims, dims))
    to = translate(from);
  result.partial = translate(partial);
  result.reduction = reduction;
  return result;
}

int64_t Sharding::getNumLocalElements(ArrayRef<int64_t> shape) const {
  int64_t count = 1;
  for (auto [size, axes] : llvm::zip_equal(shape, dims))
    count *= size / mesh.getSize(axes);
  return count;
}

std::optional<unsigned>
Sharding::findIndivisibleDim(ArrayRef<int64_t> shape) const {
  for (unsigned dim = 0; dim < getRank(); ++dim)
    if (shape[dim] % getNumShards(dim) != 0)
      return dim;
  return std::nullopt;
}

ShardingAttr Sharding::toAttr() const {
  AxisList sharded;
  SmallVector<unsigned, 4> ends;
  for (const AxisList &axes : dims) {
    llvm::append_range(sharded, axes);
    ends.push_back(sharded.size());
  }
  return ShardingAttr::get(mesh.getContext(), mesh, sharded, ends, partial,
                           partial.empty() ? Reduction::Sum : reduction);
}

std::string Sharding::toString() const { return toAttr().getLayoutString(); }

bool Sharding::operator==(const Sharding &other) const {
  return mesh == other.mesh && dims == other.dims && partial == other.partial &&
         (partial.empty() || reduction == other.reduction);
}

FailureOr<MeshAttr> mt::splitMeshAxis(MeshAttr mesh, Axis axis,
                                      ArrayRef<StringRef> names,
                                      ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  if (product != mesh.getAxisSize(axis) || names.size() != sizes.size())
    return failure();
  SmallVector<StringAttr> newNames;
  SmallVector<int64_t> newSizes;
  for (Axis old = 0; old < mesh.getNumAxes(); ++old) {
    if (old != axis) {
      newNames.push_back(mesh.getAxisNames()[old]);
      newSizes.push_back(mesh.getAxisSize(old));
      continue;
    }
    for (auto [name, size] : llvm::zip_equal(names, sizes)) {
      newNames.push_back(StringAttr::get(mesh.getContext(),
                                         mesh.getAxisName(axis) + "." + name));
      newSizes.push_back(size);
    }
  }
  return MeshAttr::get(mesh.getContext(), newNames, newSizes);
}

MeshAttr mt::parseMesh(MLIRContext *context, StringRef text,
                       std::string &error) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  SmallVector<StringRef> entries;
  text.split(entries, ',');
  for (StringRef entry : entries) {
    auto [name, sizeText] = entry.split(entry.contains('=') ? '=' : ':');
    name = name.trim();
    int64_t size = 0;
    bool isName =
        !name.empty() && llvm::isAlpha(name.front()) &&
        llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!isName || sizeText.trim().getAsInteger(10, size) || size < 1) {
      error = ("expected axes as 'dp=2,tp=4', found '" + entry + "'").str();
      return nullptr;
    }
    names.push_back(StringAttr::get(context, name));
    sizes.push_back(size);
  }
  for (auto [index, name] : llvm::enumerate(names))
    if (llvm::is_contained(ArrayRef(names).take_front(index), name)) {
      error = "axis '" + name.str() + "' is named twice";
      return nullptr;
    }
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    error = diagnostic.str();
    return success();
  });
  auto emit = [&] { return emitError(UnknownLoc::get(context)); };
  if (failed(MeshAttr::verify(emit, names, sizes)))
    return nullptr;
  return MeshAttr::get(context, names, sizes);
}

std::string mt::axesToString(MeshAttr mesh, ArrayRef<Axis> axes) {
  std::string text = "{";
  for (auto [index, axis] : llvm::enumerate(axes))
    text += (index ? ", " : "") + mesh.getAxisName(axis).str();
  return text + "}";
}

ShardingAttr mt::getSharding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<ShardingAttr>(tensor.getEncoding())
                : ShardingAttr();
}

RankedTensorType mt::withSharding(Type type, ShardingAttr sharding) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType(),
                               sharding);
}

RankedTensorType mt::withElementType(Type type, Type elementType) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), elementType,
                               tensor.getEncoding());
}

RankedTensorType mt::getLocalType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  ShardingAttr sharding = getSharding(type);
  if (!sharding)
    return tensor;
  return RankedTensorType::get(sharding.getLocalShape(tensor.getShape()),
                               tensor.getElementType());
}

int64_t mt::getLocalBytes(Type type) {
  RankedTensorType local = getLocalType(type);
  return local.getNumElements() *
         llvm::divideCeil(local.getElementTypeBitWidth(), 8);
}

int64_t mt::getGroupIndex(MeshAttr mesh, int64_t device, ArrayRef<Axis> axes) {
  SmallVector<int64_t, 4> coordinates(mesh.getNumAxes());
  for (unsigned axis = mesh.getNumAxes(); axis-- > 0;) {
    coordinates[axis] = device % mesh.getAxisSize(axis);
    device /= mesh.getAxisSize(axis);
  }
  int64_t index = 0;
  for (Axis axis : axes)
    index = index * mesh.getAxisSize(axis) + coordinates[axis];
  return index;
}
