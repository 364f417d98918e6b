//===- Mesh.h - ranks, groups and what a rank holds -------------*- C++ -*-===//

#ifndef MT_RUNTIME_MESH_H
#define MT_RUNTIME_MESH_H

#include "Elements.h"

namespace mt::runtime {

/// Axes as indices into Mesh::axes.
using AxisList = std::vector<int64_t>;

struct Axis {
  std::string name;
  int64_t size;
};

/// Ranks in row-major order of their coordinates, the first axis major.
struct Mesh {
  std::vector<Axis> axes;

  int64_t ranks() const;
  /// Index of the axis called `name`, or -1.
  int64_t find(const std::string &name) const;
  int64_t coordinate(int64_t rank, int64_t axis) const;
  /// Number of ranks along all of `list`.
  int64_t size(const AxisList &list) const;
  /// Index of `rank` along `list`, the first listed axis major.
  int64_t index(int64_t rank, const AxisList &list) const;
  /// The ranks that differ from `rank` along `list` only, by that index.
  std::vector<int64_t> members(int64_t rank, const AxisList &list) const;
};

/// The layout of a buffer: dims[i] are the axes that cut dimension i.
struct Sharding {
  std::vector<AxisList> dims;
  AxisList partial;
  mt_reduction reduction = MT_SUM;
};

/// A block of an array.
struct Box {
  Shape offsets;
  Shape sizes;
};

/// The block of a global array of `shape` that `rank` holds.
Box localBox(const Mesh &mesh, const Sharding &sharding, const Shape &shape,
             int64_t rank);

/// The part of `box` inside an array of `shape`; sizes may become 0.
Box clip(Box box, const Shape &shape);

/// Whether `rank` is the one that speaks for its block: it is first along every
/// axis that neither cuts the buffer nor holds summands of it.
bool speaksForBlock(const Mesh &mesh, const Sharding &sharding, int64_t rank);

} // namespace mt::runtime

#endif // MT_RUNTIME_MESH_H
