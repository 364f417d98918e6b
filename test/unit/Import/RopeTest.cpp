//===- RopeTest.cpp - frequencies of rotary positions ---------------------===//
//
// Reference values: the formulas of transformers (modeling_rope_utils.py) in
// Python's floats, which are doubles.
//
//===----------------------------------------------------------------------===//

#include "mt/Import/Rope.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace mt;

namespace {

void expectClose(llvm::ArrayRef<double> found,
                 const std::vector<double> &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i] / expected[i], 1, 1e-14) << i;
}

TEST(Rope, Unscaled) {
  EXPECT_EQ(computeRopeFrequencies({}, 2), (llvm::SmallVector<double>{1}));
  expectClose(computeRopeFrequencies({}, 8), {1, 1e-1, 1e-2, 1e-3});
}

TEST(Rope, LinearDividesAll) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::Linear;
  scaling.factor = 4;
  expectClose(computeRopeFrequencies(scaling, 16),
              {0.25, 0.07905694150420949, 0.025, 0.007905694150420948, 0.0025,
               0.0007905694150420947, 0.00025, 7.905694150420948e-05});
}

/// The first frequency is a high one, the second a mixture, the others are low.
TEST(Rope, Llama3MixesBetweenBands) {
  RopeScaling scaling{10000, RopeScaling::Kind::Llama3, 8, 1, 4, 32};
  expectClose(computeRopeFrequencies(scaling, 16),
              {1.0, 0.09583998588296266, 0.0125, 0.003952847075210474, 0.00125,
               0.00039528470752104737, 0.000125, 3.952847075210474e-05});
}

/// The frequencies of Llama 3.1, every fourth.
TEST(Rope, Llama31) {
  RopeScaling scaling{500000, RopeScaling::Kind::Llama3, 8, 1, 4, 8192};
  llvm::SmallVector<double> some;
  for (auto [i, frequency] :
       llvm::enumerate(computeRopeFrequencies(scaling, 128)))
    if (i % 4 == 0)
      some.push_back(frequency);
  expectClose(
      some,
      {1.0, 0.44036660267178046, 0.19392274474868576, 0.08539710028576561,
       0.03760603093086393, 0.016560440080994446, 0.0072926647372171085,
       0.0032114459947525913, 0.0005248461609929547, 7.78465527393245e-05,
       3.428102195952591e-05, 1.509621717643313e-05, 6.647869871181236e-06,
       2.9274998701761677e-06, 1.2891731721515574e-06, 5.677088100759837e-07});
}

} // namespace
