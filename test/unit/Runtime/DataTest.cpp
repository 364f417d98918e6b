//===- DataTest.cpp -------------------------------------------------------===//

#include "Data.h"

#include "Support.h"

using namespace mt::runtime;

namespace {

Manifest makeManifest(int64_t microbatches = 1) {
  Manifest manifest;
  manifest.mesh = {{{"dp", 2}, {"cp", 2}}};
  manifest.vocabulary = 128;
  manifest.batch = 4;
  manifest.sequence = 6;
  manifest.microbatches = microbatches;
  for (const char *name : {"input_ids", "labels"})
    manifest.buffers.push_back({name,
                                Role::Input,
                                -1,
                                name[0] == 'i' ? MT_I32 : MT_I64,
                                {4 / microbatches, 6},
                                {2 / microbatches, 3},
                                {{{0}, {1}}, {}, MT_SUM}});
  return manifest;
}

/// A file of `count` batches; element i of all ids, and of all labels, is
/// i % 100, but for `changes` in the two one after the other.
std::string writeBatches(const TemporaryFolder &folder, const std::string &name,
                         int64_t count, bool wide,
                         std::map<int64_t, int64_t> changes = {}) {
  // The ids, then the labels.
  std::vector<int64_t> values(size_t(2 * count * 24));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int64_t(i) % (count * 24) % 100;
  for (auto [at, value] : changes)
    values[size_t(at)] = value;
  std::string ids =
      wide ? bytesOf(values)
           : bytesOf(std::vector<int32_t>(values.begin(), values.end()));
  std::string type = wide ? "I64" : "I32";
  std::string shape = "[" + std::to_string(count) + ",4,6]";
  std::string size = std::to_string(ids.size() / 2);
  std::string end = std::to_string(ids.size());
  return folder.write(
      name, safetensors("{\"input_ids\":{\"dtype\":\"" + type +
                            "\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                            size + "]},\"labels\":{\"dtype\":\"" + type +
                            "\",\"shape\":" + shape + ",\"data_offsets\":[" +
                            size + "," + end + "]}}",
                        ids));
}

std::vector<int64_t> row(const DataSource &data, const std::string &input,
                         int64_t step, int64_t index) {
  std::vector<int64_t> elements(6);
  data.readRow(input, step, index, elements.data());
  return elements;
}

TEST(Data, BatchesWrapRound) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  for (bool wide : {false, true}) {
    auto path = writeBatches(folder, "x.safetensors", 3, wide);
    auto data = openData({path}, manifest, 0, 10);
    EXPECT_EQ(row(*data, "input_ids", 1, 2),
              (std::vector<int64_t>{36, 37, 38, 39, 40, 41}));
    EXPECT_EQ(row(*data, "labels", 4, 2), row(*data, "input_ids", 1, 2));
  }
}

TEST(Data, RanksTakeTheirPartOfAMicrobatch) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(2);
  auto data = openData({writeBatches(folder, "x.safetensors", 1, false)},
                       manifest, 0, 1);
  // Rank 3: dp 1, cp 1. Microbatch 1 is rows 2 and 3.
  std::vector<int32_t> ids(3);
  fillInput(*data, manifest, manifest.buffers[0], 3, 0, 1, ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{21, 22, 23}));
  std::vector<int64_t> labels(3);
  fillInput(*data, manifest, manifest.buffers[1], 0, 0, 1, labels.data());
  EXPECT_EQ(labels, (std::vector<int64_t>{12, 13, 14}));
}

TEST(Data, ReadsEveryInputByName) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(2);
  manifest.tokenTypes = 3;
  const char *names[] = {"input_ids", "labels", "attention_mask",
                         "token_type_ids"};
  for (size_t i = 2; i < 4; ++i) {
    manifest.buffers.push_back(manifest.buffers[0]);
    manifest.buffers.back().name = names[i];
  }
  auto write = [&](int32_t mask, int32_t type) {
    std::string header, data;
    int32_t values[] = {5, 7, mask, type};
    for (size_t i = 0; i < 4; ++i) {
      data += bytesOf(std::vector<int32_t>(24, values[i]));
      header += (i ? ",\"" : "{\"") + std::string(names[i]) +
                R"(":{"dtype":"I32","shape":[1,4,6],"data_offsets":[)" +
                std::to_string(i * 96) + "," + std::to_string(i * 96 + 96) +
                "]}";
    }
    return folder.write("x.safetensors", safetensors(header + "}", data));
  };
  auto data = openData({write(1, 2)}, manifest, 0, 1);
  std::vector<int32_t> types(3);
  fillInput(*data, manifest, manifest.buffers[3], 3, 0, 1, types.data());
  EXPECT_EQ(types, (std::vector<int32_t>{2, 2, 2}));
  expectContains(errorOf([&] { openData({write(2, 2)}, manifest, 0, 1); }),
                 "expected attention_mask from 0 to 1, found 2 at [0, 0, 0]");
  expectContains(errorOf([&] { openData({write(1, 3)}, manifest, 0, 1); }),
                 "expected token_type_ids from 0 to 2, found 3 at [0, 0, 0]");
  manifest.tokenTypes = 0;
  expectContains(errorOf([&] { openData({write(1, -1)}, manifest, 0, 1); }),
                 "expected token_type_ids from 0 on, found -1 at [0, 0, 0]");
}

TEST(Data, TextGivesWindowsWithTheNextByteAsLabel) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += char(i);
  auto a = folder.write("a.txt", text.substr(0, 40));
  auto b = folder.write("b.txt", text.substr(40));
  auto data = openData({a, b}, manifest, 5, 1000);
  std::map<int64_t, int> starts;
  for (int64_t step = 0; step < 200; ++step)
    for (int64_t r = 0; r < 4; ++r) {
      auto ids = row(*data, "input_ids", step, r);
      auto labels = row(*data, "labels", step, r);
      ++starts[ids[0]];
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(ids[i], ids[0] + int64_t(i));
        EXPECT_EQ(labels[i], ids[i] + 1);
      }
    }
  // All 94 windows are drawn, the last one too.
  EXPECT_EQ(starts.size(), 94u);
  EXPECT_EQ(starts.rbegin()->first, 93);
  auto again = openData({a, b}, manifest, 5, 1000);
  EXPECT_EQ(row(*again, "labels", 7, 3), row(*data, "labels", 7, 3));
  auto other = openData({a, b}, manifest, 6, 1000);
  EXPECT_NE(row(*other, "labels", 7, 3), row(*data, "labels", 7, 3));
}

TEST(Data, RefusesWhatDoesNotFit) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  auto open = [&](std::vector<std::string> files, int64_t steps = 10) {
    return errorOf([&] { openData(files, manifest, 0, steps); });
  };
  EXPECT_EQ(open({}), "--data: expected a file to train on, found none");

  auto high = writeBatches(folder, "a.safetensors", 2, true, {{31, 128}});
  EXPECT_EQ(open({high}), high +
                              ": expected input_ids from 0 to 127, found 128 "
                              "at [1, 1, 1]");
  // A batch that no step reads may hold anything.
  EXPECT_EQ(open({high}, 1), "");
  auto low = writeBatches(folder, "b.safetensors", 1, false, {{3, -100}});
  EXPECT_EQ(open({low}),
            low +
                ": expected input_ids from 0 to 127, found -100 at [0, 0, 3]");

  auto label = writeBatches(folder, "l.safetensors", 1, true,
                            {{24 + 3, -100}, {24 + 4, -1}});
  EXPECT_EQ(open({label}),
            label + ": expected labels from 0 to 127 or -100, found -1 at "
                    "[0, 0, 4]");

  auto text = folder.write("c.txt", std::string(20, '\x80'));
  EXPECT_EQ(open({text}), text + ": expected bytes from 0 to 127, "
                                 "found 128 at byte 0");
  auto brief = folder.write("d.txt", "abcdef");
  EXPECT_EQ(open({brief}),
            brief + ": expected at least 7 bytes of text, found 6");
  expectContains(open({brief, low}), "expected files of one kind");
  expectContains(open({folder.write("e.bin", "x")}), "found .bin");

  manifest.batch = 5;
  EXPECT_EQ(open({low}),
            low + ": expected input_ids, I32 or I64 of shape [batches, 5, 6], "
                  "found shape [1, 4, 6]");
  manifest.batch = 4;
  manifest.buffers.push_back(manifest.buffers[0]);
  manifest.buffers.back().name = "attention_mask";
  expectContains(open({low}), "found no such tensor");
  expectContains(open({folder.write("f.txt", "abcdefgh")}),
                 "expected a .safetensors file with attention_mask");
}

} // namespace
