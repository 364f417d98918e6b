//===- ParameterTraffic.h - what data parallelism sends ---------*- C++ -*-===//
//
// The bytes of parameters and gradients that cross the axes of the batch in a
// step, beside what the ZeRO paper counts (Rajbhandari et al. 2020, section 7;
// with m microbatches):
//
//   data parallel, ZeRO 1   2 Ψ          reduce, gather (or all-reduce)
//   ZeRO 2                  (m + 1) Ψ    reduce a microbatch, gather
//   ZeRO 3                  3 m Ψ        gather, gather, reduce a microbatch
//
// Ψ are the parameters as units use them. Bytes are of whole buffers, an
// all-reduce counts twice: a device of n sends (n - 1) / n of it.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_PARAMETERTRAFFIC_H
#define MT_ANALYSIS_PARAMETERTRAFFIC_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mt {

struct ReportedCollective;

struct ParameterTraffic {
  int64_t microbatches = 1;
  /// Ψ in bytes, of all parameters and of those that are trained.
  int64_t parameterBytes = 0, trainedBytes = 0;
  /// In a step.
  int64_t gathersForward = 0, gathersBackward = 0, gathersUpdate = 0;
  int64_t reductionsMicrobatch = 0, reductionsUpdate = 0;

  int64_t getTotal() const {
    return gathersForward + gathersBackward + gathersUpdate +
           reductionsMicrobatch + reductionsUpdate;
  }
  /// What the paper counts, in Ψ, for where these gathers and reductions stand.
  int64_t getNominal() const;
  std::string getNominalText() const;
};

/// Nothing where no axis shards the batch, or nothing crosses it.
std::optional<ParameterTraffic>
buildParameterTraffic(mlir::ModuleOp module,
                      llvm::ArrayRef<ReportedCollective> collectives);

llvm::json::Object toJson(const ParameterTraffic &traffic);

/// The table, and what makes the difference to the paper's count.
void printText(const ParameterTraffic &traffic, llvm::raw_ostream &os);

} // namespace mt

#endif // MT_ANALYSIS_PARAMETERTRAFFIC_H
