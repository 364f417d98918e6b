//===- fuzz-json.cpp - any bytes as a manifest, a state, a config ---------===//
//
// The first byte chooses.
//
//===----------------------------------------------------------------------===//

#include "FuzzFile.h"
#include "Json.h"
#include "Manifest.h"
#include "ModelConfig.h"
#include "TrainerState.h"
#include "mt/error.h"

using namespace mt::runtime;

namespace {

void readManifest(const char *text, size_t size) {
  Manifest manifest = parseManifest(parseJson(text, text + size, "m"), "m");
  manifest.bytesPerRank();
  for (const Buffer &buffer : manifest.buffers) {
    int64_t last = manifest.mesh.ranks() - 1;
    localBox(manifest.mesh, buffer.sharding, buffer.shape, last);
    speaksForBlock(manifest.mesh, buffer.sharding, last);
    if (buffer.parameter < 0)
      continue;
    const CheckpointMap &map = manifest.parameters[buffer.parameter].checkpoint;
    map.strides();
    map.firstElement();
  }
}

void readConfig(const char *text, size_t size) {
  Manifest manifest;
  manifest.config.assign(text, size);
  ModelConfig config = findConfig(manifest, "step", "");
  config.endOfDocument(300);
  if (!config.text.empty())
    config.saved();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const char *text = reinterpret_cast<const char *>(data) + 1;
  try {
    switch (data[0] % 3) {
    case 0:
      readManifest(text, size - 1);
      break;
    case 1:
      readConfig(text, size - 1);
      break;
    default:
      mt::fuzz::write("trainer_state.json", text, size - 1);
      TrainerState::read(mt::fuzz::folder()).text();
    }
  } catch (const Error &) {
  }
  return 0;
}
