//===- MemoryBudget.cpp - steps that are too large ------------------------===//

#include "mt/Pipelines/MemoryBudget.h"

#include "mt/Analysis/MemoryReport.h"
#include "mt/Analysis/Report.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Bytes in words
//===----------------------------------------------------------------------===//

std::optional<int64_t> mt::parseBytes(StringRef text) {
  StringRef digits = text.take_while(llvm::isDigit);
  StringRef unit = text.drop_front(digits.size()).trim();
  int64_t number, factor = 1;
  if (digits.getAsInteger(10, number))
    return std::nullopt;
  unit.consume_back("B");
  int64_t base = unit.consume_back("i") ? 1024 : 1000;
  size_t power = unit.empty() ? 0 : StringRef("KMGT").find(unit) + 1;
  if (unit.size() > 1 || (unit.empty() && base == 1024) ||
      (!unit.empty() && power == 0))
    return std::nullopt;
  for (; power > 0; --power)
    factor *= base;
  int64_t bytes;
  return llvm::MulOverflow(number, factor, bytes) ? std::nullopt
                                                  : std::optional(bytes);
}

std::string mt::formatBytes(int64_t bytes) {
  std::string text = std::to_string(bytes) + " bytes";
  double value = double(bytes);
  const char *unit = nullptr;
  for (const char *next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  return unit ? text + llvm::formatv(" ({0:f1} {1})", value, unit).str() : text;
}

//===----------------------------------------------------------------------===//
// Options that may help
//===----------------------------------------------------------------------===//

/// Changes an option and says how it is written; null when there is nothing
/// left to try. `attempt` counts from 1.
using ChangeFn = std::optional<std::string> (*)(PipelineOptions &options,
                                                ModuleOp input, int attempt);

static std::optional<std::string>
enableSequenceParallel(PipelineOptions &options, ModuleOp, int attempt) {
  if (attempt > 1 || options.sequenceParallel || options.mesh.empty())
    return std::nullopt;
  options.sequenceParallel = true;
  return "--sequence-parallel";
}

static std::optional<std::string>
doubleMicrobatches(PipelineOptions &options, ModuleOp input, int attempt) {
  auto model = input->getAttrOfType<DictionaryAttr>(attr::model);
  auto batch = model ? model.getAs<IntegerAttr>("batch") : IntegerAttr();
  int64_t count = int64_t(options.microbatches) << attempt;
  if (!batch || batch.getInt() % count != 0)
    return std::nullopt;
  options.microbatches = count;
  return "--microbatches " + std::to_string(count);
}

static std::optional<std::string> shardMoreState(PipelineOptions &options,
                                                 ModuleOp, int attempt) {
  if (options.mesh.empty() || options.zero + attempt > 3)
    return std::nullopt;
  int64_t level = options.zero + attempt;
  options.zero = level;
  return "--zero " + std::to_string(level);
}

static std::optional<std::string> recomputeMore(PipelineOptions &options,
                                                ModuleOp, int attempt) {
  static const StringRef policies[] = {"none", "selective", "full"};
  StringRef current(options.recompute.getValue());
  int64_t policy = llvm::find(policies, current) - policies + attempt;
  if (policy >= int64_t(std::size(policies)))
    return std::nullopt;
  options.recompute = policies[policy].str();
  return "--recompute " + policies[policy].str();
}

/// What is tried, one option at a time, until it fits.
static constexpr ChangeFn changes[] = {
    enableSequenceParallel,
    doubleMicrobatches,
    shardMoreState,
    recomputeMore,
};

/// The peak of `input` with `options`, changed; none where there is nothing to
/// change or the pipeline refuses it.
static std::optional<int64_t>
findPeak(ModuleOp input, const PipelineOptions &options,
         llvm::function_ref<bool(PipelineOptions &)> change) {
  PipelineOptions changed;
  changed.copyOptionValuesFrom(options);
  changed.remarks = false;
  changed.stopAfter = "scheduled";
  if (!change(changed))
    return std::nullopt;
  ScopedDiagnosticHandler silence(input.getContext(),
                                  [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = input.clone();
  PassManager manager(input.getContext());
  buildPipeline(manager, changed);
  if (failed(manager.run(*module)))
    return std::nullopt;
  auto report = buildMemoryReport(*module);
  return failed(report) ? std::nullopt : std::optional(report->peakBytes);
}

//===----------------------------------------------------------------------===//
// Policies by the unit
//===----------------------------------------------------------------------===//

/// The units that a policy may choose, in the order in which it does.
static std::vector<std::string> findUnits(ModuleOp input, FitPolicy policy,
                                          const PipelineOptions &options) {
  OwningOpRef<ModuleOp> module = input.clone();
  PassManager manager(input.getContext());
  manager.addPass(createGroupUnits({options.units}));
  std::vector<std::string> units;
  if (failed(manager.run(*module)))
    return units;
  module->walk([&](UnitOp unit) {
    if (policy == FitPolicy::KeepGathered || unit.isBlock())
      units.push_back(unit.getName().str());
  });
  // What is gathered last is needed again first.
  if (policy == FitPolicy::KeepGathered)
    std::reverse(units.begin(), units.end());
  return units;
}

static void chooseUnits(PipelineOptions &options, FitPolicy policy,
                        ArrayRef<std::string> units) {
  std::string names = llvm::join(units, ",");
  if (policy == FitPolicy::KeepGathered) {
    options.keepUnits = names;
    return;
  }
  options.recompute = units.empty() ? "none" : "full";
  options.recomputeUnits = names;
}

std::pair<size_t, size_t> mt::fitToBudget(ModuleOp input, int64_t budgetBytes,
                                          FitPolicy policy,
                                          PipelineOptions &options) {
  std::vector<std::string> units = findUnits(input, policy, options);
  auto fits = [&](size_t count) {
    std::optional<int64_t> peak =
        findPeak(input, options, [&](PipelineOptions &changed) {
          chooseUnits(changed, policy, ArrayRef(units).take_front(count));
          return true;
        });
    return peak && *peak <= budgetBytes;
  };
  // More recomputation and fewer kept units make the peak smaller: the least
  // that is needed lies between `low`, which does not fit, and `high`.
  auto getCount = [&](size_t steps) {
    return policy == FitPolicy::Recompute ? steps : units.size() - steps;
  };
  size_t low = 0, high = units.size();
  if (!fits(getCount(0)))
    while (high - low > 1) {
      size_t middle = (low + high) / 2;
      (fits(getCount(middle)) ? high : low) = middle;
    }
  else
    high = 0;
  chooseUnits(options, policy, ArrayRef(units).take_front(getCount(high)));
  return {getCount(high), units.size()};
}

//===----------------------------------------------------------------------===//
// The check
//===----------------------------------------------------------------------===//

namespace {
struct Attempt {
  std::string option;
  int64_t peakBytes;
};
} // namespace

/// What was tried of one kind; the last fits, if any does.
static std::vector<Attempt> tryChange(ChangeFn change, ModuleOp input,
                                      const PipelineOptions &options,
                                      int64_t budgetBytes) {
  std::vector<Attempt> attempts;
  for (int attempt = 1;; ++attempt) {
    std::optional<std::string> option;
    std::optional<int64_t> peakBytes =
        findPeak(input, options, [&](PipelineOptions &changed) {
          option = change(changed, input, attempt);
          return option.has_value();
        });
    if (!peakBytes)
      return attempts;
    attempts.push_back({*option, *peakBytes});
    if (*peakBytes <= budgetBytes)
      return attempts;
  }
}

//===----------------------------------------------------------------------===//
// The message
//===----------------------------------------------------------------------===//

static void noteContributors(InFlightDiagnostic &diagnostic,
                             const MemoryReport &memory) {
  std::vector<std::pair<std::string, int64_t>> parts = memory.buffers;
  for (auto [number, bytes] : llvm::enumerate(memory.live))
    parts.emplace_back(stringifyMemoryCategory(MemoryCategory(number)).str(),
                       bytes);
  parts.emplace_back("lost between blocks", memory.getLostBytes());
  llvm::stable_sort(
      parts, [](const auto &a, const auto &b) { return a.second > b.second; });
  for (auto &[name, bytes] : parts) {
    std::replace(name.begin(), name.end(), '_', ' ');
    if (bytes != 0)
      diagnostic.attachNote(memory.location)
          << name << ": " << formatBytes(bytes);
  }
}

static void noteOptions(InFlightDiagnostic &diagnostic, Location location,
                        ModuleOp input, const PipelineOptions &options,
                        int64_t budgetBytes) {
  std::vector<Attempt> all;
  bool anyFits = false;
  for (ChangeFn change : changes)
    for (Attempt &attempt : tryChange(change, input, options, budgetBytes)) {
      anyFits |= attempt.peakBytes <= budgetBytes;
      all.push_back(std::move(attempt));
    }
  for (const Attempt &attempt : all) {
    bool fits = attempt.peakBytes <= budgetBytes;
    diagnostic.attachNote(location)
        << "with " << attempt.option
        << (fits ? " it fits: " : " it does not fit: ")
        << formatBytes(attempt.peakBytes);
  }
  if (!anyFits)
    diagnostic.attachNote(location)
        << (all.empty() ? "there is no option to try"
                        : "no single option that was tried makes it fit");
}

LogicalResult mt::checkMemoryBudget(ModuleOp scheduled, int64_t budgetBytes,
                                    ModuleOp input,
                                    const PipelineOptions &options) {
  auto memory = buildMemoryReport(scheduled);
  if (failed(memory))
    return failure();
  if (memory->peakBytes <= budgetBytes)
    return success();
  InFlightDiagnostic diagnostic = emitError(memory->location);
  diagnostic << "expected a peak of at most " << formatBytes(budgetBytes)
             << " on a rank, found " << formatBytes(memory->peakBytes)
             << ", at " << memory->getPlace();
  noteContributors(diagnostic, *memory);
  if (input)
    noteOptions(diagnostic, memory->location, input, options, budgetBytes);
  return diagnostic;
}
