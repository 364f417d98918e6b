//===- FoldersTest.cpp - saved folders, their files and their moment ------===//

#include "AtomicFolder.h"
#include "ModelConfig.h"
#include "ShardedWriter.h"
#include "TrainerState.h"

#include "Support.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace mt::runtime;
namespace fs = std::filesystem;

namespace {

void put(const std::string &path, const std::string &text) {
  std::ofstream(path) << text;
}

TEST(AtomicFolder, AppearsWhole) {
  for (bool mayExchange : {true, false}) {
    TemporaryFolder folder;
    std::string target = folder.path("deep/down");
    {
      AtomicFolder made(target);
      put(made.file("model.safetensors"), "new");
      EXPECT_FALSE(fs::exists(target));
      made.commit(mayExchange);
    }
    EXPECT_EQ(folder.read("deep/down/model.safetensors"), "new");
    EXPECT_EQ(folder.files(), 1u);
  }
}

TEST(AtomicFolder, ReplacesACheckpointAndKeepsTheRest) {
  for (bool mayExchange : {true, false}) {
    TemporaryFolder folder;
    fs::create_directory(folder.path("x"));
    for (const char *old :
         {"x/model-00001-of-00002.safetensors",
          "x/model.safetensors.index.json", "x/optimizer.safetensors",
          "x/trainer_state.json", "x/config.json", "x/tokenizer.json"})
      folder.write(old, "old");
    AtomicFolder made(folder.path("x/"));
    put(made.file("model.safetensors"), "new");
    put(made.file("config.json"), "new");
    EXPECT_EQ(folder.read("x/config.json"), "old");
    made.commit(mayExchange);
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder.path("x")))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names,
              (std::vector<std::string>{"config.json", "model.safetensors",
                                        "tokenizer.json"}));
    EXPECT_EQ(folder.read("x/config.json"), "new");
    EXPECT_EQ(folder.read("x/tokenizer.json"), "old");
    EXPECT_EQ(folder.files(), 1u);
  }
}

TEST(AtomicFolder, LeavesNothingWithoutACommit) {
  TemporaryFolder folder;
  {
    AtomicFolder made(folder.path("x"));
  }
  EXPECT_EQ(folder.files(), 0u);
  // What a crash has left is used again.
  fs::create_directory(folder.path(".x.saving"));
  folder.write(".x.saving/odd", "old");
  AtomicFolder made(folder.path("x"));
  made.commit();
  EXPECT_TRUE(fs::is_empty(folder.path("x")));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFolder, FollowsLinks) {
  TemporaryFolder folder;
  fs::create_directory(folder.path("real"));
  fs::create_directory_symlink(folder.path("real"), folder.path("link"));
  AtomicFolder made(folder.path("link"));
  put(made.file("a"), "new");
  made.commit();
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(folder.read("real/a"), "new");
}

TEST(AtomicFolder, RefusesWhatItWouldDestroy) {
  TemporaryFolder folder;
  auto check = [&](const std::string &path) {
    return errorOf([&] { checkReplaceable(path); });
  };
  EXPECT_EQ(check(folder.path("none")), "");
  folder.write("file", "");
  expectContains(check(folder.path("file")), "found a file");
  fs::create_directories(folder.path("x/inner"));
  EXPECT_EQ(check(folder.path("x")),
            folder.path("x") + ": expected a folder of files, which is "
                               "replaced as a whole, found inner in it");
  expectContains(check("."), "found the one this runs in");
}

TEST(AtomicFolder, IsFoundWhereACrashHasLeftIt) {
  TemporaryFolder folder;
  EXPECT_EQ(existingFolder(folder.path("x")), folder.path("x"));
  fs::create_directory(folder.path(".x.old"));
  EXPECT_TRUE(
      fs::equivalent(existingFolder(folder.path("x")), folder.path(".x.old")));
  fs::create_directory(folder.path("x"));
  EXPECT_EQ(existingFolder(folder.path("x")), folder.path("x"));
  EXPECT_EQ(existingFolder(""), "");
}

TEST(ShardedWriter, CutsBetweenTensors) {
  TemporaryFolder folder;
  std::vector<SafetensorsWriter::Entry> tensors = {
      {"a", {2}}, {"b", {1}}, {"c", {9}}, {"d", {1}, true}};
  auto write = [&](int64_t maxBytes) {
    ShardedWriter writer(folder.path("model.safetensors"), tensors, maxBytes);
    writer.write({1, 2});
    writer.write({3});
    writer.write(std::vector<double>(9, 4));
    writer.write({0.1});
    writer.commit();
  };
  write(12);
  EXPECT_EQ(folder.files(), 4u);
  auto index =
      nlohmann::json::parse(folder.read("model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 56);
  EXPECT_EQ(index["weight_map"]["b"], "model-00001-of-00003.safetensors");
  EXPECT_EQ(index["weight_map"]["c"], "model-00002-of-00003.safetensors");
  SafetensorsFile last(folder.path("model-00003-of-00003.safetensors"));
  EXPECT_EQ(last.find("d")->loadFloat(0), 0.1);
  write(0);
  SafetensorsFile whole(folder.path("model.safetensors"));
  EXPECT_EQ(whole.tensors().size(), 4u);
}

TEST(ModelConfig, ComesFromTheStepOrTheFolder) {
  TemporaryFolder folder;
  Manifest manifest;
  EXPECT_EQ(findConfig(manifest, "step.so", folder.name()).text, "");
  EXPECT_EQ(findConfig(manifest, "step.so", "").text, "");
  std::string text = R"({"eos_token_id":[7,8],"torch_dtype":"float32"})";
  folder.write("config.json", text);
  ModelConfig config = findConfig(manifest, "step.so", folder.name());
  EXPECT_EQ(config.saved(), text);
  EXPECT_EQ(config.endOfDocument(8), 7);
  EXPECT_EQ(config.endOfDocument(7), -1);
  manifest.config = R"({"dtype": "bfloat16", "eos_token_id": null})";
  config = findConfig(manifest, "step.so", folder.name());
  EXPECT_EQ(config.endOfDocument(100), -1);
  EXPECT_EQ(config.saved(),
            "{\n  \"dtype\": \"float32\",\n  \"eos_token_id\": null\n}\n");
  manifest.config = "[]";
  EXPECT_EQ(errorOf([&] { findConfig(manifest, "step.so", ""); }),
            "step.so: manifest: model.config: expected an object, found []");
  manifest.config.clear();
  folder.write("config.json", "");
  expectContains(errorOf([&] { findConfig(manifest, "s", folder.name()); }),
                 "config.json: expected JSON");
}

TEST(TrainerState, ReadsWhatItWrites) {
  TemporaryFolder folder;
  TrainerState state;
  state.step = 5;
  state.seed = UINT64_MAX;
  state.sequences = 120;
  state.epochSequences = 50;
  state.hyperparameters.learningRate = 0.1;
  folder.write("trainer_state.json", state.text());
  TrainerState read = TrainerState::read(folder.name());
  EXPECT_EQ(read.text(), state.text());
  EXPECT_EQ(read.seed, UINT64_MAX);
  EXPECT_EQ(read.hyperparameters.learningRate, 0.1);
  expectContains(state.text(), "\"epoch\": 2");
}

TEST(TrainerState, RefusesOtherFiles) {
  TemporaryFolder folder;
  TrainerState state;
  state.step = 5;
  state.epochSequences = 50;
  auto with = [&](const std::string &pointer, nlohmann::json value) {
    auto damaged = nlohmann::json::parse(state.text());
    damaged[nlohmann::json::json_pointer(pointer)] = std::move(value);
    folder.write("trainer_state.json", damaged.dump());
    return errorOf([&] { TrainerState::read(folder.name()); });
  };
  EXPECT_EQ(with("/more", 1), "");
  expectContains(with("/format", "x"), "expected the format");
  expectContains(with("/version", 2), "version: expected 1, found 2");
  expectContains(with("/step", 0), "step: expected an integer of at least 1");
  expectContains(with("/seed", -1), "seed: expected an integer of at least 0");
  expectContains(with("/data/epoch_sequences", 0), "at least 1, found 0");
  expectContains(with("/hyperparameters/beta1", "x"), "expected a number");
  expectContains(with("/hyperparameters/beta1", -1), "a number in [0, 1)");
  folder.write("trainer_state.json", R"({"global_step": 5})");
  expectContains(errorOf([&] { TrainerState::read(folder.name()); }),
                 "expected the format");
}

} // namespace
