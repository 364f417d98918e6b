//===- Report.cpp - prints every collective, or every kernel --------------===//

#include "mt/Analysis/KernelReport.h"
#include "mt/Analysis/Report.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

namespace mt {
#define GEN_PASS_DEF_REPORT
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "report"

using namespace mlir;

namespace {
struct Report : public mt::impl::ReportBase<Report> {
  using ReportBase::ReportBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    mt::Report report = mt::buildReport(getOperation());
    if (format == "remarks")
      return mt::emitRemarks(report);
    if (!llvm::is_contained({"text", "json", "kernels"}, format)) {
      getOperation().emitError()
          << "expected a format text, json, kernels or remarks, found '"
          << format << "'";
      return signalPassFailure();
    }
    std::string error;
    std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(output, &error);
    if (!file) {
      getOperation().emitError() << error;
      return signalPassFailure();
    }
    if (format == "json")
      file->os() << llvm::formatv("{0:2}\n",
                                  llvm::json::Value(mt::toJson(report)));
    else if (format == "kernels")
      mt::printKernels(mt::buildKernelReport(getOperation()), mt::Machine(),
                       file->os());
    else
      mt::printText(report, file->os());
    file->keep();
  }
};
} // namespace
