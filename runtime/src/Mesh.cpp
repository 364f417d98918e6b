//===- Mesh.cpp - ranks, groups and what a rank holds ---------------------===//

#include "Mesh.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

/// Distance in ranks between neighbours along an axis.
int64_t rankStride(const Mesh &mesh, int64_t axis) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < mesh.axes.size(); ++i)
    stride *= mesh.axes[i].size;
  return stride;
}

bool contains(const AxisList &list, int64_t axis) {
  return std::find(list.begin(), list.end(), axis) != list.end();
}

} // namespace

int64_t Mesh::ranks() const {
  int64_t count = 1;
  for (const Axis &axis : axes)
    count *= axis.size;
  return count;
}

int64_t Mesh::find(const std::string &name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name)
      return int64_t(i);
  return -1;
}

int64_t Mesh::coordinate(int64_t rank, int64_t axis) const {
  return rank / rankStride(*this, axis) % axes[axis].size;
}

int64_t Mesh::size(const AxisList &list) const {
  int64_t count = 1;
  for (int64_t axis : list)
    count *= axes[axis].size;
  return count;
}

int64_t Mesh::index(int64_t rank, const AxisList &list) const {
  int64_t result = 0;
  for (int64_t axis : list)
    result = result * axes[axis].size + coordinate(rank, axis);
  return result;
}

std::vector<int64_t> Mesh::members(int64_t rank, const AxisList &list) const {
  std::vector<int64_t> result(size(list));
  int64_t first = rank;
  for (int64_t axis : list)
    first -= coordinate(rank, axis) * rankStride(*this, axis);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t rest = int64_t(i), member = first;
    for (size_t a = list.size(); a-- > 0;) {
      member += rest % axes[list[a]].size * rankStride(*this, list[a]);
      rest /= axes[list[a]].size;
    }
    result[i] = member;
  }
  return result;
}

Box mt::runtime::localBox(const Mesh &mesh, const Sharding &sharding,
                          const Shape &shape, int64_t rank) {
  Box box{Shape(shape.size()), Shape(shape.size())};
  for (size_t d = 0; d < shape.size(); ++d) {
    box.sizes[d] = shape[d] / mesh.size(sharding.dims[d]);
    box.offsets[d] = mesh.index(rank, sharding.dims[d]) * box.sizes[d];
  }
  return box;
}

Box mt::runtime::clip(Box box, const Shape &shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    box.sizes[d] =
        std::clamp<int64_t>(shape[d] - box.offsets[d], 0, box.sizes[d]);
  return box;
}

bool mt::runtime::speaksForBlock(const Mesh &mesh, const Sharding &sharding,
                                 int64_t rank) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    bool varies = contains(sharding.partial, axis);
    for (const AxisList &dim : sharding.dims)
      varies |= contains(dim, axis);
    if (!varies && mesh.coordinate(rank, axis) != 0)
      return false;
  }
  return true;
}
