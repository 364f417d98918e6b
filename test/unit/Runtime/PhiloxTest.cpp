//===- PhiloxTest.cpp -----------------------------------------------------===//

#include "Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace mt::runtime;

namespace {

using Block = std::array<uint32_t, 4>;

// The known answers published with Random123 (philox4x32, 10 rounds).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                   {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, HashesNamesByFnv1a) {
  EXPECT_EQ(streamOf(""), 0xcbf29ce484222325u);
  EXPECT_EQ(streamOf("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(streamOf("foobar"), 0x85944171f73967e8u);
}

TEST(Philox, AnElementDoesNotDependOnWhereTheRowStarts) {
  std::vector<double> whole(11), part(4);
  fillNormal(7, 3, 0, 11, whole.data());
  for (int64_t first : {0, 1, 2, 5, 7}) {
    fillNormal(7, 3, first, 4, part.data());
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(part[size_t(i)], whole[size_t(first + i)]);
  }
}

TEST(Philox, NormalValuesAreThoseOfBoxAndMuller) {
  std::vector<double> values(100000);
  fillNormal(5, 11, 0, int64_t(values.size()), values.data());
  for (size_t i = 0; i < values.size(); i += 2) {
    auto [a, b] = randomWords(5, 11, i / 2);
    double u = (double(a >> 11) + 1.0) * 0x1p-53;
    double v = double(b >> 11) * 0x1p-53;
    double radius = std::sqrt(-2 * std::log(u)), angle = 2 * M_PI * v;
    EXPECT_NEAR(values[i], radius * std::cos(angle), 1e-15 * radius);
    EXPECT_NEAR(values[i + 1], radius * std::sin(angle), 1e-15 * radius);
  }
}

// Computed once: other processors and compilers must give the same.
TEST(Philox, NormalValuesHaveTheSameBitsEverywhere) {
  std::vector<double> values(4096);
  fillNormal(7, 99, 0, int64_t(values.size()), values.data());
  std::string bytes(reinterpret_cast<const char *>(values.data()),
                    values.size() * sizeof(double));
  EXPECT_EQ(streamOf(bytes), 0x9fbef3c73213eb30u);
}

TEST(Philox, NormalValuesHaveTheRightMoments) {
  std::vector<double> values(200000);
  fillNormal(1, streamOf("w"), 0, int64_t(values.size()), values.data());
  double sums[5] = {};
  for (double v : values)
    for (int power = 1; power <= 4; ++power)
      sums[power] += std::pow(v, power);
  double n = double(values.size());
  EXPECT_NEAR(sums[1] / n, 0, 0.01);
  EXPECT_NEAR(sums[2] / n, 1, 0.02);
  EXPECT_NEAR(sums[3] / n, 0, 0.05);
  EXPECT_NEAR(sums[4] / n, 3, 0.1);
}

TEST(Philox, SeedAndStreamChangeEverything) {
  double a, b, c;
  fillNormal(1, 1, 0, 1, &a);
  fillNormal(2, 1, 0, 1, &b);
  fillNormal(1, 2, 0, 1, &c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

} // namespace
