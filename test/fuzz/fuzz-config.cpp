//===- fuzz-config.cpp - any bytes as a config.json to import -------------===//

#include "FuzzFile.h"
#include "mt/Import/Import.h"

#include "mlir/IR/MLIRContext.h"

using namespace mlir;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // One context a run: types of every size would pile up in a shared one.
  MLIRContext context(MLIRContext::Threading::DISABLED);
  mt::ImportOptions options;
  options.batch = 2;
  options.sequence = 4;
  std::string path = mt::fuzz::write("config.json", data, size), error;
  OwningOpRef<ModuleOp> module =
      mt::importModel(&context, path, options, error);
  // A model, or a message of one line.
  if (bool(module) == !error.empty() || error.find('\n') != std::string::npos)
    std::abort();
  return 0;
}
