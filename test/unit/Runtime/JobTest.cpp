//===- JobTest.cpp - a whole job on a step written by hand ----------------===//

#include "Job.h"
#include "host/ThreadPool.h"

#include "Support.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <set>
#include <sstream>

using namespace mt::runtime;
using nlohmann::json;

namespace {

class JobTest : public testing::Test {
protected:
  JobTest() {
    std::string text;
    for (int i = 0; i < 300; ++i)
      text += char((i * i + i / 3) % 6);
    options.data = {folder.write("text.txt", text)};
    options.progress = &progress;
    options.warnings = &warnings;
    options.steps = 4;
    options.hyperparameters.learningRate = 0.5;
  }

  void run(const std::string &step) {
    options.step = MT_FAKE_STEPS "/" + step + ".so";
    runJob(options);
  }
  std::string messageOf(const std::string &step) {
    return errorOf([&] { run(step); });
  }
  std::vector<json> logLines(const std::string &file) {
    std::vector<json> lines;
    std::istringstream stream(folder.read(file));
    for (std::string line; std::getline(stream, line);)
      lines.push_back(json::parse(line));
    return lines;
  }

  TemporaryFolder folder;
  JobOptions options;
  std::ostringstream progress, warnings;
};

TEST_F(JobTest, TrainsTheSameOnAnyMesh) {
  for (const char *step : {"fake1", "fake2", "fake2-microbatches"}) {
    options.log = folder.path(std::string(step) + ".jsonl");
    options.save = folder.path(std::string(step) + "/model");
    options.saveGradients = folder.path(std::string(step) + ".safetensors");
    run(step);
  }
  auto reference = logLines("fake1.jsonl");
  ASSERT_EQ(reference.size(), 4u);
  for (const char *step : {"fake2", "fake2-microbatches"}) {
    auto lines = logLines(std::string(step) + ".jsonl");
    ASSERT_EQ(lines.size(), 4u);
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i]["step"], i + 1);
      EXPECT_NEAR(lines[i]["loss"], reference[i]["loss"], 1e-6);
      EXPECT_NEAR(lines[i]["gradient_norm"], reference[i]["gradient_norm"],
                  1e-6);
      EXPECT_EQ(lines[i]["valid_tokens"], 12);
      EXPECT_GT(lines[i]["step_seconds"], 0);
      EXPECT_GT(lines[i]["tokens_per_second"], 0);
      EXPECT_EQ(lines[i]["peak_bytes"].get<int64_t>() % 64, 0);
      EXPECT_EQ(lines[i].contains("start_seconds"), i == 0);
    }
  }
  expectContains(progress.str(), "step 1/4  loss ");
  expectContains(progress.str(), "  12 tokens  ");
  EXPECT_EQ(warnings.str(), "");
}

TEST_F(JobTest, SaysHowManyThreadsARankHas) {
  options.log = folder.path("log.jsonl");
  options.trace = folder.path("trace.json");
  options.threads = 3;
  run("fake2");
  EXPECT_EQ(logLines("log.jsonl")[0]["threads"], 3);
  expectContains(folder.read("trace.json"),
                 "\"labels\":\"threads of a rank: 3\"");

  options.threads = 0;
  run("fake2");
  EXPECT_EQ(logLines("log.jsonl")[0]["threads"],
            std::max<int64_t>(availableProcessors() / 2, 1));
}

TEST_F(JobTest, TrainsTheSameWithStartedCollectives) {
  for (const char *step : {"fake2", "fake2-started"}) {
    options.save = folder.path(step);
    run(step);
  }
  EXPECT_EQ(folder.read("fake2-started/model.safetensors"),
            folder.read("fake2/model.safetensors"));
}

TEST_F(JobTest, EndsWhereStartedCollectivesGoWrong) {
  options.timeoutSeconds = 0.3;
  for (const auto &[step, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"fake-started-stuck",
            "rank 0: expected all ranks at all_reduce 1 over {dp} (bias, "
            "update) within 0.3 s, found missing: rank 1"},
           {"fake-started-fails",
            "rank 0: expected entry update to return 0, found 7"},
           {"fake-not-said",
            "all_reduce 0: expected a collective that the manifest says is "
            "started, found none such in the manifest"},
           {"fake-no-wait", "all_reduce 1: expected mt_wait before the end of "
                            "step 1, found none"},
           {"fake-wrong-wait",
            "mt_wait 2: expected a collective that has been started, found "
            "none of this id"}})
    expectContains(messageOf(step), message);
}

TEST_F(JobTest, SavesGradientsBeforeTheUpdate) {
  options.saveGradients = folder.path("g.safetensors");
  options.log = folder.path("log.jsonl");
  run("fake2");
  SafetensorsFile file(options.saveGradients);
  ASSERT_EQ(file.tensors().size(), 2u);
  const FileTensor &scale = *file.find("model.scale");
  EXPECT_EQ(scale.shape, (Shape{2, 8}));
  const FileTensor &bias = *file.find("model.bias");
  EXPECT_EQ(bias.shape, Shape{6});
  double sum = 0;
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_FLOAT_EQ(scale.loadFloat(i), 1e-3f);
    sum += 1e-6;
  }
  for (int64_t i = 0; i < 6; ++i)
    sum += double(bias.loadFloat(i)) * double(bias.loadFloat(i));
  // The norm of the mean gradient is the step's own.
  EXPECT_NEAR(std::sqrt(sum), logLines("log.jsonl")[0]["gradient_norm"], 1e-6);
}

TEST_F(JobTest, ContinuesFromWhatItSaved) {
  options.save = folder.path("a/b");
  options.steps = 1;
  options.hyperparameters.learningRate = 0;
  run("fake2");
  std::string first = folder.read("a/b/model.safetensors");
  options.seed = 1234;
  options.init = options.save;
  options.save = folder.path("c");
  run("fake1");
  EXPECT_EQ(folder.read("c/model.safetensors"), first);
  options.init.clear();
  run("fake1");
  EXPECT_NE(folder.read("c/model.safetensors"), first);
}

TEST_F(JobTest, ResumesToTheSameBits) {
  for (const char *step : {"fake1", "fake2", "fake2-microbatches"}) {
    options.resume.clear();
    options.seed = 3;
    options.hyperparameters.learningRate = 0.25;
    // The text has 99 sequences: the second run starts in the second epoch.
    options.steps = 60;
    options.save = folder.path("whole");
    run(step);
    options.steps = 30;
    options.save = folder.path("half");
    run(step);
    options.seed = 0;
    options.hyperparameters = {};
    options.resume = options.save;
    options.save = folder.path("rest");
    options.steps = 60;
    run(step);
    for (const char *file : {"model.safetensors", "optimizer.safetensors",
                             "trainer_state.json", "config.json"})
      EXPECT_EQ(folder.read(std::string("rest/") + file),
                folder.read(std::string("whole/") + file))
          << step << " " << file;
    EXPECT_EQ(folder.read("rest/config.json"), "{}");
  }
  EXPECT_EQ(warnings.str(), "");
}

TEST_F(JobTest, ResumesWithWhatTheCommandLineSays) {
  options.save = folder.path("save");
  options.seed = 3;
  run("fake2");
  options.resume = options.save;
  options.steps = 6;
  options.hyperparameters.learningRate = 0.125;
  options.hyperparameters.beta1 = 0.5;
  options.given = {"--lr"};
  run("fake2");
  TrainerState state = TrainerState::read(options.save);
  EXPECT_EQ(state.step, 6);
  EXPECT_EQ(state.seed, 3u);
  EXPECT_EQ(state.sequences, 24);
  EXPECT_EQ(state.hyperparameters.learningRate, 0.125);
  EXPECT_EQ(state.hyperparameters.beta1, 0.9);
  options.steps = 8;
  options.data = {folder.write("other.txt", std::string(100, '\1'))};
  EXPECT_EQ(messageOf("fake2"), "");
  EXPECT_EQ(warnings.str(),
            "mt-run: warning: --data: expected the 99 sequences of the resumed "
            "run, found 33: they come in another order\n");
}

TEST_F(JobTest, RefusesToResumeWhatDoesNotFit) {
  options.save = folder.path("save");
  run("fake2");
  options.save.clear();
  options.resume = folder.path("save");
  EXPECT_EQ(messageOf("fake2"),
            "--steps: expected more than the 4 steps of the resumed run, found "
            "4");
  options.steps = 5;
  options.given = {"--seed"};
  options.seed = 1;
  EXPECT_EQ(messageOf("fake2"),
            "--seed: expected the 0 of the resumed run, found 1");
  options.given.clear();
  std::filesystem::remove(folder.path("save/optimizer.safetensors"));
  expectContains(messageOf("fake2"), "optimizer.safetensors: expected a file");
  options.resume = options.data[0];
  expectContains(messageOf("fake2"), "expected a folder that --save has");
  options.resume.clear();
  options.saveEvery = 2;
  EXPECT_EQ(messageOf("fake2"),
            "--save-every: expected --save beside it, found none");
}

TEST_F(JobTest, WarnsOnceOfWeightsThatAreNotFinite) {
  SafetensorsWriter writer(folder.path("x.safetensors"),
                           {{"model.bias", {6}}, {"model.scale", {2, 8}}});
  writer.write({0, 0, NAN, 0, INFINITY, 0});
  writer.write(std::vector<double>(16, NAN));
  writer.commit();
  options.init = folder.path("x.safetensors");
  expectContains(messageOf("fake2"), "expected a finite loss");
  EXPECT_EQ(warnings.str(),
            "mt-run: warning: " + options.init +
                ": model.bias at [2]: expected finite values, found nan\n");
}

TEST_F(JobTest, EndsWhereRanksFallOutOfStep) {
  std::string message = messageOf("fake-out-of-step");
  EXPECT_EQ(message, options.step +
                         ": out of step: rank 0 is at all_reduce 1 over {dp} "
                         "(bias, update), rank 1 is at all_reduce 2 over "
                         "{dp} (norm, update)");
}

TEST_F(JobTest, EndsWhereARankStaysAway) {
  options.timeoutSeconds = 0.2;
  std::string message = messageOf("fake-stuck");
  expectContains(message, "rank 0: expected all ranks at all_reduce 1 over "
                          "{dp} (bias, update) within 0.2 s, found missing: "
                          "rank 1");
}

TEST_F(JobTest, HandsSeedStepAndFirstRowToTheStep) {
  options.seed = 7;
  EXPECT_EQ(messageOf("fake-random"), "");
  options.seed = 8;
  expectContains(messageOf("fake-random"), "to return 0, found 9");
}

TEST_F(JobTest, EndsWhereAnEntryFails) {
  std::string message = messageOf("fake-entry-fails");
  EXPECT_EQ(message, options.step +
                         ": rank 0: expected entry update to return 0, "
                         "found 7");
}

TEST_F(JobTest, EndsWhereTheLossIsNotFinite) {
  options.hyperparameters.learningRate = 1e300;
  options.steps = 20;
  options.save = folder.path("save");
  std::string message = messageOf("fake2");
  expectContains(message, "rank 0: step ");
  expectContains(message, "expected a finite ");
  EXPECT_EQ(folder.files(), 1u);
}

TEST_F(JobTest, RefusesWhatIsNoStep) {
  options.step = options.data[0];
  expectContains(errorOf([&] { runJob(options); }), ": not an mt step: ");
  expectContains(messageOf("none"), "no such file or directory");
  expectContains(messageOf("fake-version"), "expected a step of ABI version " +
                                                std::to_string(MT_ABI_VERSION) +
                                                ", found version 999");
  expectContains(messageOf("fake-manifest"),
                 ": manifest: expected JSON, found a syntax error");
}

TEST_F(JobTest, RefusesBadOptionsBeforeAnythingIsWritten) {
  options.ranks = 3;
  EXPECT_EQ(messageOf("fake2"),
            "--ranks: expected the 2 ranks of the step's mesh, found 3");
  options.ranks = 2;
  options.log = folder.path("none/log.jsonl");
  expectContains(messageOf("fake2"), "expected a folder to write to");
  options.log = folder.path("log.jsonl");
  options.save = options.data[0];
  expectContains(messageOf("fake2"), "expected a folder to write to");
  options.save.clear();
  options.init = folder.path("none");
  expectContains(messageOf("fake2"), "none: expected a file that can be read");
  EXPECT_EQ(folder.files(), 1u);
}

TEST_F(JobTest, InspectsAStep) {
  json manifest = json::parse(inspectStep(MT_FAKE_STEPS "/fake2.so"));
  EXPECT_EQ(manifest["format"], "mt-step");
}

TEST_F(JobTest, CountsWhatTheManifestPredicts) {
  options.collectives = true;
  options.log = folder.path("log.jsonl");
  for (const char *step : {"fake1", "fake2", "fake2-microbatches"}) {
    run(step);
    json account = logLines("log.jsonl").back();
    EXPECT_EQ(account["steps"], 4);
    ASSERT_EQ(account["collectives"].size(), 3u);
    bool twoRanks = std::string(step) != "fake1";
    int microbatches = std::string(step) == "fake2-microbatches" ? 2 : 1;
    std::vector<int> launches = {4 * microbatches, 4, 4}, bytes = {16, 32, 24};
    for (size_t i = 0; i < 3; ++i) {
      const json &one = account["collectives"][i];
      EXPECT_EQ(one["launches"], launches[i]);
      EXPECT_EQ(one["predicted_bytes"], twoRanks ? launches[i] * bytes[i] : 0);
      EXPECT_EQ(one["counted_bytes"], one["predicted_bytes"]);
      EXPECT_EQ(one["started"], false);
      EXPECT_GT(one["seconds"], 0);
      EXPECT_GE(one["exposed_seconds"], one["seconds"]);
    }
  }
  expectContains(progress.str(), " time    exposed\n");
  expectContains(
      progress.str(),
      "all_reduce  dp           16              352              352 ");
  EXPECT_EQ(warnings.str(), "");
}

// What is started overlaps with the collective behind it, which the rank waits
// for: of three that take as long it is held up by two.
TEST_F(JobTest, SlowsCollectivesDownToANetwork) {
  options.collectives = true;
  options.log = folder.path("log.jsonl");
  options.network = Network{320, 0.05};
  options.steps = 2;
  run("fake2-started");
  json lines = logLines("log.jsonl"), account = lines.back();
  const json &sums = account["collectives"][0],
             &bias = account["collectives"][1],
             &norm = account["collectives"][2];
  EXPECT_EQ(bias["started"], true);
  EXPECT_EQ(norm["started"], false);
  // The latency, and 16, 32 and 24 bytes.
  EXPECT_GE(sums["seconds"], 2 * 0.1);
  EXPECT_GE(bias["seconds"], 2 * 0.15);
  EXPECT_GE(norm["seconds"], 2 * 0.125);
  // This one is waited for at once.
  EXPECT_GE(sums["exposed_seconds"], 2 * 0.09);
  EXPECT_LT(bias["exposed_seconds"], 0.1);
  EXPECT_GE(norm["exposed_seconds"], 2 * (0.125 + 0.14));
  EXPECT_GE(lines[0]["step_seconds"], 0.37);
}

TEST_F(JobTest, SaysWhereItCountsOtherBytes) {
  options.collectives = true;
  run("fake2-wrong-bytes");
  expectContains(progress.str(), "differ\n");
  expectContains(warnings.str(), "--collectives: expected the bytes that the "
                                 "step's manifest predicts, found others");
}

TEST_F(JobTest, SaysWhatMemoryItUses) {
  options.checkMemory = true;
  run("fake2");
  std::string line = progress.str().substr(progress.str().find("memory: "));
  // Three numbers of eight bytes in the arena.
  expectContains(line, "memory: buffers 272 bytes, arena planned 128 bytes, "
                       "touched 24 bytes; resident ");
  expectContains(line, " bytes of 2 ranks, of which before the step's memory "
                       "was allocated ");
  options.checkMemory = false;
  progress.str("");
  run("fake2");
  EXPECT_EQ(progress.str().find("memory: "), std::string::npos);
}

TEST_F(JobTest, EndsWhereAStepTouchesMoreThanWasPlanned) {
  options.checkMemory = true;
  std::string message = messageOf("fake-overrun");
  EXPECT_EQ(message, options.step +
                         ": rank 0: expected a step that touches at most the "
                         "128 bytes planned for its arena, found that rank 1 "
                         "has touched 144");
  expectContains(progress.str(), "arena planned 128 bytes, touched 144 bytes;");
}

TEST_F(JobTest, TracesEveryRank) {
  options.trace = folder.path("trace.json");
  run("fake2-microbatches");
  json trace = json::parse(folder.read("trace.json"));
  std::map<std::pair<int, std::string>, int> counts;
  for (const json &event : trace["traceEvents"]) {
    std::string name = event["name"];
    ++counts[{event["tid"].get<int>(), name}];
    if (event["ph"] == "M")
      continue;
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
    if (event["cat"] == "collective") {
      EXPECT_EQ(event["args"]["reason"], "loss");
    }
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ((counts[{rank, "thread_name"}]), 1);
    EXPECT_EQ((counts[{rank, "microbatch"}]), 8);
    EXPECT_EQ((counts[{rank, "update"}]), 4);
    EXPECT_EQ((counts[{rank, "step 4"}]), 1);
    EXPECT_EQ((counts[{rank, "all_reduce {dp}"}]), 16);
  }
}

TEST_F(JobTest, TracesWhatIsStartedOnASecondTrack) {
  options.trace = folder.path("trace.json");
  run("fake2-started");
  json trace = json::parse(folder.read("trace.json"));
  std::map<std::pair<int, std::string>, int> counts;
  std::map<int, std::set<int>> ids;
  for (const json &event : trace["traceEvents"]) {
    ++counts[{event["tid"].get<int>(), event["name"]}];
    if (event.value("cat", "") == "collective")
      ids[event["tid"]].insert(event["args"]["id"].get<int>());
    if (event["name"] == "thread_name" && event["tid"] == 3) {
      EXPECT_EQ(event["args"]["name"], "rank 1 started");
    }
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ(ids[rank], std::set<int>{2});
    EXPECT_EQ(ids[2 + rank], (std::set<int>{0, 1}));
    EXPECT_EQ((counts[{2 + rank, "thread_name"}]), 1);
    EXPECT_EQ((counts[{2 + rank, "all_reduce {dp}"}]), 8);
    EXPECT_EQ((counts[{rank, "wait for all_reduce {dp}"}]), 8);
    EXPECT_EQ((counts[{rank, "update"}]), 4);
  }
}

TEST_F(JobTest, TracesAFailedJob) {
  options.trace = folder.path("trace.json");
  messageOf("fake-out-of-step");
  json trace = json::parse(folder.read("trace.json"));
  std::set<int> failed;
  for (const json &event : trace["traceEvents"])
    if (event.value("cat", "") == "collective" && event["args"]["id"] != 0)
      failed.insert(event["args"]["id"].get<int>());
  EXPECT_EQ(failed, (std::set<int>{1, 2}));
}

} // namespace
