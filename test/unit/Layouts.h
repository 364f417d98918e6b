//===- Layouts.h - meshes and layouts for unit tests ------------*- C++ -*-===//

#ifndef MT_TEST_UNIT_LAYOUTS_H
#define MT_TEST_UNIT_LAYOUTS_H

#include "mt/IR/Mt.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

namespace mt::test {

/// A context with the dialect, and a mesh for layouts written as text.
class LayoutTest : public ::testing::Test {
protected:
  LayoutTest() { context.loadDialect<MtDialect>(); }

  void setMesh(llvm::StringRef text) {
    std::string error;
    mesh = parseMesh(&context, text, error);
    ASSERT_TRUE(mesh) << error;
  }

  /// `[{dp}, {}] partial sum {tp}` on the mesh.
  Sharding layout(const std::string &text) {
    std::string meshText;
    llvm::raw_string_ostream(meshText) << mlir::Attribute(mesh);
    mlir::Attribute attr = mlir::parseAttribute(
        "#mt.sharding<" + meshText + ", " + text + ">", &context);
    EXPECT_TRUE(attr) << text;
    return Sharding(llvm::cast<ShardingAttr>(attr));
  }

  mlir::MLIRContext context;
  MeshAttr mesh;
};

/// Every layout of `rank` dimensions: each axis replicated, partial (sum), or
/// at any place among the axes of any dimension.
inline std::vector<Sharding> enumerateLayouts(MeshAttr mesh, unsigned rank) {
  std::vector<Sharding> layouts{Sharding(mesh, rank)};
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis) {
    std::vector<Sharding> next;
    for (const Sharding &layout : layouts) {
      next.push_back(layout);
      next.push_back(layout);
      next.back().addPartial(axis);
      for (unsigned dim = 0; dim < rank; ++dim)
        for (size_t place = 0; place <= layout.dims[dim].size(); ++place) {
          next.push_back(layout);
          AxisList &axes = next.back().dims[dim];
          axes.insert(axes.begin() + place, axis);
        }
    }
    layouts = std::move(next);
  }
  return layouts;
}

} // namespace mt::test

#endif // MT_TEST_UNIT_LAYOUTS_H
