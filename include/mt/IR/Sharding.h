//===- Sharding.h - the algebra of layouts ----------------------*- C++ -*-===//
//
// A layout says, for each axis of a device mesh, what the axis does to a
// tensor:
//
//   state       each device of the axis holds          written
//   ----------  -------------------------------------  ---------------------
//   sharded(d)  its piece of dimension d               {tp} at position d
//   partial     a summand (max, min: a candidate)      partial sum {tp}
//   replicated  the same as the others                 nothing
//
// An axis is in exactly one state. Several axes on one dimension are ordered,
// major first: [{dp, tp}] cuts dimension 0 into size(dp) pieces and each of
// those into size(tp).
//
// Local shapes, mesh<dp = 2, tp = 4>, tensor<8x16>:
//
//   layout                       local shape   piece of device (dp=i, tp=j)
//   ---------------------------  ------------  -----------------------------
//   [{}, {}]                     8 x 16        everything
//   [{dp}, {}]                   4 x 16        rows 4i .. 4i+3
//   [{dp}, {tp}]                 4 x 4         rows 4i .., columns 4j ..
//   [{dp, tp}, {}]               1 x 16        row 4i + j
//   [{tp, dp}, {}]               1 x 16        row 2j + i
//   [{}, {}] partial sum {tp}    8 x 16        a summand of everything
//
// What may become what, without another device's data:
//
//   from        to          step           from        to          step
//   ----------  ----------  -------------  ----------  ----------  ----------
//   replicated  sharded     local_slice    sharded     replicated  all_gather
//   replicated  partial     mask           partial     replicated  all_reduce
//   sharded(d)  sharded(e)  all_to_all     partial     sharded reduce_scatter
//   (left: no traffic, except all_to_all; right: traffic)
//
// References: GSPMD (Xu et al. 2021) for sharded and partial states; PyTorch
// DTensor for the names Shard, Partial, Replicate.
//
//===----------------------------------------------------------------------===//

#ifndef MT_IR_SHARDING_H
#define MT_IR_SHARDING_H

#include "mlir/IR/BuiltinTypes.h"
#include "mt/IR/MtAttrs.h"

namespace mt {

/// The position of an axis in its mesh.
using Axis = unsigned;
using AxisList = llvm::SmallVector<Axis, 2>;

enum class AxisState { Replicated, Sharded, Partial };

/// A layout as a value: cheap to change, turned into a `ShardingAttr` when it
/// is right.
class Sharding {
public:
  Sharding() = default;
  Sharding(MeshAttr mesh, unsigned rank) : mesh(mesh), dims(rank) {}
  explicit Sharding(ShardingAttr attr);

  static Sharding replicated(MeshAttr mesh, unsigned rank) {
    return Sharding(mesh, rank);
  }

  unsigned getRank() const { return dims.size(); }
  bool isPartial() const { return !partial.empty(); }

  AxisState getState(Axis axis) const;
  /// The dimension that `axis` shards, if it shards one.
  std::optional<unsigned> getShardedDim(Axis axis) const;
  bool isReplicatedOn(Axis axis) const {
    return getState(axis) == AxisState::Replicated;
  }

  /// Number of pieces of dimension `dim`.
  int64_t getNumShards(unsigned dim) const { return mesh.getSize(dims[dim]); }

  /// Adds `axis` to the partial axes, kept in mesh order.
  void addPartial(Axis axis);

  /// The same layout with partial read as replicated: what a cotangent is
  /// pinned to by its primal.
  ///
  ///   [{dp}, {}] partial sum {tp}  ->  [{dp}, {}]
  Sharding withoutPartial() const;

  /// The layout with `axis` replaced by `parts` of `splitMesh`, major first.
  ///
  ///   axis tp = 4 into kv = 2, rep = 2:  [{dp}, {tp}] -> [{dp}, {kv, rep}]
  Sharding onSplitMesh(MeshAttr splitMesh, Axis axis) const;

  /// The number of elements that a device holds of a tensor of `shape`.
  int64_t getNumLocalElements(llvm::ArrayRef<int64_t> shape) const;

  /// The first dimension of `shape` that its axes do not divide.
  std::optional<unsigned>
  findIndivisibleDim(llvm::ArrayRef<int64_t> shape) const;

  ShardingAttr toAttr() const;
  std::string toString() const;

  bool operator==(const Sharding &other) const;
  bool operator!=(const Sharding &other) const { return !(*this == other); }

  MeshAttr mesh;
  llvm::SmallVector<AxisList, 4> dims;
  AxisList partial;
  Reduction reduction = Reduction::Sum;
};

/// `mesh` with `axis` written as axes of `sizes` named `<axis>.<name>`. The
/// product of the sizes must be the axis' size.
///
///   mesh<dp = 2, tp = 4>, tp, {kv: 2, rep: 2}
///     -> mesh<dp = 2, tp.kv = 2, tp.rep = 2>
mlir::FailureOr<MeshAttr> splitMeshAxis(MeshAttr mesh, Axis axis,
                                        llvm::ArrayRef<llvm::StringRef> names,
                                        llvm::ArrayRef<int64_t> sizes);

/// Parses `dp=2,tp=4` or `dp:2,tp:4`; on failure `error` says what is wrong.
MeshAttr parseMesh(mlir::MLIRContext *context, llvm::StringRef text,
                   std::string &error);

/// `{dp, tp}`.
std::string axesToString(MeshAttr mesh, llvm::ArrayRef<Axis> axes);

/// The layout of a tensor type; null when it is dense or no tensor.
ShardingAttr getSharding(mlir::Type type);
inline ShardingAttr getSharding(mlir::Value value) {
  return getSharding(value.getType());
}

/// `type` with its encoding replaced by `sharding` (null: dense).
mlir::RankedTensorType withSharding(mlir::Type type, ShardingAttr sharding);

/// `type` with elements of another type, in the same layout.
mlir::RankedTensorType withElementType(mlir::Type type,
                                       mlir::Type elementType);

/// The dense type of what one device holds.
mlir::RankedTensorType getLocalType(mlir::Type type);

/// Bytes that one device holds of a tensor of this type.
int64_t getLocalBytes(mlir::Type type);

/// The index of a device in its group along `axes` (first axis major).
int64_t getGroupIndex(MeshAttr mesh, int64_t device, llvm::ArrayRef<Axis> axes);

} // namespace mt

#endif // MT_IR_SHARDING_H
