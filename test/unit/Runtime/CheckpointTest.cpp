//===- CheckpointTest.cpp - parameters from and to files ------------------===//

#include "Checkpoint.h"

#include "Support.h"
#include "comm/LocalWorld.h"

#include <limits>

using namespace mt::runtime;

namespace {

/// Two parameters that share the transposed tensor `transformer.qk` [4, 10],
/// of 5 rows each, padded to 6, and a vector; on a mesh of 2 x 3 x 2.
Manifest makeManifest(Role role, std::vector<AxisList> dims, AxisList partial) {
  Manifest manifest;
  manifest.mesh = {{{"dp", 2}, {"fsdp", 3}, {"tp", 2}}};
  for (int64_t i = 0; i < 2; ++i) {
    std::string name = i ? "transformer.k" : "transformer.q";
    manifest.parameters.push_back(
        {name,
         true,
         {true, 0, 1, 0},
         {"transformer.qk", {4, 10}, true, {0, i * 5}, {4, 5}}});
    Buffer buffer{name, role, i, MT_F32, {6, 4}, {}, {dims, partial, MT_SUM}};
    buffer.localShape =
        localBox(manifest.mesh, buffer.sharding, buffer.shape, 0).sizes;
    manifest.buffers.push_back(buffer);
  }
  return manifest;
}

std::string writeTensor(const TemporaryFolder &folder, const std::string &file,
                        const std::string &name, const Shape &shape) {
  std::vector<float> values(size_t(elementCount(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i + 1);
  SafetensorsWriter writer(folder.path(file), {{name, shape}});
  writer.write({values.begin(), values.end()});
  writer.commit();
  return folder.path(file);
}

const std::vector<std::vector<AxisList>> layouts = {
    {{}, {}}, {{2}, {}}, {{1}, {2}}, {{2, 1}, {}}, {{}, {2, 0}}, {{1}, {0, 2}}};

TEST(Checkpoint, WhatIsLoadedIsSavedAgain) {
  TemporaryFolder folder;
  std::string path =
      writeTensor(folder, "x.safetensors", "transformer.qk", {4, 10});
  Checkpoint checkpoint(path);
  for (const auto &dims : layouts) {
    Manifest manifest = makeManifest(Role::Parameter, dims, {});
    EXPECT_EQ(checkpoint.check(manifest, {Role::Parameter}), "");
    auto world = std::make_shared<LocalWorld>(
        manifest.mesh, std::vector<AxisList>{}, std::vector<std::string>{}, 20);
    runLocalRanks(world, [&](Communicator &c) {
      std::vector<std::vector<float>> memory(2);
      for (size_t i = 0; i < 2; ++i) {
        const Buffer &buffer = manifest.buffers[i];
        memory[i].assign(size_t(elementCount(buffer.localShape)), -1);
        checkpoint.load(manifest, buffer, c.rank(), memory[i].data());
        // Row 5 is padding, whoever holds it.
        Box box = localBox(manifest.mesh, buffer.sharding, {6, 4}, c.rank());
        for (int64_t r = 0; r < box.sizes[0]; ++r)
          for (int64_t k = 0; k < box.sizes[1]; ++k) {
            int64_t row = box.offsets[0] + r, column = box.offsets[1] + k;
            EXPECT_EQ(memory[i][size_t(r * box.sizes[1] + k)],
                      row == 5 ? 0
                               : float(column * 10 + int64_t(i) * 5 + row + 1));
          }
      }
      saveWhole(c, manifest,
                {folder.path("y.safetensors"), "y", {Role::Parameter}},
                [&](int64_t b) { return memory[size_t(b)].data(); });
    });
    EXPECT_EQ(folder.read("y.safetensors"), folder.read("x.safetensors"));
  }
}

TEST(Checkpoint, PartialGradientsAreSummed) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(Role::Gradient, {{1}, {}}, {0, 2});
  auto world = std::make_shared<LocalWorld>(
      manifest.mesh, std::vector<AxisList>{}, std::vector<std::string>{}, 20);
  runLocalRanks(world, [&](Communicator &c) {
    std::vector<float> memory(8, float(1 + c.rank()));
    saveWhole(c, manifest,
              {folder.path("g.safetensors"), "g", {Role::Gradient}, 4},
              [&](int64_t) { return memory.data(); });
  });
  SafetensorsFile file(folder.path("g.safetensors"));
  const FileTensor &tensor = *file.find("transformer.qk");
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 10; ++j) {
      // Ranks of fsdp f: 2 f + {0, 1, 6, 7}, each plus one.
      int64_t f = j % 5 / 2;
      EXPECT_EQ(tensor.loadFloat(i * 10 + j), float(4 * 2 * f + 14 + 4) / 4);
    }
}

TEST(Checkpoint, InitialValuesDoNotDependOnTheMesh) {
  std::vector<float> whole(24);
  Manifest dense = makeManifest(Role::Parameter, {{}, {}}, {});
  ThreadPool pool(2);
  initialize(dense, dense.buffers[0], 0, 9, whole.data(), pool);
  EXPECT_EQ(std::vector<float>(whole.begin() + 20, whole.end()),
            std::vector<float>(4, 0));
  for (const auto &dims : layouts) {
    Manifest manifest = makeManifest(Role::Parameter, dims, {});
    const Buffer &buffer = manifest.buffers[0];
    for (int64_t rank = 0; rank < 12; ++rank) {
      std::vector<float> local(size_t(elementCount(buffer.localShape)), -1);
      initialize(manifest, buffer, rank, 9, local.data(), pool);
      Box box = localBox(manifest.mesh, buffer.sharding, {6, 4}, rank);
      for (int64_t r = 0; r < box.sizes[0]; ++r)
        for (int64_t k = 0; k < box.sizes[1]; ++k)
          EXPECT_EQ(
              local[size_t(r * box.sizes[1] + k)],
              whole[size_t((box.offsets[0] + r) * 4 + box.offsets[1] + k)]);
    }
  }
}

TEST(Checkpoint, ReadsFoldersAndNamesWithoutTheirFirstComponent) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(Role::Parameter, {{}, {}}, {});
  expectContains(errorOf([&] { Checkpoint c(folder.name()); }),
                 "expected model.safetensors or model.safetensors.index.json");
  writeTensor(folder, "shard.safetensors", "qk", {4, 10});
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"qk": "shard.safetensors"}})");
  EXPECT_EQ(Checkpoint(folder.name()).check(manifest, {Role::Parameter}), "");
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"qk": "../shard.safetensors"}})");
  expectContains(errorOf([&] { Checkpoint c(folder.name()); }),
                 "weight_map.qk: expected the name of a file in the same "
                 "folder, found \"../shard.safetensors\"");
  writeTensor(folder, "model.safetensors", "transformer.qk", {4, 10});
  EXPECT_EQ(Checkpoint(folder.name()).check(manifest, {Role::Parameter}), "");
}

TEST(Checkpoint, NamesWhatDoesNotFit) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(Role::Parameter, {{}, {}}, {});
  auto check = [&](const std::string &path) {
    return errorOf(
        [&] { Checkpoint(path).check(manifest, {Role::Parameter}); });
  };
  std::string missing = writeTensor(folder, "a", "other", {4, 10});
  EXPECT_EQ(check(missing), missing + ": expected tensor transformer.qk of "
                                      "shape [4, 10], found none of that name");
  std::string shape = writeTensor(folder, "b", "transformer.qk", {10, 4});
  EXPECT_EQ(check(shape), shape + ": expected tensor transformer.qk of shape "
                                  "[4, 10], found shape [10, 4]");
  std::string type = folder.write(
      "c", safetensors(R"({"transformer.qk":{"dtype":"I32","shape":[4,10],)"
                       R"("data_offsets":[0,160]}})",
                       std::string(160, '\0')));
  EXPECT_EQ(check(type), type + ": expected tensor transformer.qk of dtype "
                                "F32, F64, F16 or BF16, found I32");
}

TEST(Checkpoint, KnowsWhatModelsCarryBesideTheirParameters) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(Role::Parameter, {{}, {}}, {});
  auto check = [&](std::vector<std::string> extras, std::string &warning) {
    std::vector<SafetensorsWriter::Entry> entries = {{"qk", {4, 10}}};
    for (const std::string &name : extras)
      entries.push_back({name, {1}});
    SafetensorsWriter writer(folder.path("x"), entries);
    writer.write(std::vector<double>(40));
    for (size_t i = 0; i < extras.size(); ++i)
      writer.write({1});
    writer.commit();
    return errorOf([&] {
      warning = Checkpoint(folder.path("x")).check(manifest, {Role::Parameter});
    });
  };
  std::string warning;
  EXPECT_EQ(check({"h.0.attn.bias", "h.0.attn.masked_bias",
                   "model.rotary_emb.inv_freq", "bert.embeddings.position_ids"},
                  warning),
            "");
  EXPECT_EQ(warning, "");
  EXPECT_EQ(
      check({"bert.pooler.dense.bias", "cls.seq_relationship.bias"}, warning),
      "");
  EXPECT_EQ(warning, folder.path("x") +
                         ": bert.pooler.dense.bias and 1 more tensors are not "
                         "part of the model, ignored");
  EXPECT_EQ(check({"b", "a", "c"}, warning),
            folder.path("x") + ": expected the model's tensors alone, found a "
                               "and 2 more tensors");
  // Nothing that it could be tied to.
  expectContains(check({"lm_head.weight"}, warning), "found lm_head.weight");
}

TEST(Checkpoint, TiedTensorsAreEqual) {
  TemporaryFolder folder;
  Manifest manifest;
  manifest.mesh = {{{"dp", 1}}};
  manifest.parameters.push_back(
      {"transformer.wte.weight",
       true,
       {true, 0, 1, 0},
       {"transformer.wte.weight", {2, 3}, false, {0, 0}, {2, 3}}});
  manifest.buffers.push_back({"transformer.wte.weight",
                              Role::Parameter,
                              0,
                              MT_F32,
                              {4, 3},
                              {4, 3},
                              {{{}, {}}, {}, MT_SUM}});
  auto check = [&](std::vector<double> head) {
    std::vector<SafetensorsWriter::Entry> entries = {
        {"wte.weight", {2, 3}},
        {"lm_head.weight", {int64_t(head.size()) / 3, 3}}};
    SafetensorsWriter writer(folder.path("x"), entries);
    writer.write({1, 2, 3, 4, 5, 6});
    writer.write(head);
    writer.commit();
    return errorOf([&] {
      EXPECT_EQ(Checkpoint(folder.path("x")).check(manifest, {Role::Parameter}),
                "");
    });
  };
  EXPECT_EQ(check({1, 2, 3, 4, 5, 6}), "");
  EXPECT_EQ(check({1, 2, 3, 4, 7, 6}),
            folder.path("x") + ": expected lm_head.weight to equal wte.weight, "
                               "to which it is tied, found 7.000000 and "
                               "5.000000 at [1, 1]");
  expectContains(check({1, 2, 3}), "is tied, found F32 of shape [1, 3]");
}

TEST(Checkpoint, FindsTheFirstValueThatIsNotFinite) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(Role::Parameter, {{2}, {}}, {});
  SafetensorsWriter writer(folder.path("x"), {{"transformer.qk", {4, 10}}});
  std::vector<double> values(40);
  // Row 3, column 9: row 4 of the second parameter, of rank tp 1.
  values[39] = std::numeric_limits<double>::infinity();
  writer.write(values);
  writer.commit();
  Checkpoint checkpoint(folder.path("x"));
  std::vector<float> memory(12);
  auto load = [&](size_t buffer, int64_t rank) {
    return checkpoint.load(manifest, manifest.buffers[buffer], rank,
                           memory.data());
  };
  EXPECT_EQ(load(0, 1), -1);
  EXPECT_EQ(load(1, 0), -1);
  EXPECT_EQ(load(1, 1), 39);
  EXPECT_EQ(checkpoint.notFinite(manifest, manifest.buffers[1], 39),
            folder.path("x") + ": transformer.qk at [3, 9]: expected finite "
                               "values, found inf");
}

TEST(Checkpoint, AnIndexNamesTheRightFiles) {
  TemporaryFolder folder;
  writeTensor(folder, "a.safetensors", "x", {1});
  writeTensor(folder, "b.safetensors", "y", {1});
  auto open = [&](const std::string &map) {
    folder.write("model.safetensors.index.json",
                 "{\"weight_map\":" + map + "}");
    return errorOf([&] { Checkpoint c(folder.name()); });
  };
  std::string where =
      folder.path("model.safetensors.index.json") + ": weight_map";
  EXPECT_EQ(open(R"({"x":"a.safetensors","y":"b.safetensors"})"), "");
  EXPECT_EQ(open(R"({"x":"c.safetensors"})"),
            where + ".x: expected a file of the folder, found none called "
                    "c.safetensors");
  EXPECT_EQ(open(R"({"x":"b.safetensors"})"),
            where + ".x: expected a tensor of " + folder.path("b.safetensors") +
                ", found none there");
  EXPECT_EQ(open("[]"), where + ": expected an object, found []");
  expectContains(open(R"({"x":3})"), "weight_map.x: expected a string");
}

} // namespace
