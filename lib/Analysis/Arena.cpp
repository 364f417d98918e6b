//===- Arena.cpp - places blocks by lifetime ------------------------------===//

#include "mt/Analysis/Arena.h"
#include "mt/IR/Mt.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mt;
using llvm::ArrayRef;
using llvm::MutableArrayRef;
using llvm::SmallVector;

BusiestPosition mt::findBusiest(ArrayRef<ArenaBlock> blocks) {
  // What begins at a position and what ended before it.
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const ArenaBlock &block : blocks) {
    changes.emplace_back(block.first, block.bytes);
    changes.emplace_back(block.last + 1, -block.bytes);
  }
  // Of one position, what ended first.
  llvm::sort(changes);
  BusiestPosition busiest;
  int64_t live = 0;
  for (auto [position, bytes] : changes) {
    live += bytes;
    if (live > busiest.bytes)
      busiest = {position, live};
  }
  return busiest;
}

namespace {

/// The height that is taken at each position: a tree of maxima, in which what
/// is put on top of a span becomes the height of all of it.
class Skyline {
public:
  explicit Skyline(int64_t size) : size(llvm::PowerOf2Ceil(size)) {
    highest.resize(2 * this->size);
    raised.resize(2 * this->size);
  }

  int64_t getHeight(int64_t first, int64_t last) const {
    return query(1, 0, size - 1, first, last);
  }
  void raise(int64_t first, int64_t last, int64_t height) {
    raise(1, 0, size - 1, first, last, height);
  }

private:
  int64_t query(int64_t node, int64_t low, int64_t high, int64_t first,
                int64_t last) const;
  void raise(int64_t node, int64_t low, int64_t high, int64_t first,
             int64_t last, int64_t height);

  int64_t size;
  /// Of a node's span the maximum, and a height that all of it has at least.
  std::vector<int64_t> highest, raised;
};

} // namespace

int64_t Skyline::query(int64_t node, int64_t low, int64_t high, int64_t first,
                       int64_t last) const {
  if (last < low || high < first)
    return 0;
  if (first <= low && high <= last)
    return highest[node];
  int64_t middle = (low + high) / 2;
  return std::max({raised[node], query(2 * node, low, middle, first, last),
                   query(2 * node + 1, middle + 1, high, first, last)});
}

void Skyline::raise(int64_t node, int64_t low, int64_t high, int64_t first,
                    int64_t last, int64_t height) {
  if (last < low || high < first)
    return;
  highest[node] = std::max(highest[node], height);
  if (first <= low && high <= last) {
    raised[node] = std::max(raised[node], height);
    return;
  }
  int64_t middle = (low + high) / 2;
  raise(2 * node, low, middle, first, last, height);
  raise(2 * node + 1, middle + 1, high, first, last, height);
}

namespace {

using Order = bool (*)(const ArenaBlock &, const ArenaBlock &);

/// One way to place all blocks.
class Placement {
public:
  /// Blocks longer than `span` are long.
  Placement(ArrayRef<ArenaBlock> blocks, int64_t positions, int64_t span)
      : blocks(blocks), span(span), skyline(positions),
        chunks(positions / span + 1), offsets(blocks.size()) {}

  /// Returns the end of the highest block.
  int64_t run(Order order);
  ArrayRef<int64_t> getOffsets() const { return offsets; }

private:
  SmallVector<unsigned> getSorted(bool isLong, Order order) const;
  void placeLong(unsigned number);
  void placeShort(unsigned number);
  int64_t getSize(unsigned number) const {
    return llvm::alignTo(blocks[number].bytes, alignmentBytes);
  }
  void place(unsigned number, int64_t offset);

  ArrayRef<ArenaBlock> blocks;
  int64_t span;
  Skyline skyline;
  /// The placed short blocks by the parts of the program that they live in: at
  /// most two parts of `span` ops each.
  std::vector<SmallVector<unsigned>> chunks;
  SmallVector<int64_t> offsets;
  int64_t end = 0;
};

} // namespace

static bool isLonger(const ArenaBlock &a, const ArenaBlock &b) {
  return std::pair(a.getLength(), a.bytes) > std::pair(b.getLength(), b.bytes);
}
static bool isLarger(const ArenaBlock &a, const ArenaBlock &b) {
  return std::pair(a.bytes, a.getLength()) > std::pair(b.bytes, b.getLength());
}
static bool isEarlier(const ArenaBlock &a, const ArenaBlock &b) {
  return std::pair(a.first, -a.bytes) < std::pair(b.first, -b.bytes);
}
static bool hasMoreArea(const ArenaBlock &a, const ArenaBlock &b) {
  return double(a.bytes) * double(a.getLength()) >
         double(b.bytes) * double(b.getLength());
}

SmallVector<unsigned> Placement::getSorted(bool isLong, Order order) const {
  SmallVector<unsigned> numbers;
  for (unsigned number = 0; number < blocks.size(); ++number)
    if ((blocks[number].getLength() > span) == isLong)
      numbers.push_back(number);
  llvm::stable_sort(numbers, [&](unsigned a, unsigned b) {
    return order(blocks[a], blocks[b]);
  });
  return numbers;
}

void Placement::place(unsigned number, int64_t offset) {
  offsets[number] = offset;
  end = std::max(end, offset + blocks[number].bytes);
}

void Placement::placeLong(unsigned number) {
  const ArenaBlock &block = blocks[number];
  int64_t offset = skyline.getHeight(block.first, block.last);
  place(number, offset);
  skyline.raise(block.first, block.last, offset + getSize(number));
}

/// The lowest gap above the long blocks.
void Placement::placeShort(unsigned number) {
  const ArenaBlock &block = blocks[number];
  int64_t firstChunk = block.first / span, lastChunk = block.last / span;
  SmallVector<std::pair<int64_t, int64_t>> taken;
  for (int64_t chunk = firstChunk; chunk <= lastChunk; ++chunk)
    for (unsigned other : chunks[chunk])
      if (blocks[other].meets(block))
        taken.emplace_back(offsets[other], offsets[other] + getSize(other));
  llvm::sort(taken);
  int64_t offset = skyline.getHeight(block.first, block.last);
  for (auto [low, high] : taken) {
    if (offset + block.bytes <= low)
      break;
    offset = std::max(offset, high);
  }
  place(number, offset);
  for (int64_t chunk = firstChunk; chunk <= lastChunk; ++chunk)
    chunks[chunk].push_back(number);
}

int64_t Placement::run(Order order) {
  for (unsigned number : getSorted(/*isLong=*/true, isLonger))
    placeLong(number);
  for (unsigned number : getSorted(/*isLong=*/false, order))
    placeShort(number);
  return end;
}

/// Every length, where there are so few blocks that all may be compared with
/// all; otherwise short ones of which few meet.
static SmallVector<int64_t> getSpans(size_t numBlocks, int64_t positions) {
  SmallVector<int64_t> spans;
  for (int64_t span : {16, 64, 256})
    if (span < positions)
      spans.push_back(span);
  constexpr size_t fewBlocks = 3000;
  if (numBlocks <= fewBlocks)
    spans.push_back(positions);
  return spans;
}

int64_t mt::placeBlocks(MutableArrayRef<ArenaBlock> blocks) {
  int64_t positions = 1, least = 0;
  for (const ArenaBlock &block : blocks)
    positions = std::max(positions, block.last + 1);
  least = findBusiest(blocks).bytes;
  int64_t best = INT64_MAX;
  for (int64_t span : getSpans(blocks.size(), positions))
    for (Order order : {isLarger, hasMoreArea, isLonger, isEarlier}) {
      // Nothing is smaller than what is live at once.
      if (best <= least)
        break;
      Placement placement(blocks, positions, span);
      int64_t end = placement.run(order);
      if (end >= best)
        continue;
      best = end;
      for (auto [block, offset] :
           llvm::zip_equal(blocks, placement.getOffsets()))
        block.offset = offset;
    }
  return blocks.empty() ? 0 : best;
}
