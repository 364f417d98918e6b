//===- MeshTest.cpp - reading and splitting meshes ------------------------===//

#include "../Layouts.h"

using namespace mlir;
using namespace mt;

namespace {
using MeshTest = mt::test::LayoutTest;
} // namespace

TEST_F(MeshTest, ParsesBothSpellings) {
  std::string error;
  MeshAttr mesh = parseMesh(&context, "dp=2, tp=4", error);
  ASSERT_TRUE(mesh) << error;
  EXPECT_EQ(mesh, parseMesh(&context, "dp:2,tp:4", error));
  EXPECT_EQ(mesh.getNumAxes(), 2u);
  EXPECT_EQ(mesh.getAxisName(1), "tp");
  EXPECT_EQ(mesh.getAxisSize(1), 4);
  EXPECT_EQ(mesh.getNumDevices(), 8);
  EXPECT_EQ(mesh.findAxis("tp"), 1u);
  EXPECT_FALSE(mesh.findAxis("pp"));
}

TEST_F(MeshTest, SaysWhatIsWrong) {
  for (auto [text, message] :
       {std::pair("dp", "expected axes as 'dp=2,tp=4', found 'dp'"),
        std::pair("dp=0", "expected axes as 'dp=2,tp=4', found 'dp=0'"),
        std::pair("dp=x", "expected axes as 'dp=2,tp=4', found 'dp=x'"),
        std::pair("2=2", "expected axes as 'dp=2,tp=4', found '2=2'"),
        std::pair("", "expected axes as 'dp=2,tp=4', found ''"),
        std::pair("dp=2,,tp=2", "expected axes as 'dp=2,tp=4', found ''"),
        std::pair("dp.a=2", "expected axes as 'dp=2,tp=4', found 'dp.a=2'"),
        std::pair("dp=2,dp=4", "axis 'dp' is named twice")}) {
    std::string error;
    EXPECT_FALSE(parseMesh(&context, text, error)) << text;
    EXPECT_EQ(error, message);
  }
}

TEST_F(MeshTest, TooManyDevicesAreRefused) {
  std::string error;
  EXPECT_FALSE(parseMesh(&context, "dp=65536,tp=65536", error));
  EXPECT_EQ(error, "mesh has more devices than 2147483647");
}

TEST_F(MeshTest, SplitsAnAxis) {
  setMesh("dp=2,tp=4");
  FailureOr<MeshAttr> split = splitMeshAxis(mesh, 1, {"kv", "rep"}, {2, 2});
  ASSERT_TRUE(succeeded(split));
  EXPECT_EQ(split->getNumAxes(), 3u);
  EXPECT_EQ(split->getAxisName(1), "tp.kv");
  EXPECT_EQ(split->getAxisName(2), "tp.rep");
  EXPECT_EQ(split->getUserAxisName(2), "tp");
  EXPECT_TRUE(failed(splitMeshAxis(mesh, 1, {"kv", "rep"}, {2, 3})));
  EXPECT_TRUE(failed(splitMeshAxis(mesh, 1, {"kv"}, {2, 2})));
}

TEST_F(MeshTest, LayoutsOnASplitMeshHoldTheSameShards) {
  setMesh("dp=2,tp=4");
  MeshAttr split = *splitMeshAxis(mesh, 1, {"kv", "rep"}, {2, 2});
  for (auto [text, expected] :
       {std::pair("[{dp}, {tp}]", "[{dp}, {tp.kv, tp.rep}]"),
        std::pair("[{tp, dp}, {}]", "[{tp.kv, tp.rep, dp}, {}]"),
        std::pair("[{}, {}] partial sum {dp, tp}",
                  "[{}, {}] partial sum {dp, tp.kv, tp.rep}")}) {
    Sharding before = layout(text), after = before.onSplitMesh(split, 1);
    EXPECT_EQ(after.toString(), expected);
    for (int64_t device = 0; device < 8; ++device)
      for (unsigned dim = 0; dim < 2; ++dim)
        EXPECT_EQ(getGroupIndex(mesh, device, before.dims[dim]),
                  getGroupIndex(split, device, after.dims[dim]));
  }
}
