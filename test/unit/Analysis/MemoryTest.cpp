//===- MemoryTest.cpp - planned programs run in their memory --------------===//
//
// Random programs are run on a memory that says of each byte which value was
// written there last. Whatever an op reads has to be there: before the op, and,
// since kernels read while they write, after it, unless its result takes the
// place over.
//
//===----------------------------------------------------------------------===//

#include "mt/Analysis/Memory.h"
#include "mt/InitAll.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <map>
#include <random>

using namespace mlir;
using namespace mt;

namespace {

MLIRContext &getContext() {
  static MLIRContext context([] {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }());
  return context;
}

OwningOpRef<ModuleOp> parse(const std::string &text) {
  auto module = parseSourceString<ModuleOp>(text, &getContext());
  EXPECT_TRUE(module) << text;
  return module;
}

func::FuncOp getEntry(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

//===----------------------------------------------------------------------===//
// A machine that knows what is where
//===----------------------------------------------------------------------===//

class Machine {
public:
  explicit Machine(const EntryMemory &memory) : memory(memory) {}

  /// Returns what went wrong first, if anything did.
  std::string run();

private:
  using Bytes = std::map<int64_t, const void *>;
  Bytes &getBytes(const Storage &storage) {
    return memories[storage.buffer.value_or(-1)];
  }
  void write(const Storage &storage, int64_t bytes, const void *what) {
    for (int64_t at = 0; at < bytes; ++at)
      getBytes(storage)[storage.offset + at] = what;
  }
  void expect(Value value, Operation *op);
  void runOp(Operation *op);
  /// The token of the value whose memory `value` shows.
  const void *getToken(Value value) {
    return getViewed(value).getAsOpaquePointer();
  }

  const EntryMemory &memory;
  std::map<int64_t, Bytes> memories;
  /// Collectives whose wait has not come.
  SmallVector<Operation *> inFlight;
  std::string failure;
};

void Machine::expect(Value value, Operation *op) {
  const Storage &storage = memory.getStorage(value);
  for (int64_t at = 0; at < getLocalBytes(value.getType()); ++at)
    if (getBytes(storage)[storage.offset + at] != getToken(value) &&
        failure.empty())
      failure = llvm::formatv("byte {0} of an operand is gone at {1}", at, *op);
}

void Machine::runOp(Operation *op) {
  bool isView = op->getNumResults() != 0 &&
                getViewedOperand(op->getResult(0)).has_value();
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      expect(operand, op);
  if (isa<WaitOp>(op))
    for (Value operand : op->getOperands()) {
      // All this time it was read and written.
      Operation *collective = operand.getDefiningOp();
      for (auto [number, input] : llvm::enumerate(collective->getOperands()))
        if (memory.getReuse().find(collective)->second[number] < 0)
          expect(input, op);
    }
  if (isView)
    return;
  if (const Storage *scratch = memory.getScratch(op))
    write(*scratch, scratch->bytes, op);
  for (OpResult result : op->getResults())
    if (isa<RankedTensorType>(result.getType()))
      write(memory.getStorage(result), getLocalBytes(result.getType()),
            getToken(result));
  ArrayRef<int64_t> reuse = memory.getReuse().find(op)->second;
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    if (isa<RankedTensorType>(operand.getType()) &&
        !llvm::is_contained(reuse, int64_t(number)))
      expect(operand, op);
  if (const Storage *scratch = memory.getScratch(op))
    for (int64_t at = 0; at < scratch->bytes; ++at)
      if (getBytes(*scratch)[scratch->offset + at] != op && failure.empty())
        failure = llvm::formatv("a result lies in the scratch of {0}", *op);
}

std::string Machine::run() {
  func::FuncOp entry = memory.getEntry();
  for (BlockArgument argument : entry.getArguments())
    write(memory.getStorage(argument), getLocalBytes(argument.getType()),
          getToken(argument));
  for (Operation &op : entry.front().without_terminator())
    runOp(&op);
  // Copies to where the caller wants them, one after the other.
  Operation *terminator = entry.front().getTerminator();
  for (auto [value, buffer] :
       llvm::zip_equal(terminator->getOperands(), memory.getResultBuffers())) {
    expect(value, terminator);
    Storage target;
    target.buffer = buffer;
    write(target, getLocalBytes(value.getType()), getToken(value));
  }
  for (auto [value, buffer] :
       llvm::zip_equal(terminator->getOperands(), memory.getResultBuffers()))
    if (memories[buffer][0] != getToken(value) && failure.empty())
      failure = "a returned value is written over";
  return failure;
}

//===----------------------------------------------------------------------===//
// Random programs
//===----------------------------------------------------------------------===//

class RandomProgram {
public:
  explicit RandomProgram(unsigned seed) : random(seed) {}
  std::string make();

private:
  struct Known {
    std::string name, type;
  };
  static constexpr const char *whole = "tensor<1x8x4xf32>";
  static constexpr const char *split = "tensor<1x8x2x2xf32>";
  static constexpr const char *large = "tensor<2x8x4xf32>";

  /// A value of the type, a recent one more often than an old one.
  std::string pick(const std::string &type);
  void add(const std::string &op, const std::string &rest,
           const std::string &operandTypes, const std::string &type);
  void addOp();

  std::mt19937 random;
  std::string body;
  std::vector<Known> values;
  std::vector<std::string> waiting;
  int count = 0;
};

std::string RandomProgram::pick(const std::string &type) {
  std::vector<std::string> names;
  for (const Known &value : values)
    if (value.type == type)
      names.push_back(value.name);
  if (names.empty()) {
    add("mt.constant", "1.0", "", type);
    return values.back().name;
  }
  size_t back = random() % (random() % 3 ? 3 : names.size());
  return names[names.size() - 1 - std::min(back, names.size() - 1)];
}

void RandomProgram::add(const std::string &op, const std::string &rest,
                        const std::string &operandTypes,
                        const std::string &type) {
  std::string name = "%v" + std::to_string(count++);
  body += "  " + name + " = " + op + " " + rest + " : " +
          (operandTypes.empty() ? type : "(" + operandTypes + ") -> " + type) +
          "\n";
  values.push_back({name, type});
}

void RandomProgram::addOp() {
  std::string w = whole, s = split, l = large, tp = " over {tp} of #mesh ";
  switch (random() % 11) {
  case 0:
    return add("mt.scale", pick(w) + " {factor = 2.0 : f64}", w, w);
  case 1:
    return add("mt.add", pick(w) + ", " + pick(w), w + ", " + w, w);
  case 2:
    return add("mt.mul", pick(s) + ", " + pick(s), s + ", " + s, s);
  case 3:
    return add("mt.split_heads", pick(w), w, s);
  case 4:
    return add("mt.merge_heads", pick(s), s, w);
  case 5:
    return add("mt.rope", pick(s) + ", %p {frequencies = array<f64: 1.0>}",
               s + ", tensor<8xi32>", s);
  case 6:
    return add("mt.all_reduce", pick(w) + tp + "sum", w, w);
  case 7:
    return add("mt.all_gather", pick(w) + tp + "dims [0]", w, l);
  case 8:
    return add("mt.add", pick(l) + ", " + pick(l), l + ", " + l, l);
  case 9: {
    bool gathers = random() % 2;
    std::string type = gathers ? l : w;
    add(gathers ? "mt.all_gather" : "mt.all_reduce",
        pick(w) + tp + (gathers ? "dims [0] {async}" : "sum {async}"), w, type);
    waiting.push_back(values.back().name + " " + type);
    values.pop_back();
    return;
  }
  default:
    if (waiting.empty())
      return;
    StringRef text = waiting.back();
    auto [name, type] = text.split(' ');
    add("mt.wait", name.str(), type.str(), type.str());
    waiting.pop_back();
  }
}

std::string RandomProgram::make() {
  int arguments = 1 + random() % 4;
  std::string signature = "%p: tensor<8xi32>";
  for (int i = 0; i < arguments; ++i) {
    signature += ", %a" + std::to_string(i) + ": " + whole;
    values.push_back({"%a" + std::to_string(i), whole});
  }
  for (int ops = 5 + random() % 60; ops > 0; --ops)
    addOp();
  while (!waiting.empty()) {
    auto [name, type] = StringRef(waiting.back()).split(' ');
    add("mt.wait", name.str(), type.str(), type.str());
    waiting.pop_back();
  }
  // Results of ops, each once; some replace arguments.
  std::vector<std::string> returned;
  std::string types, results;
  for (int i = 0; i < arguments; ++i) {
    std::string name = pick(whole);
    if (name[1] == 'a' || llvm::is_contained(returned, name))
      continue;
    returned.push_back(name);
    types += (types.empty() ? "" : ", ") + std::string(whole);
    results += (results.empty() ? "" : ", ") + std::string(whole);
    if (random() % 2)
      results += " {mt.donated = " + std::to_string(i + 1) + " : i64}";
  }
  std::string names;
  for (const std::string &name : returned)
    names += (names.empty() ? "" : ", ") + name;
  return "#mesh = #mt.mesh<tp = 2>\nfunc.func @f(" + signature + ") -> (" +
         results + ") {\n" + body + "  return" +
         (names.empty() ? "" : " " + names + " : " + types) + "\n}\n";
}

/// Whether no memory is returned twice, which the pass would copy.
bool returnsOwnMemory(func::FuncOp entry) {
  llvm::SmallDenseSet<Value> seen;
  for (Value value : entry.front().getTerminator()->getOperands())
    if (isa<BlockArgument>(getViewed(value)) ||
        !seen.insert(getViewed(value)).second)
      return false;
  return true;
}

} // namespace

TEST(Memory, RandomProgramsKeepWhatTheyRead) {
  int planned = 0, takenOver = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::string text = RandomProgram(seed).make();
    OwningOpRef<ModuleOp> module = parse(text);
    ASSERT_TRUE(module);
    func::FuncOp entry = getEntry(*module);
    if (!returnsOwnMemory(entry))
      continue;
    ++planned;
    EntryMemory memory = EntryMemory::plan(entry);
    EXPECT_TRUE(succeeded(memory.verify())) << text;
    ASSERT_EQ(Machine(memory).run(), "") << text;
    for (const auto &[op, reuse] : memory.getReuse())
      takenOver += llvm::count_if(reuse, [](int64_t i) { return i >= 0; });
  }
  EXPECT_GT(planned, 700);
  EXPECT_GT(takenOver, 1000);
}

/// Until its wait a collective needs its operands and its results.
TEST(Memory, CollectivesInFlight) {
  OwningOpRef<ModuleOp> module = parse(R"(
#mesh = #mt.mesh<tp = 2>
func.func @f(%x: tensor<64xf32>) -> tensor<128xf32> {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<64xf32>) -> tensor<64xf32>
  %g = mt.all_gather %a over {tp} of #mesh dims [0] {async} : (tensor<64xf32>) -> tensor<128xf32>
  %b = mt.scale %a {factor = 3.0 : f64} : (tensor<64xf32>) -> tensor<64xf32>
  %c = mt.all_gather %b over {tp} of #mesh dims [0] : (tensor<64xf32>) -> tensor<128xf32>
  %w = mt.wait %g : (tensor<128xf32>) -> tensor<128xf32>
  %d = mt.add %c, %w : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  return %d : tensor<128xf32>
})");
  func::FuncOp entry = getEntry(*module);
  EntryMemory memory = EntryMemory::plan(entry);
  auto getOp = [&](int position) {
    return &*std::next(entry.front().begin(), position);
  };
  const Storage &scaled = memory.getStorage(getOp(0)->getResult(0));
  const Storage &gathered = memory.getStorage(getOp(1)->getResult(0));
  EXPECT_EQ(scaled.last, 4);
  EXPECT_EQ(&gathered, &memory.getStorage(getOp(4)->getResult(0)));
  EXPECT_EQ(gathered.last, 5);
  // %b does not take over %a, the sum takes over one of its operands.
  EXPECT_EQ(memory.getReuse().find(getOp(2))->second[0], -1);
  EXPECT_EQ(memory.getReuse().find(getOp(5))->second[0], 0);
  EXPECT_EQ(Machine(memory).run(), "");
}
