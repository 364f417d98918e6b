//===- fuzz-data.cpp - any bytes as files to train on ---------------------===//
//
// The first bytes choose the kind, the vocabulary, the end of documents and
// where the rest is cut into two files.
//
//===----------------------------------------------------------------------===//

#include "Data.h"
#include "FuzzFile.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

Manifest makeManifest(uint8_t vocabulary) {
  Manifest manifest;
  manifest.vocabulary = vocabulary == 0 ? 70000 : vocabulary;
  manifest.batch = 2;
  manifest.sequence = 4;
  manifest.microbatches = 1;
  for (const char *name : {"input_ids", "labels"})
    manifest.buffers.push_back(
        {name, Role::Input, -1, MT_I32, {2, 4}, {2, 4}, {{{}, {}}, {}}});
  return manifest;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 6)
    return 0;
  static const char *const endings[] = {".txt", ".bin", ".u16", ".u32",
                                        ".safetensors"};
  std::string ending = endings[data[0] % 5];
  Manifest manifest = makeManifest(data[1]);
  DataOptions options;
  options.tokenBytes = data[0] & 128 ? 4 : 2;
  options.endOfDocument = int64_t(data[2]) - 1;
  options.firstSequence = data[3];
  options.sequences = data[4] % 16;
  options.seed = data[4];
  data += 6, size -= 6;
  size_t cut = std::min<size_t>(size, size_t(data[-1]) * 8);
  options.files = {mt::fuzz::write("a" + ending, data, size - cut)};
  if (cut > 0)
    options.files.push_back(
        mt::fuzz::write("b" + ending, data + size - cut, cut));
  try {
    auto source = openData(options, manifest);
    int64_t row[4];
    int64_t last = options.firstSequence + source->epochSequences();
    for (int64_t sequence = options.firstSequence;
         sequence < std::min(last, options.firstSequence + 64); ++sequence)
      for (const char *input : {"input_ids", "labels"})
        source->readRow(input, sequence, row);
  } catch (const Error &) {
  }
  return 0;
}
