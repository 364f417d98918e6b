//===- SimulatedDevices.cpp - transitions on real numbers -----------------===//

#include "SimulatedDevices.h"

#include "llvm/ADT/STLExtras.h"

using namespace mt;
using namespace mt::test;
using llvm::ArrayRef;

Array mt::test::makeArray(ArrayRef<int64_t> shape) {
  Array array{llvm::SmallVector<int64_t>(shape), {}};
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    array.data.push_back(double((i * 7919 + 13) % 1009));
  return array;
}

/// Elements before and behind one index of `dim`.
static std::pair<int64_t, int64_t> getStrides(const Array &array,
                                              unsigned dim) {
  int64_t outer = 1, inner = 1;
  for (auto [index, size] : llvm::enumerate(array.shape)) {
    outer *= index < dim ? size : 1;
    inner *= index > dim ? size : 1;
  }
  return {outer, inner};
}

Array mt::test::slice(const Array &array, unsigned dim, int64_t index,
                      int64_t count) {
  auto [outer, inner] = getStrides(array, dim);
  int64_t length = array.shape[dim] / count * inner;
  Array piece{array.shape, {}};
  piece.shape[dim] /= count;
  for (int64_t row = 0; row < outer; ++row) {
    auto begin =
        array.data.begin() + row * array.shape[dim] * inner + index * length;
    piece.data.insert(piece.data.end(), begin, begin + length);
  }
  return piece;
}

Array mt::test::concatenate(ArrayRef<Array> arrays, unsigned dim) {
  auto [outer, inner] = getStrides(arrays.front(), dim);
  Array whole{arrays.front().shape, {}};
  whole.shape[dim] *= arrays.size();
  for (int64_t row = 0; row < outer; ++row)
    for (const Array &array : arrays) {
      int64_t length = array.shape[dim] * inner;
      auto begin = array.data.begin() + row * length;
      whole.data.insert(whole.data.end(), begin, begin + length);
    }
  return whole;
}

Array mt::test::reduce(ArrayRef<Array> arrays, Reduction reduction) {
  Array result = arrays.front();
  for (const Array &array : arrays.drop_front())
    for (auto [a, b] : llvm::zip_equal(result.data, array.data))
      a = reduction == Reduction::Sum   ? a + b
          : reduction == Reduction::Max ? std::max(a, b)
                                        : std::min(a, b);
  return result;
}

/// Member `index` of `count` holds an uneven part of every element.
static Array makePart(const Array &whole, int64_t index, int64_t count,
                      Reduction reduction) {
  Array part = whole;
  for (auto [i, value] : llvm::enumerate(part.data)) {
    double unlike = double((i * 31 + index * 17) % 23) + 1;
    bool isLast = index == count - 1;
    if (reduction != Reduction::Sum) {
      bool hasIt = int64_t(i) % count == index;
      value += hasIt ? 0 : reduction == Reduction::Max ? -unlike : unlike;
    } else if (!isLast) {
      value = unlike;
    } else {
      for (int64_t other = 0; other < count - 1; ++other)
        value -= double((i * 31 + other * 17) % 23) + 1;
    }
  }
  return part;
}

static Array getShard(const Array &global, const Sharding &layout,
                      int64_t device) {
  Array shard = global;
  for (auto [dim, axes] : llvm::enumerate(layout.dims))
    shard = slice(shard, dim, getGroupIndex(layout.mesh, device, axes),
                  layout.mesh.getSize(axes));
  return shard;
}

Shards mt::test::distribute(const Array &global, const Sharding &layout) {
  int64_t parts = layout.mesh.getSize(layout.partial);
  Shards shards;
  for (int64_t device = 0; device < layout.mesh.getNumDevices(); ++device) {
    int64_t index = getGroupIndex(layout.mesh, device, layout.partial);
    shards.push_back(
        getShard(parts == 1 ? global
                            : makePart(global, index, parts, layout.reduction),
                 layout, device));
  }
  return shards;
}

/// The devices of `device`'s group along `axes`, by their index in it.
static std::vector<int64_t> getGroup(MeshAttr mesh, int64_t device,
                                     ArrayRef<Axis> axes) {
  AxisList others;
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (!llvm::is_contained(axes, axis))
      others.push_back(axis);
  std::vector<int64_t> group(mesh.getSize(axes));
  for (int64_t other = 0; other < mesh.getNumDevices(); ++other)
    if (getGroupIndex(mesh, other, others) ==
        getGroupIndex(mesh, device, others))
      group[getGroupIndex(mesh, other, axes)] = other;
  return group;
}

static Array runOnDevice(const Transition &t, ArrayRef<Array> group,
                         int64_t index) {
  int64_t size = group.size();
  switch (t.kind) {
  case TransitionKind::AllReduce:
    return reduce(group, t.reduction);
  case TransitionKind::AllGather:
    return concatenate(group, t.dim);
  case TransitionKind::ReduceScatter:
    return slice(reduce(group, t.reduction), t.dim, index, size);
  case TransitionKind::AllToAll: {
    std::vector<Array> received;
    for (const Array &array : group)
      received.push_back(slice(array, t.splitDim, index, size));
    return concatenate(received, t.dim);
  }
  case TransitionKind::Permute:
    return group[t.sources[index]];
  case TransitionKind::LocalSlice:
    return slice(group[index], t.dim, index, size);
  case TransitionKind::Mask: {
    Array array = group[index];
    if (index != 0)
      std::fill(array.data.begin(), array.data.end(), 0.0);
    return array;
  }
  }
  llvm_unreachable("every kind is handled");
}

Shards mt::test::runTransition(const Transition &transition, MeshAttr mesh,
                               const Shards &before) {
  Shards after;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    std::vector<Array> group;
    for (int64_t member : getGroup(mesh, device, transition.axes))
      group.push_back(before[member]);
    after.push_back(
        runOnDevice(transition, group,
                    getGroupIndex(mesh, device, transition.axes)));
  }
  return after;
}

bool mt::test::holds(const Shards &shards, const Array &global,
                     const Sharding &layout) {
  for (int64_t device = 0; device < layout.mesh.getNumDevices(); ++device) {
    std::vector<Array> parts;
    for (int64_t member : getGroup(layout.mesh, device, layout.partial))
      parts.push_back(shards[member]);
    if (!(reduce(parts, layout.reduction) == getShard(global, layout, device)))
      return false;
  }
  // What is replicated is the same everywhere, partial values too.
  AxisList held = layout.partial;
  for (const AxisList &axes : layout.dims)
    llvm::append_range(held, axes);
  for (size_t device = 0; device < shards.size(); ++device)
    for (size_t other = 0; other < device; ++other)
      if (getGroupIndex(layout.mesh, device, held) ==
              getGroupIndex(layout.mesh, other, held) &&
          !(shards[device] == shards[other]))
        return false;
  return true;
}
