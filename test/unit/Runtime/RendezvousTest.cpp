//===- RendezvousTest.cpp - processes become a job by a file --------------===//

#include "SocketRanks.h"
#include "Support.h"
#include "comm/Launch.h"
#include "comm/RendezvousFile.h"

#include "Simulated.h"

#include <atomic>
#include <thread>

#include <sys/stat.h>

using namespace mt::runtime;

namespace {

/// What becomes of processes that meet, as threads.
class Rendezvous : public testing::Test {
protected:
  struct Process {
    int64_t rank, ranks;
    /// Of the temporary folder.
    std::string file = "meet";
    /// Seconds after the start.
    double start = 0;
  };
  /// What each says: an error, "" where it joins, "silent" where it ends since
  /// another rank speaks. Nobody may stay for longer than the timeout and some.
  std::vector<std::string> meet(const std::vector<Process> &processes,
                                double timeout) {
    std::vector<std::string> said(processes.size());
    std::vector<std::thread> threads;
    auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < processes.size(); ++i)
      threads.emplace_back([&, i] {
        const Process &self = processes[i];
        std::this_thread::sleep_for(std::chrono::duration<double>(self.start));
        try {
          said[i] = errorOf([&] {
            Gathering all =
                gather(folder.path(self.file), self.rank, self.ranks, timeout);
            for (int64_t rank = 0; rank < self.ranks; ++rank)
              EXPECT_EQ(bool(all.connections[size_t(rank)]), rank != self.rank);
          });
        } catch (const JobEnded &) {
          said[i] = "silent";
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), timeout + 6);
    return said;
  }
  using Said = std::vector<std::string>;

  TemporaryFolder folder;
  std::string path = folder.path("meet");
};

TEST_F(Rendezvous, JoinsAllWhoeverComesFirst) {
  EXPECT_EQ(meet({{0, 1}}, 10), Said(1));
  EXPECT_EQ(
      meet({{0, 4, "meet", 0.3}, {1, 4}, {2, 4, "meet", 0.5}, {3, 4}}, 10),
      Said(4));
  EXPECT_EQ(meet({{0, 2}, {1, 2, "meet", 0.3}}, 10), Said(2));
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(Rendezvous, ReplacesTheFileOfAnEarlierJob) {
  // One that names a port where nobody listens, and one where somebody does.
  int port = 0;
  Socket foreign = listenAnywhere(port);
  for (int found : {1, port}) {
    RendezvousFile(path).write({makeKey(), 2, endpointHere(found)});
    EXPECT_EQ(meet({{0, 2, "meet", 0.4}, {1, 2}}, 20), Said(2));
    EXPECT_EQ(folder.files(), 0u);
  }
}

TEST_F(Rendezvous, NamesTheRanksThatAreMissing) {
  EXPECT_EQ(meet({{0, 4}, {2, 4}}, 0.5),
            (Said{"rank 0: expected all ranks to join the job within 0.5 s, "
                  "found missing: rank 1, rank 3",
                  "silent"}));
  EXPECT_EQ(meet({{1, 2}}, 0.3),
            Said{"rank 1: " + path +
                 ": expected rank 0 to write it within 0.3 s, found none"});
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(Rendezvous, NeverReplacesAnotherFile) {
  folder.write("meet", "weights");
  EXPECT_EQ(meet({{0, 2}, {1, 2}}, 0.3),
            (Said{path + ": expected a file that --rendezvous has written, or "
                         "none, found another",
                  "rank 1: " + path +
                      ": expected rank 0 to write it within 0.3 s, found a "
                      "file that --rendezvous has not written"}));
  EXPECT_EQ(folder.read("meet"), "weights");
  // As mktemp makes it.
  folder.write("meet", "");
  EXPECT_EQ(meet({{0, 2}, {1, 2}}, 10), Said(2));
  // Of a version to come, or cut off.
  for (const char *text : {"mt-rendezvous 1\nkey", "mt-rendezvous 1\n"}) {
    folder.write("meet", text);
    EXPECT_EQ(meet({{0, 2}, {1, 2}}, 10), Said(2)) << text;
  }
}

TEST_F(Rendezvous, RefusesAPlaceThatCannotBeWritten) {
  EXPECT_EQ(meet({{0, 1, "none/meet"}}, 1),
            Said{folder.path("none/meet") +
                 ": expected a folder to write to, found none at " +
                 folder.path("none")});
  EXPECT_EQ(meet({{0, 1, "."}}, 1),
            Said{folder.path(".") + ": expected a file, found a folder"});
  // Not even by root.
  EXPECT_EQ(errorOf([] { gather("/proc/meet", 0, 1, 1); })
                .rfind("/proc/meet: expected a file that can be written, "
                       "found: ",
                       0),
            0u);
}

TEST_F(Rendezvous, TheFileIsForItsUserAlone) {
  RendezvousFile(path).write({makeKey(), 2, endpointHere(1)});
  struct stat about = {};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  // Another job's stays.
  RendezvousFile(path).remove(makeKey());
  EXPECT_TRUE(RendezvousFile(path).read().invitation);
}

TEST_F(Rendezvous, FindsTwoProcessesOfOneRank) {
  Said said = meet({{0, 3}, {1, 3}, {1, 3}}, 10);
  EXPECT_EQ(said, (Said{"rank 1: expected one process, found two", "silent",
                        "silent"}));
  said = meet({{0, 3}, {0, 3, "meet", 0.2}, {1, 3, "meet", 0.5}}, 1.5);
  EXPECT_EQ(said[0], "rank 0: " + path +
                         ": expected the file as this process wrote it, found "
                         "another one's: two processes have rank 0");
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(Rendezvous, FindsAnotherNumberOfRanks) {
  EXPECT_EQ(meet({{0, 2}, {1, 3}}, 10),
            (Said{"rank 1: expected a job of 2 ranks as on rank 0, found 3",
                  "silent"}));
  EXPECT_EQ(meet({{0, 2}, {2, 3}}, 10)[0],
            "rank 2: expected a job of 2 ranks as on rank 0, found 3");
}

TEST_F(Rendezvous, TurnsAwayWhoDoesNotKnowTheKey) {
  std::atomic<bool> isOver{false};
  std::atomic<int> turnedAway{0};
  std::thread foreigner([&] {
    std::vector<Socket> silent;
    while (!isOver) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      auto found = RendezvousFile(path).read().invitation;
      if (!found)
        continue;
      // One that says nothing, one that says much, one with another key.
      std::vector<Socket> made = beginConnecting(found->endpoint);
      if (Socket socket = takeConnected(made, deadlineIn(1)))
        silent.push_back(std::move(socket));
      made = beginConnecting(found->endpoint);
      if (Socket socket = takeConnected(made, deadlineIn(1)))
        sendAll(socket, std::string(1000, 'j').data(), 1000, deadlineIn(1));
      Greeting greeting(makeKey(), Purpose::End, 1, 0, 2);
      turnedAway += !greet(found->endpoint, greeting, deadlineIn(1)).answer;
    }
  });
  EXPECT_EQ(meet({{0, 2}, {1, 2, "meet", 0.5}}, 10), Said(2));
  isOver = true;
  foreigner.join();
  EXPECT_GT(turnedAway, 0);
}

TEST_F(Rendezvous, NoticesAProcessThatLeavesBeforeAllAreThere) {
  std::thread leaver([&] {
    while (!RendezvousFile(path).read().invitation)
      std::this_thread::yield();
    Invitation found = *RendezvousFile(path).read().invitation;
    Greeting greeting(found.key, Purpose::Join, 1, 0, 3);
    greet(found.endpoint, greeting, deadlineIn(5));
  });
  EXPECT_EQ(meet({{0, 3}}, 10),
            Said{"rank 1: expected a process that joins the job, found that it "
                 "has ended"});
  leaver.join();
}

/// The variables of all launchers are gone.
class LaunchedRanks : public testing::Test {
protected:
  void SetUp() override {
    for (const char *name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
          "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
          "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS",
          "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"})
      environment.set(name, "");
  }
  void set(const std::vector<std::pair<std::string, std::string>> &values) {
    for (const auto &[name, value] : values)
      environment.set(name, value);
  }
  std::string error(const std::string &rendezvous = "f") {
    return errorOf([&] { findLaunchedRank(rendezvous); });
  }
  Environment environment;
};

TEST_F(LaunchedRanks, AreTorchrunsOrSruns) {
  EXPECT_FALSE(findLaunchedRank(""));
  set({{"SLURM_PROCID", "5"},
       {"SLURM_NTASKS", "8"},
       {"SLURM_LOCALID", "1"},
       {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}});
  // srun starts more than programs of MPI.
  EXPECT_FALSE(findLaunchedRank(""));
  LaunchedRank self = *findLaunchedRank("f");
  EXPECT_EQ(self.rank, 5);
  EXPECT_EQ(self.ranks, 8);
  EXPECT_EQ(self.rankHere, 1);
  EXPECT_EQ(self.ranksHere, 4);
  set({{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}});
  self = *findLaunchedRank("");
  EXPECT_EQ(self.rank, 6);
  EXPECT_EQ(self.variable, "PMI_RANK");
  EXPECT_EQ(self.rankHere, 1);
  EXPECT_EQ(self.ranksHere, 4);
  // Inside of srun's job.
  set({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  self = *findLaunchedRank("f");
  EXPECT_EQ(self.rank, 1);
  EXPECT_EQ(self.ranks, 2);
  EXPECT_EQ(self.rankHere, -1);
  EXPECT_EQ(self.ranksHere, 0);
}

// As many as srun says of their machine: `4(x2),3` is of three.
TEST_F(LaunchedRanks, AreOfSrunsMachines) {
  set({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "12"}, {"SLURM_LOCALID", "1"}});
  auto ranksHere = [&](const char *list, const char *machine) {
    set({{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", machine}});
    return findLaunchedRank("f")->ranksHere;
  };
  const char *list = "4(x2),3,1";
  EXPECT_EQ(ranksHere(list, ""), 4);
  EXPECT_EQ(ranksHere(list, "1"), 4);
  EXPECT_EQ(ranksHere(list, "2"), 3);
  EXPECT_EQ(ranksHere(list, "3"), 1);
  for (const char *other : {"4(x2),3,1", "4(x5", "4(5)", "x", "4(x4);3"}) {
    set({{"SLURM_STEP_TASKS_PER_NODE", other}, {"SLURM_NODEID", "4"}});
    EXPECT_EQ(error(), std::string("SLURM_STEP_TASKS_PER_NODE: expected a list "
                                   "with a number of machine 4, found '") +
                           other + "'");
  }
}

TEST_F(LaunchedRanks, AreRefusedWhereTheyMakeNoSense) {
  EXPECT_EQ(error(), "--rendezvous: expected a launcher's rank and number of "
                     "ranks in the environment (RANK and WORLD_SIZE, or "
                     "SLURM_PROCID and SLURM_NTASKS), found none");
  set({{"RANK", "2"}});
  EXPECT_EQ(error(), "--rendezvous: RANK: expected WORLD_SIZE beside it, the "
                     "number of ranks, found none");
  set({{"WORLD_SIZE", "2"}});
  EXPECT_EQ(error(), "--rendezvous: RANK: expected a rank below the 2 of "
                     "WORLD_SIZE, found 2");
  for (const char *text : {"x", "-1", "1x", "99999999999999999999"}) {
    set({{"RANK", text}});
    EXPECT_EQ(error(),
              std::string("RANK: expected a number, found '") + text + "'");
  }
  EXPECT_EQ(error(""), "");
}

} // namespace
