//===- ProcessorTest.cpp --------------------------------------------------===//

#include "Processor.h"

#include "Support.h"

using namespace mt::runtime;

namespace {

const Processor haswell{"x86_64", {"avx", "avx2", "fma", "f16c"}};

std::string messageOf(const ProcessorNeeds &needs) {
  return errorOf([&] { checkProcessor(needs, haswell, "step.so"); });
}

TEST(Processor, RunsWhatNeedsNoMoreThanItHas) {
  EXPECT_EQ(messageOf({"x86_64", "haswell", {"avx", "avx2", "fma"}}), "");
  EXPECT_EQ(messageOf({"x86_64", "x86-64", {}}), "");
}

TEST(Processor, NamesWhatItLacks) {
  EXPECT_EQ(messageOf({"x86_64",
                       "sapphirerapids",
                       {"avx2", "avx512f", "avx512vl", "amx-bf16"}}),
            "step.so: expected a processor with avx512f, avx512vl, amx-bf16, "
            "found one without");
}

TEST(Processor, LacksWhatThisRuntimeDoesNotKnow) {
  EXPECT_EQ(messageOf({"x86_64", "later", {"avx", "avx2048"}}),
            "step.so: expected a processor with avx2048, found one without");
}

TEST(Processor, RefusesAnotherArchitecture) {
  EXPECT_EQ(messageOf({"aarch64", "neoverse-v2", {}}),
            "step.so: expected a processor of aarch64, found one of x86_64");
}

#if defined(__x86_64__) && defined(__GNUC__)
TEST(Processor, AgreesWithTheCompilersOwnLibrary) {
  auto has = [](const char *feature) {
    return thisProcessor().features.count(feature) != 0;
  };
  EXPECT_EQ(thisProcessor().architecture, "x86_64");
  EXPECT_EQ(has("sse4.2"), bool(__builtin_cpu_supports("sse4.2")));
  EXPECT_EQ(has("avx"), bool(__builtin_cpu_supports("avx")));
  EXPECT_EQ(has("avx2"), bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(has("fma"), bool(__builtin_cpu_supports("fma")));
  EXPECT_EQ(has("bmi2"), bool(__builtin_cpu_supports("bmi2")));
  EXPECT_EQ(has("avx512f"), bool(__builtin_cpu_supports("avx512f")));
  EXPECT_EQ(has("avx512bw"), bool(__builtin_cpu_supports("avx512bw")));
  EXPECT_EQ(has("avx512cd"), bool(__builtin_cpu_supports("avx512cd")));
  EXPECT_EQ(has("avx512dq"), bool(__builtin_cpu_supports("avx512dq")));
  EXPECT_EQ(has("avx512vl"), bool(__builtin_cpu_supports("avx512vl")));
}
#endif

} // namespace
