//===- ManifestTest.cpp ---------------------------------------------------===//

#include "Manifest.h"

#include "StepLibrary.h"
#include "Support.h"

#include <nlohmann/json.hpp>

using namespace mt::runtime;
using nlohmann::json;

namespace {

/// The manifest of the fake step on two ranks, to be damaged.
json good() {
  StepLibrary step(MT_FAKE_STEPS "/fake2.so");
  return json::parse(step.manifestText());
}

std::string messageOf(const json &value) {
  return errorOf([&] { parseManifest(value, "m"); });
}

/// The message after the value at `pointer` has been replaced.
std::string with(const std::string &pointer, json value) {
  json damaged = good();
  damaged[json::json_pointer(pointer)] = std::move(value);
  return messageOf(damaged);
}

TEST(Manifest, ReadsWhatIsThere) {
  Manifest manifest = parseManifest(good(), "m");
  EXPECT_EQ(manifest.mesh.ranks(), 2);
  EXPECT_EQ(manifest.parameters[2].checkpoint.unpadded(), (Shape{4, 2}));
  EXPECT_EQ(manifest.parameters[2].checkpoint.firstElement(), 4);
  EXPECT_EQ(manifest.parameters[2].checkpoint.strides(), (Shape{1, 8}));
  EXPECT_EQ(manifest.buffers[3].sharding.partial, AxisList{0});
  EXPECT_EQ(manifest.collectives[1].text,
            "all_reduce 1 over {dp} (bias, update)");
  EXPECT_EQ(manifest.update.arenaBytes, 128);
  EXPECT_FALSE(manifest.startsCollectives());
  json started = good();
  started["collectives"][2]["started"] = true;
  EXPECT_TRUE(parseManifest(started, "m").startsCollectives());
}

TEST(Manifest, ReadsWhatADeviceRuns) {
  EXPECT_FALSE(parseManifest(good(), "m").device);
  StepLibrary step(MT_FAKE_STEPS "/device2.so");
  json value = json::parse(step.manifestText());
  DeviceProgram device = *parseManifest(value, "m").device;
  EXPECT_EQ(device.scratchBytes, 4096);
  ASSERT_EQ(device.functions.size(), 7u);
  EXPECT_EQ(device.functions[2].name, "sum_up");
  EXPECT_EQ(device.functions[2].kernel, -1);
  EXPECT_EQ(device.functions[2].threads, 64);
  EXPECT_EQ(device.functions[2].sharedBytes, 512);
  EXPECT_EQ(device.images[1].kind, "twin");
  auto messageWith = [&](const char *pointer, json part) {
    json damaged = value;
    damaged[json::json_pointer(pointer)] = std::move(part);
    return messageOf(damaged);
  };
  expectContains(messageWith("/device/functions/0/threads", 2048),
                 "m: device.functions[0].threads: expected at most 1024");
  expectContains(messageWith("/device/functions/0/blocks", 0),
                 "m: device.functions[0].blocks: expected ");
  expectContains(messageWith("/device/functions/0/kernel", 3),
                 "m: device.functions[0].kernel: expected an index below 2");
  expectContains(messageWith("/device/images/0/kind", "spirv"),
                 "m: device.images[0].kind: expected ptx, cubin or twin");
  value.erase("device");
  expectContains(messageOf(value), "m: ");
}

TEST(Manifest, ReadsWhatALibraryMayAttend) {
  StepLibrary step(MT_FAKE_STEPS "/device2.so");
  json value = json::parse(step.manifestText());
  EXPECT_TRUE(parseManifest(value, "m").device->attentions.empty());
  json triple = {96, 24, 8};
  value["device"]["attentions"] = {{{"gradient", false},
                                    {"batch", 2},
                                    {"queries", 4},
                                    {"keys", 5},
                                    {"heads", 6},
                                    {"key_heads", 3},
                                    {"width", 8},
                                    {"causal", true},
                                    {"scale", 0.25},
                                    {"strides", json(5, triple)}}};
  DeviceAttention attention = parseManifest(value, "m").device->attentions[0];
  EXPECT_FALSE(attention.isGradient);
  EXPECT_EQ(attention.keys, 5);
  EXPECT_EQ(attention.heads, 6);
  EXPECT_EQ(attention.keyHeads, 3);
  EXPECT_TRUE(attention.isCausal);
  EXPECT_EQ(attention.scale, 0.25);
  ASSERT_EQ(attention.strides.size(), 5u);
  EXPECT_EQ(attention.strides[4].batch, 96);
  EXPECT_EQ(attention.strides[4].sequence, 24);
  EXPECT_EQ(attention.strides[4].head, 8);
  auto messageWith = [&](const std::string &key, json part) {
    json damaged = value;
    damaged[json::json_pointer("/device/attentions/0/" + key)] =
        std::move(part);
    return messageOf(damaged);
  };
  EXPECT_EQ(messageWith("gradient", true),
            "m: device.attentions[0].strides: expected those of 9 tensors, "
            "found 5");
  EXPECT_EQ(messageWith("strides", json(4, triple)),
            "m: device.attentions[0].strides: expected those of 5 tensors, "
            "found 4");
  EXPECT_EQ(messageWith("strides/2", {1, 2}),
            "m: device.attentions[0].strides[2]: expected strides of batch, "
            "sequence and head, found [1, 2]");
  EXPECT_EQ(messageWith("strides/2/1", -1),
            "m: device.attentions[0].strides[2][1]: expected an integer of at "
            "least 0, found -1");
  EXPECT_EQ(messageWith("key_heads", 4),
            "m: device.attentions[0].key_heads: expected a divisor of the 6 "
            "heads, found 4");
  for (const char *key :
       {"batch", "queries", "keys", "heads", "key_heads", "width"})
    EXPECT_EQ(messageWith(key, 0),
              std::string("m: device.attentions[0].") + key +
                  ": expected an integer of at least 1, found 0");
  EXPECT_EQ(messageWith("scale", "1"),
            "m: device.attentions[0].scale: expected a number, found \"1\"");
}

TEST(Manifest, ReadsWhatProcessorTheCodeNeeds) {
  json value = good();
  EXPECT_FALSE(parseManifest(value, "m").processor);
  value["processor"] = {{"architecture", "x86_64"},
                        {"name", "znver3"},
                        {"features", {"avx2", "fma"}}};
  ProcessorNeeds needs = *parseManifest(value, "m").processor;
  EXPECT_EQ(needs.architecture, "x86_64");
  EXPECT_EQ(needs.name, "znver3");
  EXPECT_EQ(needs.features, (std::vector<std::string>{"avx2", "fma"}));
  value["processor"]["features"][1] = 3;
  expectContains(messageOf(value), "m: processor.features[1]: expected ");
}

TEST(Manifest, IgnoresUnknownKeys) { EXPECT_EQ(with("/later", 3), ""); }

TEST(Manifest, NamesMissingKeys) {
  for (const char *key : {"target", "mesh", "model", "groups", "parameters",
                          "buffers", "entries", "kernels", "collectives"}) {
    json damaged = good();
    damaged.erase(key);
    EXPECT_EQ(messageOf(damaged),
              std::string("m: expected a key \"") + key + "\", found none");
  }
}

TEST(Manifest, NamesWrongValues) {
  EXPECT_EQ(with("/mesh/0/size", 0),
            "m: mesh[0].size: expected an integer of at least 1, found 0");
  EXPECT_EQ(with("/mesh/0/size", 100000),
            "m: mesh: expected at most 4096 ranks, found more");
  EXPECT_EQ(with("/groups/0/0", "tp"),
            "m: groups[0][0]: expected an axis of the mesh, found \"tp\"");
  EXPECT_EQ(with("/collectives/1/started", 1),
            "m: collectives[1].started: expected true or false, found 1");
  expectContains(with("/buffers/0/role", "odd"), "expected one of input, ");
  expectContains(with("/buffers/0/dtype", "f8"),
                 "m: buffers[0].dtype: expected f32, f64, bf16, i32 or i64");
  expectContains(with("/buffers/0/dtype", "f32"), "expected i32 or i64");
  expectContains(with("/buffers/4/local_shape/0", 4),
                 "m: buffers[4]: expected dimension 0, 4 elements, in 2 equal "
                 "pieces, found pieces of 4");
  expectContains(with("/buffers/4/sharding/dims/1", {"dp"}),
                 "expected each axis once");
  expectContains(with("/buffers/4/parameter", 3), "expected an index below 3");
  expectContains(with("/buffers/8/shape/0", 6), "pieces of 7");
  expectContains(with("/parameters/1/checkpoint/offsets/1", 5),
                 "expected a block inside the shape [2, 8]");
  expectContains(with("/parameters/1/checkpoint/sizes/1", 3),
                 "tile the checkpoint's tensor model.scale");
  expectContains(with("/entries/0/name", "other"),
                 "expected an entry \"microbatch\"");
  expectContains(with("/entries/0/buffers/0", 99), "expected an index below");
  expectContains(with("/collectives/1/id", 0), "expected its index, 1");
  expectContains(with("/model/microbatches", 3), "3 microbatches divide");
  expectContains(with("/model/token_types", 0), "at least 1, found 0");
  expectContains(with("/buffers/11/role", "loss_sum"),
                 "expected one buffer of role loss, found 0");
}

TEST(Manifest, TakesOneRandomBuffer) {
  json manifest = good();
  json buffer = {{"name", "random"},
                 {"role", "random"},
                 {"dtype", "i64"},
                 {"shape", {3}},
                 {"local_shape", {3}},
                 {"sharding",
                  {{"dims", {json::array()}},
                   {"partial", json::array()},
                   {"reduction", "sum"}}}};
  manifest["buffers"].push_back(buffer);
  EXPECT_EQ(messageOf(manifest), "");
  json twice = manifest;
  twice["buffers"].push_back(buffer);
  EXPECT_EQ(messageOf(twice),
            "m: expected at most one buffer of role random, found 2");
  json &last = manifest["buffers"].back();
  last["dtype"] = "i32";
  EXPECT_EQ(messageOf(manifest), "m: buffers[14] (random): expected [3] of i64 "
                                 "on every rank, found [3] of i32");
  last["dtype"] = "i64";
  last["sharding"]["partial"] = {"dp"};
  expectContains(messageOf(manifest), "of i64, not on every rank");
}

} // namespace
