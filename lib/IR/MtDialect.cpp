//===- MtDialect.cpp - registration and aliases ---------------------------===//

#include "mt/IR/Mt.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mt;

#include "mt/IR/MtDialect.cpp.inc"

namespace {
/// Prints meshes as #mesh and layouts by content: [{dp}, {}, {tp}] partial sum
/// {fsdp} as #dp_x_tp_sum_fsdp.
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (isa<MeshAttr>(attr)) {
      os << "mesh";
      return AliasResult::OverridableAlias;
    }
    auto sharding = dyn_cast<ShardingAttr>(attr);
    if (!sharding)
      return AliasResult::NoAlias;
    printLayoutAlias(sharding, os);
    return AliasResult::OverridableAlias;
  }

private:
  /// A point in a name would be escaped: tp.kv is written tp_kv.
  static void printAxes(MeshAttr mesh, ArrayRef<Axis> axes, raw_ostream &os) {
    for (auto [index, axis] : llvm::enumerate(axes)) {
      std::string name = mesh.getAxisName(axis).str();
      std::replace(name.begin(), name.end(), '.', '_');
      os << (index ? "-" : "") << name;
    }
  }

  static void printLayoutAlias(ShardingAttr sharding, raw_ostream &os) {
    if (sharding.getRank() == 0)
      os << "scalar";
    for (unsigned dim = 0; dim < sharding.getRank(); ++dim) {
      os << (dim ? "_" : "");
      ArrayRef<Axis> axes = sharding.getDimAxes(dim);
      if (axes.empty())
        os << "x";
      printAxes(sharding.getMesh(), axes, os);
    }
    if (!sharding.isPartial())
      return;
    os << "_" << stringifyReduction(sharding.getReduction()) << "_";
    printAxes(sharding.getMesh(), sharding.getPartialAxes(), os);
  }
};
} // namespace

void MtDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "mt/IR/MtOps.cpp.inc"
      >();
  addInterfaces<AliasInterface>();
}
