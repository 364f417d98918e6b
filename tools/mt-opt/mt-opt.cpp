//===- mt-opt.cpp - runs passes on IR -------------------------------------===//

#include "mt/InitAll.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mt::registerAllDialects(registry);
  mt::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mt optimizer driver\n", registry));
}
