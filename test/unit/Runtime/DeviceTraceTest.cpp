//===- DeviceTraceTest.cpp - when a device's work ran ---------------------===//

#include "Simulated.h"
#include "Support.h"
#include "mt/runtime.h"

#include <nlohmann/json.hpp>

#include <sstream>

using namespace mt::runtime;
using nlohmann::json;

namespace {

constexpr int64_t steps = 4, ranks = 2;
/// Of what the file rounds to nanoseconds.
constexpr double rounding = 0.01;
/// What the clocks of two ranks may differ by where the machine has more to do
/// than processors: threads stand still for some of the system's time slices.
constexpr double alignment = 100e3;

struct Event {
  std::string name, kind;
  int64_t track, id;
  double begin, end;

  bool holds(const Event &other) const {
    return begin <= other.begin + rounding && other.end <= end + rounding;
  }
};

class DeviceTrace : public testing::Test {
protected:
  DeviceTrace() {
    environment.simulate();
    options.data = {folder.write("text.txt", std::string(300, '\3'))};
    options.progress = options.warnings = &said;
    options.steps = steps;
    options.timeoutSeconds = 30;
    options.trace = folder.path("trace.json");
  }

  std::string run(const std::string &step) {
    options.step = MT_FAKE_STEPS "/" + step + ".so";
    std::string message = errorOf([&] { runJob(options); });
    json trace = json::parse(folder.read("trace.json"));
    events.clear();
    tracks.clear();
    for (const json &event : trace["traceEvents"]) {
      if (event["ph"] == "X")
        events.push_back({event["name"], event["cat"], event["tid"],
                          event.value("args", json::object()).value("id", -1),
                          event["ts"],
                          double(event["ts"]) + double(event["dur"])});
      else if (event["name"] == "thread_name")
        tracks[event["tid"]] = event["args"]["name"];
    }
    return message;
  }
  /// In their order.
  std::vector<Event> find(int64_t track, const std::string &kind,
                          int64_t id = -1) const {
    std::vector<Event> result;
    for (const Event &event : events)
      if (event.track == track && event.kind == kind &&
          (id < 0 || event.id == id))
        result.push_back(event);
    std::stable_sort(
        result.begin(), result.end(),
        [](const Event &a, const Event &b) { return a.begin < b.begin; });
    return result;
  }
  void checkRank(int64_t rank);

  Environment environment;
  TemporaryFolder folder;
  std::ostringstream said;
  JobOptions options;
  std::vector<Event> events;
  std::map<int64_t, std::string> tracks;
};

/// Where two events are one behind the other.
void expectOrder(const std::vector<Event> &sorted) {
  for (size_t i = 1; i < sorted.size(); ++i)
    EXPECT_LE(sorted[i - 1].end, sorted[i].begin + rounding)
        << sorted[i - 1].name << ", " << sorted[i].name;
}

void DeviceTrace::checkRank(int64_t rank) {
  std::vector<Event> step = find(rank, "step"), entry = find(rank, "entry"),
                     kernel = find(rank, "kernel");
  ASSERT_EQ(step.size(), size_t(steps));
  ASSERT_EQ(entry.size(), size_t(2 * steps));
  ASSERT_EQ(kernel.size(), size_t(2 * steps));
  // All of a stream is one behind the other.
  expectOrder(entry);
  expectOrder(kernel);
  expectOrder(find(ranks + rank, "collective"));
  EXPECT_EQ(find(ranks + rank, "collective").size(), size_t(3 * steps));
  std::vector<Event> call[3], wait[3];
  for (int64_t id = 0; id < 3; ++id) {
    call[id] = find(ranks + rank, "collective", id);
    wait[id] = find(rank, "wait", id);
    ASSERT_EQ(call[id].size(), size_t(steps));
    ASSERT_EQ(wait[id].size(), size_t(steps));
  }
  for (size_t i = 0; i < size_t(steps); ++i) {
    const Event &microbatch = entry[2 * i], &update = entry[2 * i + 1];
    EXPECT_EQ(microbatch.name, "microbatch");
    EXPECT_EQ(update.name, "update");
    EXPECT_TRUE(step[i].holds(microbatch) && step[i].holds(update));
    EXPECT_EQ(kernel[2 * i].name, "k_loss");
    EXPECT_EQ(kernel[2 * i + 1].name, "k_descend");
    EXPECT_TRUE(microbatch.holds(kernel[2 * i]));
    EXPECT_TRUE(update.holds(kernel[2 * i + 1]));
    // A kernel of some functions takes its time.
    EXPECT_GT(kernel[2 * i].end, kernel[2 * i].begin);
    // What is waited for at once runs while that is waited for.
    EXPECT_TRUE(microbatch.holds(wait[0][i]) && wait[0][i].holds(call[0][i]));
    EXPECT_TRUE(update.holds(wait[2][i]) && wait[2][i].holds(call[2][i]));
    // What is started runs from its start, behind what it reads, to its wait.
    EXPECT_TRUE(update.holds(call[1][i]) && update.holds(wait[1][i]));
    EXPECT_GE(call[1][i].begin + rounding, kernel[2 * i].end);
    EXPECT_LE(call[1][i].end, wait[1][i].end + rounding);
    // Kernels behind the waits are behind the collectives.
    EXPECT_GE(kernel[2 * i].begin + rounding, call[0][i].end);
    EXPECT_GE(kernel[2 * i + 1].begin + rounding, call[1][i].end);
    EXPECT_GE(kernel[2 * i + 1].begin + rounding, call[2][i].end);
  }
}

TEST_F(DeviceTrace, ShowsWhenWorkRan) {
  for (int seed = 0; seed < 8; ++seed) {
    environment.set("MT_SIMULATED_SEED", std::to_string(seed));
    EXPECT_EQ(run("device2"), "");
    EXPECT_EQ(tracks,
              (std::map<int64_t, std::string>{{0, "rank 0"},
                                              {1, "rank 1"},
                                              {2, "rank 0 communication"},
                                              {3, "rank 1 communication"}}));
    for (int64_t rank = 0; rank < ranks; ++rank)
      checkRank(rank);
  }
}

// Rank 1 comes three seconds late to a collective that both are at together.
TEST_F(DeviceTrace, ShowsTheRanksOnOneClock) {
  options.steps = 1;
  EXPECT_EQ(run("device2-stuck"), "");
  std::vector<Event> early = find(ranks, "collective", 1),
                     late = find(ranks + 1, "collective", 1);
  ASSERT_EQ(early.size(), 1u);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_GT(early[0].end - early[0].begin, 3e6 - alignment);
  EXPECT_GT(late[0].begin - early[0].begin, 3e6 - alignment);
  EXPECT_LT(late[0].end - late[0].begin, 1e6);
  EXPECT_LE(late[0].begin, early[0].end + alignment);
  EXPECT_LE(early[0].end, late[0].end + alignment);
  EXPECT_LE(late[0].end, early[0].end + alignment);
}

// What a collective does on the host is timed there.
TEST_F(DeviceTrace, ShowsStagedCollectivesByTheHostsClock) {
  environment.set("MT_DEVICE_COLLECTIVES", "staged");
  EXPECT_EQ(run("device2"), "");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(find(rank, "entry").size(), size_t(2 * steps));
    EXPECT_EQ(find(rank, "kernel").size(), size_t(2 * steps));
    // Two that are waited for at once, one that is started.
    EXPECT_EQ(find(rank, "collective").size(), size_t(2 * steps));
    EXPECT_EQ(find(ranks + rank, "collective").size(), size_t(steps));
    std::vector<Event> step = find(rank, "step");
    ASSERT_EQ(step.size(), size_t(steps));
    for (const Event &event : find(rank, "collective"))
      EXPECT_TRUE(std::any_of(step.begin(), step.end(), [&](const Event &one) {
        return one.holds(event);
      }));
  }
}

TEST_F(DeviceTrace, ShowsARankAlone) {
  EXPECT_EQ(run("device1"), "");
  EXPECT_EQ(find(0, "kernel").size(), size_t(2 * steps));
  EXPECT_EQ(find(1, "collective").size(), size_t(3 * steps));
}

TEST_F(DeviceTrace, EndsWithWhatIsUnderWay) {
  options.timeoutSeconds = 0.3;
  expectContains(run("device2-stuck"), "expected the device to finish");
  // Rank 0 is at what rank 1 does not come to, and has been since.
  std::vector<Event> calls = find(ranks, "collective", 1);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_GT(calls[0].end - calls[0].begin, 0.25e6);
  EXPECT_EQ(find(ranks, "collective", 0).size(), 1u);
  for (const Event &late : find(ranks + 1, "collective", 1))
    EXPECT_GT(late.begin, calls[0].end);
}

} // namespace
