//===- ParameterTraffic.cpp - what data parallelism sends -----------------===//

#include "mt/Analysis/ParameterTraffic.h"

#include "mt/Analysis/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

static ShardingAttr getLayout(func::FuncOp function, unsigned argument) {
  if (ShardingAttr sharding = getSharding(function.getArgument(argument)))
    return sharding;
  return function.getArgAttrOfType<ShardingAttr>(argument, attr::layout);
}

/// The axes along which devices hold different rows of the batch.
static llvm::SmallSet<Axis, 4> getBatchAxes(func::FuncOp function) {
  llvm::SmallSet<Axis, 4> axes;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto role = function.getArgAttrOfType<StringAttr>(i, attr::role);
    ShardingAttr layout = getLayout(function, i);
    if (role && role == "input" && layout && layout.getRank() > 0)
      for (Axis axis : layout.getDimAxes(0))
        if (layout.getMesh().getAxisSize(axis) > 1)
          axes.insert(axis);
  }
  return axes;
}

/// Bytes of a parameter once its shards over `axes` are gathered.
static int64_t getGatheredBytes(func::FuncOp function, unsigned argument,
                                const llvm::SmallSet<Axis, 4> &axes) {
  int64_t bytes = getLocalBytes(function.getArgument(argument).getType());
  ShardingAttr layout = getLayout(function, argument);
  for (Axis axis : layout.getShardedAxes())
    if (axes.contains(axis))
      bytes *= layout.getMesh().getAxisSize(axis);
  return bytes;
}

static void addCollective(ParameterTraffic &traffic,
                          const ReportedCollective &collective) {
  int64_t bytes = collective.traffic.getPayloadBytes() * collective.executions;
  Direction direction = collective.traffic.getDirection();
  bool updates = direction == Direction::Update;
  CollectiveOpInterface op = collective.op;
  if (op.getTransition(0).kind == TransitionKind::AllReduce)
    bytes *= 2;
  if (collective.traffic.getReason() == Reason::GradientReduction)
    (updates ? traffic.reductionsUpdate : traffic.reductionsMicrobatch) +=
        bytes;
  else if (updates)
    traffic.gathersUpdate += bytes;
  else if (direction == Direction::Forward)
    traffic.gathersForward += bytes;
  else
    traffic.gathersBackward += bytes;
}

std::optional<ParameterTraffic>
mt::buildParameterTraffic(ModuleOp module,
                          ArrayRef<ReportedCollective> collectives) {
  auto function = module.lookupSymbol<func::FuncOp>(microbatchName);
  if (!function)
    return std::nullopt;
  llvm::SmallSet<Axis, 4> axes = getBatchAxes(function);
  ParameterTraffic traffic;
  traffic.microbatches = getMicrobatches(module);
  for (const ReportedCollective &collective : collectives) {
    Reason reason = collective.traffic.getReason();
    CollectiveOpInterface op = collective.op;
    if ((reason == Reason::ParameterGather ||
         reason == Reason::GradientReduction) &&
        llvm::any_of(op.getAxes(),
                     [&](int32_t axis) { return axes.contains(axis); }))
      addCollective(traffic, collective);
  }
  if (traffic.getTotal() == 0)
    return std::nullopt;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto parameter =
        function.getArgAttrOfType<ParameterAttr>(i, attr::parameter);
    if (!parameter)
      continue;
    int64_t bytes = getGatheredBytes(function, i, axes);
    traffic.parameterBytes += bytes;
    if (parameter.getTrained())
      traffic.trainedBytes += bytes;
  }
  return traffic;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

int64_t ParameterTraffic::getNominal() const {
  if (gathersForward != 0)
    return 3 * microbatches;
  return reductionsMicrobatch != 0 ? microbatches + 1 : 2;
}

std::string ParameterTraffic::getNominalText() const {
  if (gathersForward != 0)
    return "3mΨ";
  return reductionsMicrobatch != 0 ? "(m+1)Ψ" : "2Ψ";
}

llvm::json::Object mt::toJson(const ParameterTraffic &traffic) {
  return llvm::json::Object{
      {"parameter_bytes", traffic.parameterBytes},
      {"trained_bytes", traffic.trainedBytes},
      {"microbatches", traffic.microbatches},
      {"gathers_forward", traffic.gathersForward},
      {"gathers_backward", traffic.gathersBackward},
      {"gathers_update", traffic.gathersUpdate},
      {"reductions_microbatch", traffic.reductionsMicrobatch},
      {"reductions_update", traffic.reductionsUpdate},
      {"total", traffic.getTotal()},
      {"nominal", traffic.getNominal() * traffic.parameterBytes},
      {"nominal_formula", traffic.getNominalText()}};
}

/// A line for what a part of the step sends otherwise than once a parameter.
static void explain(llvm::raw_ostream &os, int64_t bytes, int64_t expected,
                    StringRef less, StringRef more) {
  if (bytes == expected)
    return;
  os << llvm::formatv("{0,14} bytes {1}\n", std::abs(bytes - expected),
                      bytes < expected ? "less: " + less : "more: " + more);
}

static void explainDifference(const ParameterTraffic &t,
                              llvm::raw_ostream &os) {
  int64_t all = t.microbatches * t.parameterBytes;
  if (t.gathersForward == 0 && t.reductionsMicrobatch == 0)
    return explain(os, t.reductionsUpdate + t.gathersUpdate,
                   2 * t.parameterBytes, "frozen parameters",
                   "gradients wider than their parameters");
  if (t.gathersForward != 0) {
    explain(os, t.gathersForward, all,
            "parameters that are whole, or cast before they are gathered",
            "parameters that several units use");
    explain(os, t.gathersBackward, all,
            "parameters that the backward pass does not read, or has kept",
            "parameters that several units read");
  }
  explain(os, t.reductionsMicrobatch, all,
          "gradients of frozen or whole parameters",
          "gradients that several units contribute to, or wider ones");
  if (t.gathersForward == 0)
    explain(os, t.gathersUpdate, t.parameterBytes,
            "parameters that are frozen or whole", "");
  explain(os, t.reductionsUpdate, 0, "",
          "reductions over axes that do not shard the gradients");
}

void mt::printText(const ParameterTraffic &traffic, llvm::raw_ostream &os) {
  os << llvm::formatv("parameter traffic in a step over the batch's axes, Ψ = "
                      "{0} bytes, m = {1}\n",
                      traffic.parameterBytes, traffic.microbatches);
  auto row = [&](int64_t bytes, StringRef what) {
    if (bytes != 0)
      os << llvm::formatv("{0,14} {1,9:f3} Ψ  {2}\n", bytes,
                          double(bytes) / double(traffic.parameterBytes), what);
  };
  row(traffic.gathersForward, "gathers, forward");
  row(traffic.gathersBackward, "gathers, backward");
  row(traffic.reductionsMicrobatch, "reductions in each microbatch");
  row(traffic.reductionsUpdate, "reductions in the update");
  row(traffic.gathersUpdate, "gathers in the update");
  row(traffic.getTotal(), "together");
  row(traffic.getNominal() * traffic.parameterBytes,
      "as the ZeRO paper counts: " + traffic.getNominalText());
  explainDifference(traffic, os);
}
