//===- LayoutPairsTest.cpp - every pair of layouts, compiled and run ------===//
//
// For each mesh one module with a function for every pair of layouts: it takes
// a tensor in the first and returns it in the second. The passes place the
// collectives, the compiler makes native code of them, and the runtime runs
// them on all ranks. Of the largest set, which takes minutes, a part is run
// unless MT_ALL_PAIRS is set.
//
//===----------------------------------------------------------------------===//

#include "../Layouts.h"
#include "../SimulatedDevices.h"
#include "Execution.h"

#include "mt/InitAll.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <iostream>

using namespace mlir;
using namespace mt;
using namespace mt::test;

namespace {
struct PairsCase {
  std::string mesh;
  SmallVector<int64_t> shape;
  size_t pairs;
};

void PrintTo(const PairsCase &test, std::ostream *os) {
  *os << test.mesh << " rank " << test.shape.size();
}

class LayoutPairs : public testing::TestWithParam<PairsCase> {};
} // namespace

static std::string makeFunction(size_t number, ArrayRef<int64_t> shape,
                                const Sharding &from, const Sharding &to) {
  auto type = [&](const Sharding &layout) {
    std::string text;
    llvm::raw_string_ostream(text) << RankedTensorType::get(
        shape, Float64Type::get(layout.mesh.getContext()), layout.toAttr());
    return text;
  };
  std::string a = type(from), b = type(to);
  return "func.func private @pair" + std::to_string(number) + "(%x: " + a +
         " {mt.role = \"input\", mt.name = \"x\"}) -> (" + b +
         " {mt.role = \"loss\", mt.name = \"y" + std::to_string(number) +
         "\"}) {\n%y = mt.reshard %x {reason = #mt.reason<constraint>, "
         "demanded_by = \"test\"} : " +
         a + " -> " + b + "\nreturn %y : " + b + "\n}\n";
}

/// A rank's buffer as the simulated devices' array, and back.
static Array toArray(const Buffer &buffer, const Sharding &layout,
                     ArrayRef<int64_t> shape) {
  return {layout.toAttr().getLocalShape(shape), buffer.as<double>()};
}

static void runPair(ExecutableModule &module, size_t number,
                    const PairsCase &test, const Sharding &from,
                    const Sharding &to) {
  std::string entry = "pair" + std::to_string(number);
  Array global = makeArray(test.shape);
  Shards before = distribute(global, from);
  std::vector<RankBuffers> ranks = module.makeBuffers(entry);
  for (auto [rank, shard] : llvm::zip_equal(ranks, before))
    rank.front() = Buffer::of<double>(shard.data);
  llvm::Error error = module.run(entry, ranks);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  Shards after;
  for (RankBuffers &rank : ranks)
    after.push_back(toArray(rank.back(), to, test.shape));
  EXPECT_TRUE(holds(after, global, to))
      << from.toString() << " -> " << to.toString();
}

using Pair = std::pair<Sharding, Sharding>;

/// Compiles one module with a function for each of `pairs`, and runs them.
static void runPairs(MLIRContext &context, const PairsCase &test, MeshAttr mesh,
                     ArrayRef<Pair> pairs) {
  std::string text;
  for (auto [number, pair] : llvm::enumerate(pairs))
    text += makeFunction(number, test.shape, pair.first, pair.second);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(bool(module));
  (*module)->setAttr(mt::attr::mesh, mesh);
  PassManager manager(&context);
  manager.addPass(createPlaceCollectives());
  manager.addPass(createPartitionToLocal());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  auto compiled = ExecutableModule::compile(*module);
  ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
  for (auto [number, pair] : llvm::enumerate(pairs))
    runPair(**compiled, number, test, pair.first, pair.second);
}

TEST_P(LayoutPairs, ArriveRight) {
  const PairsCase &test = GetParam();
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<MtDialect>();
  std::string error;
  MeshAttr mesh = parseMesh(&context, test.mesh, error);
  ASSERT_TRUE(mesh) << error;

  std::vector<Pair> pairs;
  std::vector<Sharding> layouts = enumerateLayouts(mesh, test.shape.size());
  for (const Sharding &from : layouts)
    for (const Sharding &to : layouts)
      pairs.emplace_back(from, to);
  EXPECT_EQ(pairs.size(), test.pairs);
  size_t stride = pairs.size() > 10000 && !std::getenv("MT_ALL_PAIRS") ? 11 : 1;
  for (size_t i = 0; i * stride < pairs.size(); ++i)
    pairs[i] = pairs[i * stride];
  pairs.resize((pairs.size() + stride - 1) / stride);
  // Compiling grows faster than the number of functions.
  constexpr size_t pairsPerModule = 1500;
  for (ArrayRef<Pair> rest = pairs; !rest.empty();
       rest = rest.drop_front(std::min(pairsPerModule, rest.size())))
    runPairs(context, test, mesh, rest.take_front(pairsPerModule));
  std::cout << test.mesh << " rank " << test.shape.size() << ": "
            << pairs.size() << " pairs right\n";
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, LayoutPairs,
    testing::Values(
        PairsCase{"a=2", {12}, 9}, PairsCase{"a=2", {12, 12}, 16},
        PairsCase{"a=4", {12}, 9}, PairsCase{"a=4", {12, 12}, 16},
        PairsCase{"a=2", {4, 4, 4}, 25}, PairsCase{"a=4", {4, 4, 4}, 25},
        PairsCase{"a=2,b=2", {12}, 100}, PairsCase{"a=2,b=2", {12, 12}, 324},
        PairsCase{"a=2,b=3", {12}, 100}, PairsCase{"a=2,b=3", {12, 12}, 324},
        PairsCase{"a=2,b=2", {4, 4, 4}, 784},
        PairsCase{"a=2,b=3", {6, 6, 6}, 784},
        PairsCase{"a=2,b=2,c=2", {16}, 1444},
        PairsCase{"a=2,b=2,c=2", {8, 8}, 8464},
        PairsCase{"a=2,b=2,c=2", {8, 8, 8}, 30976}));
