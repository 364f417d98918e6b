//===- fuzz-ir.cpp - any bytes as a module of the mt dialect --------------===//

#include "mt/IR/Mt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<mt::MtDialect, func::FuncDialect>();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  // As of a file: MLIR's lexer reads the zero behind the last byte.
  std::string source(reinterpret_cast<const char *>(data), size);
  // Parses and verifies; what comes back can be printed.
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(source, &context);
  if (module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
  }
  return 0;
}
