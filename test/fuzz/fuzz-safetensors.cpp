//===- fuzz-safetensors.cpp - any bytes as a tensor file ------------------===//

#include "FuzzFile.h"
#include "Safetensors.h"
#include "mt/error.h"

using namespace mt::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = mt::fuzz::write("x.safetensors", data, size);
  try {
    SafetensorsFile file(path);
    for (const auto &[name, tensor] : file.tensors()) {
      if (!tensor.isFloat() && !tensor.isInteger())
        continue;
      int64_t count = elementCount(tensor.shape);
      // The first and the last: all of a large one would take long.
      for (int64_t i : {int64_t(0), count - 1}) {
        if (i < 0 || i >= count)
          continue;
        if (tensor.isFloat())
          tensor.loadFloat(i);
        else
          tensor.loadInteger(i);
      }
    }
  } catch (const Error &) {
  }
  return 0;
}
