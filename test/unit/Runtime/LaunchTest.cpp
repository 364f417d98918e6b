//===- LaunchTest.cpp - jobs under mpirun ---------------------------------===//
//
// Runs this binary and mt-run under mpirun. MT_FAULT_ROUNDS says how often
// ranks are killed.
//
//===----------------------------------------------------------------------===//

#include "comm/Launch.h"

#include "Shell.h"
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <map>

using namespace mt::runtime;

namespace {

class Launch : public testing::Test {
protected:
  void SetUp() override {
    if (!std::filesystem::exists(mpiLibraryPath()))
      GTEST_SKIP() << "the runtime was built without MPI";
    if (runShell("command -v mpirun").code != 0)
      GTEST_SKIP() << "mpirun was not found";
    if (findLaunchedRank(""))
      GTEST_SKIP() << "runs under mpirun itself";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "MPI is not instrumented, and taken for racy";
#endif
  }
  static std::string mpirun(int ranks) {
    // MPI keeps memory until the process ends.
    return "ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root "
           "--oversubscribe -n " +
           std::to_string(ranks) + " ";
  }
  /// mt-run on a fake step.
  std::string job(const std::string &step, const std::string &options = "") {
    return MT_RUN " " MT_FAKE_STEPS "/" + step + ".so --data " + data + " " +
           options + " ";
  }

  TemporaryFolder folder;
  std::string data = folder.write("text.txt", std::string(300, '\3'));
};

class LaunchConformance : public Launch,
                          public testing::WithParamInterface<int> {};

TEST_P(LaunchConformance, OnProcesses) {
  Outcome outcome =
      runShell(mpirun(GetParam()) + "/proc/" + std::to_string(getpid()) +
               "/exe --gtest_brief=1 --gtest_filter='*/Collectives.*mpi*'");
  EXPECT_EQ(outcome.code, 0) << outcome.said;
  // Every rank runs every case.
  EXPECT_EQ(countOf(outcome.said, "[  PASSED  ]"), size_t(GetParam()));
  EXPECT_EQ(countOf(outcome.said, "[  PASSED  ] 0 tests"), 0u);
}
INSTANTIATE_TEST_SUITE_P(All, LaunchConformance,
                         testing::Values(1, 2, 3, 4, 6, 8));

TEST_F(Launch, TrainsTheSameAsThreads) {
  std::string options = "--steps 3 --save " + folder.path("threads");
  Outcome threads = runShell(job("fake2", options));
  options = "--steps 3 --save " + folder.path("processes") + " --log " +
            folder.path("log.jsonl") + " --trace " + folder.path("trace.json") +
            " --ranks 2 --collectives";
  Outcome processes = runShell(mpirun(2) + job("fake2", options));
  EXPECT_EQ(processes.code, 0) << processes.said;
  EXPECT_EQ(folder.read("processes/model.safetensors"),
            folder.read("threads/model.safetensors"));
  // Rank 0 alone speaks and writes.
  EXPECT_EQ(countOf(processes.said, "step 3/3  loss "), 1u);
  std::string log = folder.read("log.jsonl");
  EXPECT_EQ(countOf(log, "\n"), 4u);
  expectContains(log, "\"launches\":3,\"predicted_bytes\":96,\"counted_bytes\":"
                      "96,");
  EXPECT_EQ(countOf(processes.said, "warning"), 0u) << processes.said;
  auto trace = nlohmann::json::parse(folder.read("trace.json"));
  std::map<int, int> calls;
  for (const auto &event : trace["traceEvents"])
    if (event.value("cat", "") == "collective")
      ++calls[event["tid"].get<int>()];
  EXPECT_EQ(calls, (std::map<int, int>{{0, 9}, {1, 9}}));
}

TEST_F(Launch, TrainsTheSameWithStartedCollectives) {
  Outcome plain =
      runShell(job("fake2", "--steps 3 --save " + folder.path("plain")));
  Outcome started = runShell(
      mpirun(2) + job("fake2-started", "--steps 3 --collectives --save " +
                                           folder.path("started")));
  EXPECT_EQ(started.code, 0) << started.said;
  EXPECT_EQ(folder.read("started/model.safetensors"),
            folder.read("plain/model.safetensors"));
}

TEST_F(Launch, NamesTheRankThatFailsWithStartedCollectives) {
  std::string step = MT_FAKE_STEPS;
  expectFailure(mpirun(2) + job("fake-started-stuck", "--timeout 0.3"),
                step + "/fake-started-stuck.so: rank 0: expected all ranks at "
                       "all_reduce 1 over {dp} (bias, update) within 0.3 s, "
                       "found missing: rank 1");
  expectFailure(mpirun(2) + job("fake-started-fails"),
                step + "/fake-started-fails.so: rank 0: expected entry update "
                       "to return 0, found 7");
  expectFailure(mpirun(1) + job("fake2", "--network bandwidth=1,latency=1") +
                    ": -n 1 " + job("fake2"),
                "rank 1: expected --network bandwidth=1,latency=1 as on rank "
                "0, found none");
}

TEST_F(Launch, OneRankSaysWhatIsWrongWithAll) {
  expectFailure(mpirun(3) + job("fake2"),
                MT_FAKE_STEPS "/fake2.so: expected 2 processes, one a rank of "
                              "the step's mesh, found 3");
  expectFailure(mpirun(2) + job("fake2", "--ranks 3"),
                "--ranks: expected the 2 ranks of the step's mesh, found 3");
  expectFailure(mpirun(2) + job("fake2", "--steps 0"),
                "--steps: expected an integer of at least 1, found '0'");
}

TEST_F(Launch, NamesTheRankThatHasAnotherSetUp) {
  std::string other = ": -n 1 ";
  expectFailure(mpirun(1) + job("fake2") + other + job("fake2-other"),
                "rank 1: expected collective all_reduce 1 over {dp} (bias, "
                "update), 1 x f32, 32 bytes, 1 times a step as on rank 0, "
                "found all_reduce 1 "
                "over {dp} (other, update), 1 x f32, 32 bytes");
  expectFailure(mpirun(1) + job("fake2") + other + job("fake2-microbatches"),
                "rank 1: expected collective all_reduce 0 over {dp} (sums, "
                "update), 1 x f64, 16 bytes, 1 times a step as on rank 0, "
                "found all_reduce 0 over {dp} (sums, update), 1 x f64, 16 "
                "bytes, 2 times a step");
  expectFailure(mpirun(1) + job("fake2-microbatches") + other +
                    job("fake-random"),
                "rank 1: expected the manifest's buffers hash 0x");
  expectFailure(mpirun(1) + job("fake2") + other + job("fake2", "--seed 5"),
                "rank 1: expected --seed 0 as on rank 0, found 5");
  expectFailure(mpirun(1) + job("fake2") + other + job("fake2", "--lr 0.5"),
                "rank 1: expected --lr 0.001 as on rank 0, found 0.5");
  expectFailure(mpirun(1) + job("fake2") + other + job("none"),
                "rank 1: " MT_FAKE_STEPS "/none.so: expected a file");
  expectFailure(mpirun(1) + job("fake2") + other + job("fake2", "--steps x"),
                "rank 1: --steps: expected an integer");
}

TEST_F(Launch, NamesTheRankThatFails) {
  std::string step = MT_FAKE_STEPS;
  expectFailure(mpirun(2) + job("fake-out-of-step"),
                step + "/fake-out-of-step.so: out of step: rank 0 is at "
                       "all_reduce 1 over {dp} (bias, update), rank 1 is at "
                       "all_reduce 2 over {dp} (norm, update)");
  expectFailure(mpirun(2) + job("fake-stuck", "--timeout 0.3"),
                step + "/fake-stuck.so: rank 0: expected all ranks at "
                       "all_reduce 1 over {dp} (bias, update) within 0.3 s, "
                       "found missing: rank 1");
  expectFailure(mpirun(2) + job("fake-entry-fails"),
                step + "/fake-entry-fails.so: rank 0: expected entry update to "
                       "return 0, found 7");
  // The one that is to report is the one that is away.
  expectFailure(mpirun(2) + job("fake-stuck-first", "--timeout 0.3"),
                step + "/fake-stuck-first.so: rank 1: expected all ranks at "
                       "all_reduce 1 over {dp} (bias, update) within 0.3 s, "
                       "found missing: rank 0");
}

TEST_F(Launch, SaysThatMpiIsMissing) {
  // Another place for the runtime, without what needs MPI beside it.
  std::filesystem::copy(std::filesystem::path(mpiLibraryPath())
                            .replace_filename("libmt_runtime.so"),
                        folder.path("libmt_runtime.so"));
  expectFailure("env LD_LIBRARY_PATH=" + folder.name() + " " + mpirun(2) +
                    job("fake2"),
                "under a launcher (OMPI_COMM_WORLD_RANK is set): expected " +
                    folder.path("libmt_runtime_mpi.so") +
                    ", the runtime built with MPI, found none");
}

// mpirun ends the others where one is killed; where it does not, they find out.
TEST_F(Launch, EndsWhereARankIsKilled) {
  const char *asked = std::getenv("MT_FAULT_ROUNDS");
  for (const char *options : {"", "MPIRUN_OPTIONS=--enable-recovery "}) {
    Outcome outcome = runShell(
        std::string("env ") + options + "bash " MT_TOOL_INPUTS "/kills.sh " +
        (asked ? asked : "3") + " 2 " + job("fake2", "--steps 100000000"));
    EXPECT_EQ(outcome.code, 0) << outcome.said;
    std::printf("%s%s", options, outcome.said.c_str());
  }
}

} // namespace
