//===- LowerRandom.cpp - random numbers by position as linalg -------------===//
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy
// as 1, 2, 3; 2011). Words are kept in 64-bit integers below 2^32, so that a
// product's halves are a shift and a mask, which vectorizes.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

static Scalar operator^(const Scalar &a, const Scalar &b) {
  return {*a.b, arith::XOrIOp::create(*a.b, a.value, b.value)};
}
static Scalar highWord(const Scalar &x) {
  Scalar bits = x.like(32);
  return {*x.b, arith::ShRUIOp::create(*x.b, x.value, bits.value)};
}
static Scalar lowWord(const Scalar &x) { return x & x.like(0xFFFFFFFFp0); }

using Counter = std::array<Scalar, 4>;
using Key = std::array<Scalar, 2>;

static Counter philox(Counter c, Key k) {
  for (int round = 0; round < 10; ++round) {
    Scalar low = c[0] * c[0].like(0xD2511F53p0);
    Scalar high = c[2] * c[2].like(0xCD9E8D57p0);
    c = {highWord(high) ^ c[1] ^ k[0], lowWord(high),
         highWord(low) ^ c[3] ^ k[1], lowWord(low)};
    k = {lowWord(k[0] + k[0].like(0x9E3779B9p0)),
         lowWord(k[1] + k[1].like(0xBB67AE85p0))};
  }
  return c;
}

/// FNV-1a: the streams of parameters' initial values are named the same way.
static uint64_t hashSite(StringRef site) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : site)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

static Scalar toI64(const Scalar &x) {
  Type wide = x.b->getI64Type();
  if (x.getType() == wide)
    return x;
  if (x.getType().isIndex())
    return {*x.b, arith::IndexCastOp::create(*x.b, wide, x.value)};
  return {*x.b, arith::ExtUIOp::create(*x.b, wide, x.value)};
}

/// Element `index` of a tensor of integers.
static Scalar extractWord(ImplicitLocOpBuilder &b, Value tensor,
                          int64_t index) {
  Value position = arith::ConstantIndexOp::create(b, index);
  return toI64({b, tensor::ExtractOp::create(b, tensor, position)});
}

static Scalar makeWord(ImplicitLocOpBuilder &b, uint64_t word) {
  return {b, arith::ConstantOp::create(
                 b, b.getI64IntegerAttr(int64_t(word & 0xFFFFFFFFu)))};
}

/// Words of (seed, step, site), and the first row as it is.
static Results lowerRandomKey(RandomKeyOp op, ImplicitLocOpBuilder &b) {
  Scalar seed = extractWord(b, op.getRandom(), 0);
  Scalar step = extractWord(b, op.getRandom(), 1);
  Scalar firstRow = extractWord(b, op.getRandom(), 2);
  uint64_t site = hashSite(op.getSite());
  Counter words = philox({lowWord(step), highWord(step), makeWord(b, site),
                          makeWord(b, site >> 32)},
                         {lowWord(seed), highWord(seed)});
  RankedTensorType type = getTensorType(op.getResult());
  Domain domain(b, type.getShape());
  return {domain.map({}, type.getElementType(), [&](ScalarArgs) {
    Scalar position = domain.index(0);
    Scalar chosen =
        (position == position.like(0))
            .select(words[0],
                    (position == position.like(1)).select(words[1], firstRow));
    if (type.getElementType() == chosen.getType())
      return chosen;
    return Scalar(
        b, arith::TruncIOp::create(b, type.getElementType(), chosen.value));
  })};
}

DropoutMask::DropoutMask(ImplicitLocOpBuilder &b, Value key, ValueRange offsets,
                         double rate)
    : key{extractWord(b, key, 0), extractWord(b, key, 1)},
      firstRow(extractWord(b, key, 2)), threshold(std::ldexp(rate, 32)),
      scale(1.0 / (1.0 - rate)) {
  for (Value offset : offsets)
    this->offsets.push_back(toI64({b, offset}));
}

Scalar DropoutMask::getFactor(ScalarArgs indices, Type type) const {
  ImplicitLocOpBuilder &b = *key[0].b;
  SmallVector<Scalar, 4> counter(4, makeWord(b, 0));
  for (auto [dim, index] : llvm::enumerate(indices)) {
    counter[dim] = toI64(index);
    // What has no offset, as the keys of attention, is whole.
    if (dim < offsets.size())
      counter[dim] = counter[dim] + offsets[dim];
  }
  if (!indices.empty())
    counter[0] = counter[0] + firstRow;
  Scalar word =
      philox({counter[0], counter[1], counter[2], counter[3]}, key)[0];
  Scalar one(b, makeConstant(b, type, scale));
  return (word < word.like(std::round(threshold))).select(one.like(0.0), one);
}

static Results lowerDropout(DropoutOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  DropoutMask mask(b, op.getKey(), op.getOffset(),
                   op.getRate().convertToDouble());
  Domain domain(b, type.getShape());
  return {domain.map({domain.whole(op.getX())}, type.getElementType(),
                     [&](ScalarArgs in) {
                       SmallVector<Scalar> indices;
                       for (int64_t dim = 0; dim < type.getRank(); ++dim)
                         indices.push_back(domain.index(dim));
                       return in[0] * mask.getFactor(indices, in[0].getType());
                     })};
}

void mt::addRandomLowerings(RewritePatternSet &patterns) {
  addLowering<RandomKeyOp>(patterns, lowerRandomKey);
  addLowering<DropoutOp>(patterns, lowerDropout);
}
