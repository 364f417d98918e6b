//===- CheckpointMapTest.cpp - parameters and the tensors they come from --===//
//
// The parameters of a model must tile the tensors of its checkpoint: every
// element of every tensor belongs to exactly one parameter.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"
#include "mt/Import/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace mt;

namespace {

const std::string golden = MT_GOLDEN;

/// The shapes of the tensors of a safetensors file.
std::map<std::string, SmallVector<int64_t>>
readShapes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t size = 0;
  file.read(reinterpret_cast<char *>(&size), sizeof(size));
  std::string header(size, ' ');
  file.read(header.data(), size);
  std::map<std::string, SmallVector<int64_t>> shapes;
  auto tensors = nlohmann::json::parse(header);
  for (auto &[name, tensor] : tensors.items())
    if (name != "__metadata__")
      for (int64_t dim : tensor["shape"].get<std::vector<int64_t>>())
        shapes[name].push_back(dim);
  return shapes;
}

struct Parameter {
  RankedTensorType type;
  ParameterAttr attr;
};

SmallVector<Parameter> getParameters(ModuleOp module) {
  SmallVector<Parameter> parameters;
  auto forward = module.lookupSymbol<func::FuncOp>(forwardName);
  for (BlockArgument argument : forward.getArguments())
    if (auto attr = forward.getArgAttrOfType<ParameterAttr>(
            argument.getArgNumber(), attr::parameter))
      parameters.push_back({cast<RankedTensorType>(argument.getType()), attr});
  return parameters;
}

int64_t count(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}

/// Adds one to every element of the block.
void cover(std::vector<int> &covered, CheckpointAttr block) {
  ArrayRef<int64_t> shape = block.getShape();
  for (int64_t linear = 0; linear < count(block.getSizes()); ++linear) {
    int64_t rest = linear, index = 0, stride = 1;
    for (int dim = shape.size() - 1; dim >= 0; --dim) {
      index +=
          (block.getOffsets()[dim] + rest % block.getSizes()[dim]) * stride;
      rest /= block.getSizes()[dim];
      stride *= shape[dim];
    }
    ASSERT_LT(index, int64_t(covered.size()));
    ++covered[index];
  }
}

/// A model of the reference data, with the number of elements that its
/// expected.json says.
struct Golden {
  const char *name;
  int64_t elements;
};

class CheckpointMap : public testing::TestWithParam<Golden> {
protected:
  void SetUp() override {
    path = golden + "/" + GetParam().name;
    std::string error;
    module = importModel(&context, path, ImportOptions(), error);
    ASSERT_TRUE(module) << error;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::string path;
  OwningOpRef<ModuleOp> module;
};

TEST_P(CheckpointMap, TilesTheTensors) {
  auto shapes = readShapes(path + "/model.safetensors");
  ASSERT_FALSE(shapes.empty());
  std::map<std::string, std::vector<int>> covered;
  for (auto &[name, shape] : shapes)
    covered[name].resize(count(shape));
  for (Parameter &parameter : getParameters(*module)) {
    CheckpointAttr block = parameter.attr.getCheckpoint();
    std::string tensor = block.getTensor().str();
    SCOPED_TRACE(parameter.attr.getName().str());
    ASSERT_TRUE(shapes.count(tensor)) << tensor;
    EXPECT_EQ(block.getShape(), ArrayRef<int64_t>(shapes[tensor]));
    cover(covered[tensor], block);
  }
  for (auto &[name, counts] : covered)
    EXPECT_TRUE(llvm::all_of(counts, [](int n) { return n == 1; })) << name;
}

/// Padding follows the rows of what is one row a token.
TEST_P(CheckpointMap, FitsTheParametersUpToPadding) {
  std::set<std::string> names;
  int64_t elements = 0;
  for (Parameter &parameter : getParameters(*module)) {
    SCOPED_TRACE(parameter.attr.getName().str());
    EXPECT_TRUE(names.insert(parameter.attr.getName().str()).second);
    CheckpointAttr block = parameter.attr.getCheckpoint();
    SmallVector<int64_t> sizes(block.getSizes());
    elements += count(sizes);
    if (block.getTransposed())
      std::swap(sizes[0], sizes[1]);
    if (sizes[0] == 300)
      sizes[0] = 384;
    EXPECT_EQ(parameter.type.getShape(), ArrayRef<int64_t>(sizes));
  }
  EXPECT_EQ(elements, GetParam().elements);
}

INSTANTIATE_TEST_SUITE_P(
    Models, CheckpointMap,
    testing::Values(Golden{"gpt2-tiny", 258816}, Golden{"llama-tiny", 224736},
                    Golden{"qwen2-tiny", 249888}, Golden{"qwen3-tiny", 369152},
                    Golden{"bert-tiny", 194700}),
    [](const testing::TestParamInfo<Golden> &info) {
      return StringRef(info.param.name).split('-').first.str();
    });

TEST(Import, FailsWithAMessage) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ImportOptions options;
  options.batch = 0;
  std::string error;
  EXPECT_FALSE(importModel(&context, golden + "/gpt2-tiny", options, error));
  EXPECT_EQ(error, "--batch: expected an integer from 1 to 16777216, found 0");
}

} // namespace
