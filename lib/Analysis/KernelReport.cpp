//===- KernelReport.cpp - what a step's kernels compute -------------------===//

#include "mt/Analysis/KernelReport.h"

#include "mt/Analysis/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mt;

double ReportedKernel::getSeconds(const Machine &machine) const {
  return double(launches) *
         machine.getComputeSeconds(flops, bytesRead + bytesWritten);
}

static std::string getOpNames(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return op->getName().getStringRef().str();
  SmallVector<StringRef> names;
  for (Operation &inner : kernel.getBodyBlock()->without_terminator())
    names.push_back(inner.getName().getStringRef());
  return llvm::join(names, ", ");
}

static std::string getResults(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(op->getResultTypes(), os, [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    for (int64_t size : tensor.getShape())
      os << size << 'x';
    os << tensor.getElementType();
  });
  return text;
}

/// What `op` is as a kernel, if it is one.
static std::optional<ReportedKernel> describe(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  auto memory = dyn_cast<MemoryOpInterface>(op);
  if (!cost || isa<CollectiveOpInterface>(op) || (memory && memory.isView()))
    return std::nullopt;
  ReportedKernel kernel;
  kernel.ops = getOpNames(op);
  kernel.results = getResults(op);
  kernel.flops = cost.getFlops();
  for (Type type : op->getResultTypes())
    kernel.bytesWritten += getLocalBytes(type);
  kernel.bytesRead = cost.getBytes() - kernel.bytesWritten;
  return kernel;
}

std::vector<ReportedKernel> mt::buildKernelReport(ModuleOp module) {
  std::vector<ReportedKernel> kernels;
  for (auto entry : module.getOps<func::FuncOp>()) {
    if (entry.isDeclaration())
      continue;
    int64_t runs =
        entry.getName() == microbatchName ? getMicrobatches(module) : 1;
    for (Operation &op : entry.front()) {
      std::optional<ReportedKernel> kernel = describe(&op);
      if (!kernel)
        continue;
      auto known = llvm::find_if(kernels, [&](const ReportedKernel &other) {
        return other.ops == kernel->ops && other.results == kernel->results &&
               other.flops == kernel->flops &&
               other.bytesRead == kernel->bytesRead;
      });
      if (known == kernels.end())
        known = kernels.insert(known, *kernel);
      known->launches += runs;
    }
  }
  return kernels;
}

void mt::printKernels(ArrayRef<ReportedKernel> kernels, const Machine &machine,
                      raw_ostream &os) {
  os << llvm::formatv("{0,8} {1,13} {2,13} {3,15} {4,9}  {5}\n", "launches",
                      "bytes read", "bytes written", "flops", "least ms",
                      "kernel");
  double together = 0;
  auto formatTime = [&](double seconds) -> std::string {
    if (!machine.knowsComputation())
      return "-";
    return llvm::formatv("{0:f3}", seconds * 1e3);
  };
  for (const ReportedKernel &kernel : kernels) {
    double seconds = kernel.getSeconds(machine);
    together += seconds;
    os << llvm::formatv("{0,8} {1,13} {2,13} {3,15} {4,9}  {5}: {6}\n",
                        kernel.launches, kernel.bytesRead, kernel.bytesWritten,
                        kernel.flops, formatTime(seconds), kernel.ops,
                        kernel.results);
  }
  os << llvm::formatv("{0,8} {1,13} {2,13} {3,15} {4,9}  together\n", "", "",
                      "", "", formatTime(together));
}
