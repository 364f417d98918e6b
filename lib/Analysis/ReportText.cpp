//===- ReportText.cpp - the report as a table -----------------------------===//
//
// One block of rows for each unit and direction. Equal collectives of a block
// are one row with their count; equal layers are one block with theirs.
//
//===----------------------------------------------------------------------===//

#include "mt/Analysis/Report.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mt;

namespace {
/// What is shown of a collective, and how often it stands in its unit.
struct Row {
  std::string text;
  const ReportedCollective *collective;
  int64_t count = 1;

  bool operator==(const Row &other) const {
    return text == other.text && count == other.count;
  }
};

struct UnitBlock {
  std::vector<std::string> units;
  std::string direction;
  std::vector<Row> rows;
  /// Of one of the units.
  Total total;
};
} // namespace

static std::string formatFacts(const ReportedCollective &collective) {
  TrafficAttr traffic = collective.traffic;
  return llvm::formatv("{0,-18} {1,-10} {2,5} {3,7} {4,5} {5,13} {6,13}  "
                       "{7,-18} {8}",
                       collective.getKind(), llvm::join(collective.axes, ","),
                       collective.groupSize, collective.tensors,
                       collective.dtype, traffic.getPayloadBytes(),
                       traffic.getRingBytes(), collective.getReason(),
                       traffic.getDemandedBy().getValue());
}

static std::vector<UnitBlock> groupByUnit(const Report &report) {
  std::vector<UnitBlock> blocks;
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  for (const ReportedCollective &collective : report.collectives) {
    std::string unit = collective.traffic.getUnit().str();
    std::string direction =
        stringifyDirection(collective.traffic.getDirection()).str();
    auto [entry, isNew] = numbers.try_emplace({unit, direction}, blocks.size());
    if (isNew)
      blocks.push_back({{unit}, direction, {}, {}});
    UnitBlock &block = blocks[entry->second];
    block.total.add(collective);
    std::string text = formatFacts(collective);
    auto same = llvm::find_if(block.rows,
                              [&](const Row &row) { return row.text == text; });
    if (same == block.rows.end())
      block.rows.push_back({text, &collective});
    else
      ++same->count;
  }
  return blocks;
}

/// The place of the number in which two names differ, if that is all.
static std::optional<size_t> findDifferentNumber(StringRef a, StringRef b) {
  SmallVector<StringRef> as, bs;
  a.split(as, '.');
  b.split(bs, '.');
  std::optional<size_t> place;
  if (as.size() != bs.size())
    return std::nullopt;
  for (size_t i = 0; i < as.size(); ++i) {
    if (as[i] == bs[i])
      continue;
    bool areNumbers = llvm::all_of(as[i], llvm::isDigit) &&
                      llvm::all_of(bs[i], llvm::isDigit);
    if (place || !areNumbers)
      return std::nullopt;
    place = i;
  }
  return place;
}

static int64_t getNumber(StringRef name, size_t place) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  int64_t number = 0;
  parts[place].getAsInteger(10, number);
  return number;
}

static bool isLayerOf(const UnitBlock &block, const UnitBlock &layers) {
  if (block.direction != layers.direction || block.rows != layers.rows)
    return false;
  auto place = findDifferentNumber(layers.units.front(), block.units.front());
  return place &&
         (layers.units.size() == 1 ||
          findDifferentNumber(layers.units[0], layers.units[1]) == place);
}

static std::vector<UnitBlock> foldLayers(std::vector<UnitBlock> blocks) {
  std::vector<UnitBlock> folded;
  for (UnitBlock &block : blocks) {
    auto layers = llvm::find_if(folded, [&](const UnitBlock &other) {
      return isLayerOf(block, other);
    });
    if (layers == folded.end())
      folded.push_back(std::move(block));
    else
      layers->units.push_back(block.units.front());
  }
  return folded;
}

/// `transformer.h.0 … transformer.h.11 ×12`.
static std::string formatUnits(UnitBlock block) {
  if (block.units.size() == 1)
    return block.units.front();
  size_t place = *findDifferentNumber(block.units[0], block.units[1]);
  llvm::sort(block.units, [&](StringRef a, StringRef b) {
    return getNumber(a, place) < getNumber(b, place);
  });
  int64_t span = getNumber(block.units.back(), place) -
                 getNumber(block.units.front(), place) + 1;
  std::string names = span == int64_t(block.units.size())
                          ? block.units.front() + " … " + block.units.back()
                          : llvm::join(block.units, ", ");
  return names + " ×" + std::to_string(block.units.size());
}

static void printBlock(const UnitBlock &block, llvm::raw_ostream &os) {
  os << "\n" << formatUnits(block) << ", " << block.direction << "\n";
  for (const Row &row : block.rows)
    os << llvm::formatv("{0,6} {1}\n", row.count * row.collective->executions,
                        row.text);
  if (block.rows.size() > 1 || block.units.size() > 1)
    os << llvm::formatv("{0,6} {1,-50} {2,13} {3,13}{4}\n",
                        block.total.launches, "together",
                        block.total.payloadBytes, block.total.ringBytes,
                        block.units.size() > 1 ? "  in each" : "");
}

static void printTotals(StringRef title,
                        const std::map<std::string, Total> &totals,
                        llvm::raw_ostream &os) {
  os << "\n" << title << "\n";
  for (const auto &[name, total] : totals)
    os << llvm::formatv("{0,6} {1,-50} {2,13} {3,13}\n", total.launches, name,
                        total.payloadBytes, total.ringBytes);
}

static void printHeldLine(StringRef what, int64_t bytes,
                          llvm::raw_ostream &os) {
  os << llvm::formatv("       {0,-50} {1,13}\n", what, bytes);
}

/// The parameters that ZeRO left whole, by reason.
static void printWhole(const Report &report, llvm::raw_ostream &os) {
  llvm::MapVector<StringRef, std::pair<int64_t, int64_t>> reasons;
  for (const ReportedParameter &parameter : report.parameters) {
    if (parameter.whole.empty())
      continue;
    auto &[count, bytes] = reasons[parameter.whole];
    ++count;
    bytes += parameter.bytesPerRank;
  }
  for (const auto &[reason, parameters] : reasons)
    os << llvm::formatv(
        "       of these whole: {0} parameters of {1} bytes, {2}\n",
        parameters.first, parameters.second, reason);
}

/// Bytes that a rank holds: through all steps, and from a forward unit to its
/// backward unit.
static void printHeld(const Report &report, llvm::raw_ostream &os) {
  int64_t parameters = 0, gradients = 0, state = 0;
  for (const ReportedParameter &parameter : report.parameters) {
    parameters += parameter.bytesPerRank;
    gradients += parameter.gradientBytesPerRank;
    state += parameter.stateBytesPerRank;
  }
  if (parameters == 0)
    return;
  os << "\nheld by a rank, bytes\n";
  printHeldLine("parameters", parameters, os);
  if (gradients != 0)
    printHeldLine("gradients", gradients, os);
  if (state != 0)
    printHeldLine("optimizer state", state, os);
  printWhole(report, os);
  if (report.saved.empty())
    return;
  std::vector<UnitBlock> blocks;
  int64_t total = 0;
  for (const SavedActivations &saved : report.saved) {
    UnitBlock block;
    block.units = {saved.unit};
    block.rows = {{std::to_string(saved.bytesPerRank), nullptr}};
    blocks.push_back(std::move(block));
    total += saved.bytesPerRank;
  }
  os << "\nsaved for the backward pass by a rank, bytes\n";
  for (const UnitBlock &block : foldLayers(std::move(blocks)))
    os << llvm::formatv("       {0,-50} {1,13}{2}\n", formatUnits(block),
                        block.rows.front().text,
                        block.units.size() > 1 ? "  in each" : "");
  printHeldLine("together", total, os);
}

static std::string toWords(StringRef name) {
  std::string words = name.str();
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

/// The peak, what it is made of, and what is largest there.
static void printMemory(const MemoryReport &memory, llvm::raw_ostream &os) {
  os << "\npeak of a rank, bytes\n";
  for (const auto &[kind, bytes] : memory.buffers)
    printHeldLine(toWords(kind), bytes, os);
  for (auto [number, bytes] : llvm::enumerate(memory.live))
    if (bytes != 0)
      printHeldLine(toWords(stringifyMemoryCategory(MemoryCategory(number))),
                    bytes, os);
  printHeldLine("lost between blocks", memory.getLostBytes(), os);
  printHeldLine("together", memory.peakBytes, os);
  if (memory.largest.empty())
    return;
  os << "\nthe largest in the arena at " << memory.getPlace() << ", bytes\n";
  for (const LiveMemory &live : memory.largest) {
    std::string what = live.name.empty() ? live.operation : live.name;
    std::string where =
        live.unit.empty() ? "" : " in " + live.unit + " " + live.direction;
    os << llvm::formatv("       {0,-50} {1,13}  {2}\n", what + where,
                        live.bytes,
                        toWords(stringifyMemoryCategory(live.category)));
  }
}

void mt::printText(const Report &report, llvm::raw_ostream &os) {
  os << "mesh ";
  if (report.mesh)
    llvm::interleaveComma(getUserAxes(report.mesh), os, [&](const auto &axis) {
      os << axis.first << " = " << axis.second;
    });
  os << "\n\n"
     << llvm::formatv("{0,6} {1,-18} {2,-10} {3,5} {4,7} {5,5} {6,13} {7,13}  "
                      "{8,-18} {9}\n",
                      "a step", "kind", "axes", "ranks", "tensors", "dtype",
                      "payload bytes", "bytes sent", "reason", "for");
  for (const UnitBlock &block : foldLayers(groupByUnit(report)))
    printBlock(block, os);
  printTotals("by kind, in a step", report.byKind, os);
  printTotals("by axes, in a step", report.byAxes, os);
  printTotals("by direction, in a step", report.byDirection, os);
  printTotals("in a step", {{"all", report.total}}, os);
  if (report.parameterTraffic) {
    os << "\n";
    printText(*report.parameterTraffic, os);
  }
  if (report.time)
    os << llvm::formatv(
        "\na step, by the machine's model: computation {0:f4} s, "
        "communication {1:f4} s, of which exposed {2:f4} s\n",
        report.time->compute, report.time->communication, report.time->exposed);
  printHeld(report, os);
  if (report.memory)
    printMemory(*report.memory, os);
}
