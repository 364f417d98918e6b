//===- RendezvousLaunchTest.cpp - processes without MPI -------------------===//
//
// Runs mt-run as the processes of a job that meet by a file. Nobody ends those
// that stay: each has to.
//
//===----------------------------------------------------------------------===//

#include "Shell.h"
#include <nlohmann/json.hpp>

#include <csignal>
#include <map>
#include <random>
#include <thread>

using namespace mt::runtime;

namespace {

class RendezvousLaunch : public testing::Test {
protected:
  /// RANKS processes; `environment` goes to all of them.
  std::string ranks(int count, const std::string &environment = "") {
    // What messages may come to stays until the process ends.
    return "env ASAN_OPTIONS=detect_leaks=0 " + environment +
           " bash " MT_TOOL_INPUTS "/ranks.sh " + std::to_string(count) + " ";
  }
  std::string job(const std::string &step, const std::string &options = "") {
    return MT_RUN " " MT_FAKE_STEPS "/" + step + ".so --data " + data +
           " --rendezvous " + folder.path("meet") + " " + options + " ";
  }
  /// The same with another command in the place of rank 1's.
  std::string sibling(const std::string &command) {
    return "SIBLING='" + command + "'";
  }

  TemporaryFolder folder;
  std::string data = folder.write("text.txt", std::string(300, '\3'));
};

TEST_F(RendezvousLaunch, TrainsTheSameAsThreads) {
  for (const char *step : {"fake2", "fake2-started"}) {
    Outcome threads = runShell(MT_RUN " " MT_FAKE_STEPS "/" +
                               std::string(step) + ".so --data " + data +
                               " --steps 3 --save " + folder.path("threads"));
    EXPECT_EQ(threads.code, 0) << threads.said;
    for (const char *launcher : {"", "SLURM=1"}) {
      std::string options = "--steps 3 --collectives --save " +
                            folder.path("processes") + " --log " +
                            folder.path("log.jsonl") + " --trace " +
                            folder.path("trace.json");
      // What is left of an earlier job.
      folder.write("meet", "mt-rendezvous 1\n");
      Outcome processes = runShell(ranks(2, launcher) + job(step, options));
      EXPECT_EQ(processes.code, 0) << processes.said;
      EXPECT_EQ(folder.read("processes/model.safetensors"),
                folder.read("threads/model.safetensors"));
      EXPECT_FALSE(std::filesystem::exists(folder.path("meet")));
      // Rank 0 alone speaks and writes.
      EXPECT_EQ(countOf(processes.said, "step 3/3  loss "), 1u);
      EXPECT_EQ(countOf(processes.said, "warning"), 0u) << processes.said;
      auto trace = nlohmann::json::parse(folder.read("trace.json"));
      std::map<int, int> calls;
      for (const auto &event : trace["traceEvents"])
        if (event.value("cat", "") == "step")
          ++calls[event["tid"].get<int>()];
      EXPECT_EQ(calls, (std::map<int, int>{{0, 3}, {1, 3}}));
    }
  }
}

TEST_F(RendezvousLaunch, DoesNotUseMpi) {
  // A launcher of MPI programs, whose MPI would not find its daemon.
  Outcome outcome =
      runShell(ranks(2, "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1") +
               job("fake2", "--steps 2"));
  EXPECT_EQ(outcome.code, 0) << outcome.said;
}

TEST_F(RendezvousLaunch, OneRankSaysWhatIsWrongWithAll) {
  expectFailure(ranks(3) + job("fake2"),
                MT_FAKE_STEPS "/fake2.so: expected 2 processes, one a rank of "
                              "the step's mesh, found 3");
  expectFailure(ranks(2) + job("fake2", "--steps 0"),
                "--steps: expected an integer of at least 1, found '0'");
  expectFailure(ranks(2) + job("fake2", "--lr"),
                "--lr: expected a value, found none");
  expectFailure(ranks(2, sibling(job("fake2", "--lr 0.5"))) + job("fake2"),
                "rank 1: expected --lr 0.001 as on rank 0, found 0.5");
  expectFailure(ranks(2, sibling(job("none"))) + job("fake2"),
                "rank 1: " MT_FAKE_STEPS "/none.so: expected a file");
  expectFailure("env -u RANK " + job("fake2"),
                "--rendezvous: expected a launcher's rank");
  expectFailure("env RANK=2 WORLD_SIZE=2 " + job("fake2"),
                "--rendezvous: RANK: expected a rank below the 2 of "
                "WORLD_SIZE, found 2");
  expectFailure("env RANK=0 WORLD_SIZE=2 " + job("fake2", "--timeout 0.1"),
                "rank 0: expected all ranks to join the job within 5 s, found "
                "missing: rank 1");
  expectFailure(MT_RUN " " MT_FAKE_STEPS "/fake2.so --rendezvous ''",
                "--rendezvous: expected a file, found none");
}

TEST_F(RendezvousLaunch, NamesTheRankThatFails) {
  std::string step = MT_FAKE_STEPS;
  expectFailure(ranks(2) + job("fake-out-of-step"),
                step + "/fake-out-of-step.so: out of step: rank 0 is at "
                       "all_reduce 1 over {dp} (bias, update), rank 1 is at "
                       "all_reduce 2 over {dp} (norm, update)");
  expectFailure(ranks(2) + job("fake-entry-fails"),
                step + "/fake-entry-fails.so: rank 0: expected entry update to "
                       "return 0, found 7");
  // The one that does not come is in compiled code, for ever.
  expectFailure(ranks(2) + job("fake-stuck", "--timeout 0.3"),
                step + "/fake-stuck.so: rank 0: expected all ranks at "
                       "all_reduce 1 over {dp} (bias, update) within 0.3 s, "
                       "found missing: rank 1");
  expectFailure(ranks(2) + job("fake-stuck-first", "--timeout 0.3"),
                step + "/fake-stuck-first.so: rank 1: expected all ranks at "
                       "all_reduce 1 over {dp} (bias, update) within 0.3 s, "
                       "found missing: rank 0");
  expectFailure(ranks(2) + job("fake-started-stuck", "--timeout 0.3"),
                step + "/fake-started-stuck.so: rank 0: expected all ranks at "
                       "all_reduce 1 over {dp} (bias, update) within 0.3 s, "
                       "found missing: rank 1");
}

TEST_F(RendezvousLaunch, EndsWhereARankIsKilled) {
  const char *asked = std::getenv("MT_FAULT_ROUNDS");
  std::mt19937 random(3);
  for (int round = 0; round < (asked ? std::atoi(asked) : 4); ++round) {
    int rank = round % 2;
    Outcome outcome;
    std::thread all([&] {
      outcome = runShell(
          ranks(2, "FOLDER=" + folder.name()) +
          job("fake2", "--steps 100000000 --log " + folder.path("log.jsonl")));
    });
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (folder.read("log.jsonl").empty() &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    auto start = std::chrono::steady_clock::now();
    int process = std::atoi(folder.read(std::to_string(rank)).c_str());
    ASSERT_GT(process, 0);
    EXPECT_EQ(kill(process, SIGKILL), 0);
    all.join();
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 5);
    // Neither has ended well.
    EXPECT_EQ(outcome.code, 1) << outcome.said;
    expectContains(outcome.said,
                   "rank " + std::to_string(rank) +
                       ": expected a process that runs to the end, found that "
                       "it has ended before ");
    EXPECT_EQ(countOf(outcome.said, "mt-run: error: "), 1u) << outcome.said;
    std::filesystem::remove(folder.path("log.jsonl"));
  }
}

TEST_F(RendezvousLaunch, RunsAStepForADevice) {
  std::string options = " --simulate-device --steps 3 --save ";
  Outcome threads = runShell(MT_RUN " " MT_FAKE_STEPS "/device2.so --data " +
                             data + options + folder.path("threads"));
  EXPECT_EQ(threads.code, 0) << threads.said;
  EXPECT_NE(folder.read("threads/model.safetensors"), "");
  // All devices, or one of its own, are what a process sees.
  for (const char *devices : {"2", "1"}) {
    std::string saved = std::string("processes") + devices;
    Outcome processes =
        runShell(ranks(2, std::string("MT_SIMULATED_DEVICES=") + devices) +
                 job("device2", options + folder.path(saved)));
    EXPECT_EQ(processes.code, 0) << processes.said;
    EXPECT_EQ(folder.read(saved + "/model.safetensors"),
              folder.read("threads/model.safetensors"));
  }
}

} // namespace
