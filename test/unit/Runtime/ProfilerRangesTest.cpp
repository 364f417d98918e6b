//===- ProfilerRangesTest.cpp - what a profiler is told -------------------===//

#include "Shell.h"

#include <map>
#include <set>
#include <sstream>

using namespace mt::runtime;

namespace {

#ifdef MT_NVTX_RECORDER

class ProfilerRanges : public testing::Test {
protected:
  /// The ranges of each thread: `step 1/update/k_descend`, in their order.
  std::vector<std::vector<std::string>> record(const std::string &step,
                                               const std::string &options) {
    Outcome outcome = runShell(
        "env NVTX_INJECTION64_PATH=" MT_NVTX_RECORDER " MT_NVTX_RECORD=" +
        folder.path("ranges") +
        " MT_SIMULATED_DEVICES=2 " MT_RUN " " MT_FAKE_STEPS "/" + step +
        ".so --simulate-device --data " + data + " --steps 4 " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.said;
    std::istringstream lines(folder.read("ranges"));
    std::map<int, std::vector<std::string>> open, all;
    int thread = 0, depth = 0;
    for (std::string kind; lines >> thread >> depth >> kind;) {
      std::string name;
      std::getline(lines, name);
      std::vector<std::string> &path = open[thread];
      if (kind == "-") {
        // What ends is what has begun.
        EXPECT_EQ(path.size(), size_t(depth) + 1);
        path.pop_back();
        continue;
      }
      EXPECT_EQ(path.size(), size_t(depth));
      path.push_back((path.empty() ? "" : path.back() + "/") + name.substr(1));
      all[thread].push_back(path.back());
    }
    std::vector<std::vector<std::string>> result;
    for (auto &[number, ranges] : all) {
      EXPECT_TRUE(open[number].empty());
      result.push_back(ranges);
    }
    return result;
  }

  TemporaryFolder folder;
  std::string data = folder.write("text.txt", std::string(300, '\3'));
};

std::vector<std::string> queued(const std::string &step) {
  std::vector<std::string> ranges;
  for (const char *range :
       {"", "/microbatch", "/microbatch/all_gather {dp} fake update",
        "/microbatch/k_loss", "/update",
        "/update/start all_reduce {dp} fake update",
        "/update/all_reduce {dp} fake update",
        "/update/wait for all_reduce {dp} fake update", "/update/k_descend"})
    ranges.push_back(step + range);
  return ranges;
}

// A step is queued, the next one captured as well, the others replayed.
TEST_F(ProfilerRanges, NameWhatIsQueued) {
  std::vector<std::string> expected = queued("step 1");
  for (const std::string &range : queued("step 2"))
    expected.push_back(range);
  for (const char *range : {"step 2/graph step", "step 3", "step 3/graph step",
                            "step 4", "step 4/graph step"})
    expected.push_back(range);
  auto threads = record("device2", "");
  ASSERT_EQ(threads.size(), 2u);
  for (const auto &ranges : threads)
    EXPECT_EQ(ranges, expected);
}

TEST_F(ProfilerRanges, NameEveryStepWithoutGraphs) {
  std::vector<std::string> expected;
  for (int step = 1; step <= 4; ++step)
    for (const std::string &range : queued("step " + std::to_string(step)))
      expected.push_back(range);
  auto threads = record("device2", "--no-graph");
  ASSERT_EQ(threads.size(), 2u);
  for (const auto &ranges : threads)
    EXPECT_EQ(ranges, expected);
}

TEST_F(ProfilerRanges, NameTheGraphsOfEntries) {
  auto threads = record("device2-microbatches", "");
  ASSERT_EQ(threads.size(), 2u);
  for (const auto &ranges : threads) {
    size_t last = ranges.size() - 4;
    EXPECT_EQ(
        std::vector<std::string>(ranges.begin() + int64_t(last), ranges.end()),
        (std::vector<std::string>{"step 4", "step 4/graph microbatch",
                                  "step 4/graph microbatch",
                                  "step 4/graph update"}));
  }
}

#else

TEST(ProfilerRanges, NameWhatIsQueued) {
  GTEST_SKIP() << "the runtime was built without NVTX";
}

#endif

} // namespace
