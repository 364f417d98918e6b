//===- DataTest.cpp -------------------------------------------------------===//

#include "Data.h"

#include "Support.h"

#include <algorithm>

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
                         int64_t sequence) {
  std::vector<int64_t> elements(6);
  data.readRow(input, sequence, elements.data());
  return elements;
}

DataOptions options(std::vector<std::string> files, uint64_t seed = 0,
                    int64_t steps = 10) {
  DataOptions result;
  result.files = std::move(files);
  result.seed = seed;
  result.sequences = steps * 4;
  return result;
}

TEST(Data, BatchesWrapRound) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  for (bool wide : {false, true}) {
    auto path = writeBatches(folder, "x.safetensors", 3, wide);
    auto data = openData(options({path}), manifest);
    EXPECT_EQ(row(*data, "input_ids", 6),
              (std::vector<int64_t>{36, 37, 38, 39, 40, 41}));
    EXPECT_EQ(row(*data, "labels", 18), row(*data, "input_ids", 6));
  }
}

TEST(Data, RanksTakeTheirPartOfAMicrobatch) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest(2);
  auto data = openData(
      options({writeBatches(folder, "x.safetensors", 1, false)}), manifest);
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
  auto data = openData(options({write(1, 2)}), manifest);
  std::vector<int32_t> types(3);
  fillInput(*data, manifest, manifest.buffers[3], 3, 0, 1, types.data());
  EXPECT_EQ(types, (std::vector<int32_t>{2, 2, 2}));
  expectContains(errorOf([&] { openData(options({write(2, 2)}), manifest); }),
                 "expected attention_mask from 0 to 1, found 2 at [0, 0, 0]");
  expectContains(errorOf([&] { openData(options({write(1, 3)}), manifest); }),
                 "expected token_type_ids from 0 to 2, found 3 at [0, 0, 0]");
  manifest.tokenTypes = 0;
  expectContains(errorOf([&] { openData(options({write(1, -1)}), manifest); }),
                 "expected token_type_ids from 0 on, found -1 at [0, 0, 0]");
}

/// The first ids of the sequences `first` .. `first + count - 1`.
std::vector<int64_t> starts(const DataSource &data, int64_t first,
                            int64_t count) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(row(data, "input_ids", first + i)[0]);
  return result;
}

TEST(Data, TextGivesEachSequenceOnceAnEpoch) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += char(i);
  auto a = folder.write("a.txt", text.substr(0, 40));
  auto b = folder.write("b.txt", text.substr(40));
  auto data = openData(options({a, b}, 5), manifest);
  ASSERT_EQ(data->epochSequences(), 16);
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    orders.push_back(starts(*data, epoch * 16, 16));
    for (int64_t i = 0; i < 16; ++i) {
      auto ids = row(*data, "input_ids", epoch * 16 + i);
      auto labels = row(*data, "labels", epoch * 16 + i);
      for (size_t k = 0; k < 6; ++k) {
        EXPECT_EQ(ids[k], ids[0] + int64_t(k));
        EXPECT_EQ(labels[k], ids[k] + 1);
      }
    }
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  auto again = openData(options({a, b}, 5), manifest);
  EXPECT_EQ(starts(*again, 0, 16), orders[0]);
  auto other = openData(options({a, b}, 6), manifest);
  EXPECT_NE(starts(*other, 0, 16), orders[0]);
  for (std::vector<int64_t> order : orders) {
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < 16; ++i)
      EXPECT_EQ(order[i], int64_t(6 * i));
  }
}

TEST(Data, DocumentsArePackedWithTheirEnds) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  auto a = folder.write("a.u16", bytesOf(std::vector<uint16_t>{1, 2, 3, 4}));
  auto b = folder.write("b.u32", bytesOf(std::vector<uint32_t>{5, 6, 127}));
  auto c = folder.write("c.bin", bytesOf(std::vector<uint16_t>{7, 8, 9, 10}));
  DataOptions o = options({a, b, c});
  o.endOfDocument = 127;
  // b ends itself: 1 2 3 4 127 5 | 6 127 7 8 9 10 | 127
  auto data = openData(o, manifest);
  ASSERT_EQ(data->epochSequences(), 2);
  for (int64_t i = 0; i < 2; ++i) {
    auto ids = row(*data, "input_ids", i), labels = row(*data, "labels", i);
    if (ids[0] == 1) {
      EXPECT_EQ(ids, (std::vector<int64_t>{1, 2, 3, 4, 127, 5}));
      EXPECT_EQ(labels, (std::vector<int64_t>{2, 3, 4, 127, 5, 6}));
    } else {
      EXPECT_EQ(ids, (std::vector<int64_t>{6, 127, 7, 8, 9, 10}));
      EXPECT_EQ(labels, (std::vector<int64_t>{127, 7, 8, 9, 10, 127}));
    }
  }
  o.endOfDocument = -1;
  EXPECT_EQ(openData(o, manifest)->epochSequences(), 1);
}

TEST(Data, ReadsTheFilesOfOtherPrograms) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  std::vector<uint32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 7;
  std::string tokens = bytesOf(std::vector<uint16_t>{1, 2, 3, 4, 5, 6, 7});
  auto path = folder.write("x.bin", bytesOf(header) + tokens);
  EXPECT_EQ(row(*openData(options({path}), manifest), "labels", 0),
            (std::vector<int64_t>{2, 3, 4, 5, 6, 7}));
  // Tokens that look like a header are tokens.
  manifest.vocabulary = 65536;
  header[2] = 8;
  path = folder.write("x.bin", bytesOf(header) + tokens);
  EXPECT_EQ(openData(options({path}), manifest)->epochSequences(), 86);
  DataOptions o = options({path});
  o.tokenBytes = 4;
  EXPECT_EQ(errorOf([&] { openData(o, manifest); }),
            path + ": expected token ids of 4 bytes, found 1038 bytes");
  header[0] = 20240801;
  header[2] = 7;
  path = folder.write("x.bin", bytesOf(header) + bytesOf(std::vector<uint32_t>{
                                                     1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(row(*openData(options({path}), manifest), "labels", 0),
            (std::vector<int64_t>{2, 3, 4, 5, 6, 7}));
}

TEST(Data, ChecksWhatWillBeRead) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  std::vector<uint16_t> tokens(601, 1);
  auto open = [&](int64_t first, int64_t sequences) {
    auto path = folder.write("x.u16", bytesOf(tokens));
    DataOptions o = options({path});
    o.firstSequence = first;
    o.sequences = sequences;
    return errorOf([&] { openData(o, manifest); });
  };
  tokens[599] = 128;
  EXPECT_EQ(open(0, 100), folder.path("x.u16") +
                              ": expected token ids from 0 to 127, found 128 "
                              "at token 599");
  // One of the hundred sequences has it.
  int64_t refused = 0;
  for (int64_t i = 0; i < 100; ++i)
    refused += !open(i, 1).empty();
  EXPECT_EQ(refused, 1);
}

TEST(Data, RefusesWhatDoesNotFit) {
  TemporaryFolder folder;
  Manifest manifest = makeManifest();
  auto open = [&](std::vector<std::string> files, int64_t steps = 10) {
    return errorOf([&] { openData(options(files, 0, steps), manifest); });
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
  expectContains(open({folder.write("e.bin", "x")}),
                 "expected token ids of 2 bytes, found 1 bytes");
  auto empty = folder.write("empty.txt", "");
  EXPECT_EQ(open({empty}), empty + ": expected text, found an empty file");
  EXPECT_EQ(open({folder.write("g.u16", "1234")}),
            folder.path("g.u16") + ": expected at least 7 tokens, found 2");
  manifest.buffers.push_back(manifest.buffers[0]);
  manifest.buffers.back().name = "attention_mask";
  expectContains(open({folder.path("g.u16")}),
                 "expected a .safetensors file with attention_mask, found "
                 "tokens");
  manifest.buffers.pop_back();

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
