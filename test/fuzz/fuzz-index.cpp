//===- fuzz-index.cpp - any bytes as the index of a checkpoint ------------===//

#include "Checkpoint.h"
#include "FuzzFile.h"
#include "mt/error.h"

using namespace mt::runtime;

namespace {

void writeShard(const std::string &file, const std::string &tensor) {
  SafetensorsWriter writer(mt::fuzz::folder() + "/" + file, {{tensor, {2}}});
  writer.write({1, 2});
  writer.commit();
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  writeShard("a.safetensors", "x");
  writeShard("b.safetensors", "y");
  mt::fuzz::write("c.safetensors", "no tensors", 10);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mt::fuzz::write("model.safetensors.index.json", data, size);
  try {
    Checkpoint checkpoint(mt::fuzz::folder());
    checkpoint.check(Manifest(), {Role::Parameter});
  } catch (const Error &) {
  }
  return 0;
}
