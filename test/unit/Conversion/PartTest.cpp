//===- PartTest.cpp - parts of tensors against loops ----------------------===//

#include "OpTest.h"

using namespace mt::test;

using Operands = std::vector<Values>;

// [2, 3, 5]: two rows of three heads of width 5.
static constexpr size_t rows = 2, heads = 3, width = 5;

static Values takeHeads(const Values &x, size_t first, size_t count) {
  Values part;
  for (size_t r = 0; r < rows; ++r)
    for (size_t h = first; h < first + count; ++h)
      for (size_t d = 0; d < width; ++d)
        part.push_back(x[(r * heads + h) * width + d]);
  return part;
}

TEST(Parts, Slice) {
  check({"(%x: tensor<2x3x5xT>) -> tensor<2x2x5xT>",
         "%y = mt.slice %x {dim = 1 : i64, offset = 1 : i64} : "
         "(tensor<2x3x5xT>) -> tensor<2x2x5xT>\n"
         "return %y : tensor<2x2x5xT>",
         {makeValues(rows * heads * width, 1)},
         [](const Operands &v) { return Operands{takeHeads(v[0], 1, 2)}; }});
}

TEST(Parts, Concat) {
  check({"(%x: tensor<2x2x5xT>, %y: tensor<2x1x5xT>) -> tensor<2x3x5xT>",
         "%z = mt.concat %x, %y {dim = 1 : i64} : (tensor<2x2x5xT>, "
         "tensor<2x1x5xT>) -> tensor<2x3x5xT>\n"
         "return %z : tensor<2x3x5xT>",
         {makeValues(rows * 2 * width, 1), makeValues(rows * width, 2)},
         [](const Operands &v) {
           Values whole;
           for (size_t r = 0; r < rows; ++r)
             for (auto [part, count] : {std::pair(v[0], 2), {v[1], 1}})
               whole.insert(whole.end(), part.begin() + r * count * width,
                            part.begin() + (r + 1) * count * width);
           return Operands{whole};
         }});
}

// Halves [4, 300] of [4, 600]: z = [a b, a a].
TEST(Parts, RowsOfAKernel) {
  constexpr size_t rows = 4, width = 300;
  check({"(%x: tensor<4x600xT>) -> tensor<4x600xT>",
         "%y = mt.kernel (%x) : (tensor<4x600xT>) -> tensor<4x600xT> {\n"
         "^bb0(%u: tensor<4x600xT>):\n"
         "%a = mt.slice %u {dim = 1 : i64, offset = 0 : i64} : "
         "(tensor<4x600xT>) -> tensor<4x300xT>\n"
         "%b = mt.slice %u {dim = 1 : i64, offset = 300 : i64} : "
         "(tensor<4x600xT>) -> tensor<4x300xT>\n"
         "%ab = mt.mul %a, %b : (tensor<4x300xT>, tensor<4x300xT>) -> "
         "tensor<4x300xT>\n"
         "%aa = mt.mul %a, %a : (tensor<4x300xT>, tensor<4x300xT>) -> "
         "tensor<4x300xT>\n"
         "%z = mt.concat %ab, %aa {dim = 1 : i64} : (tensor<4x300xT>, "
         "tensor<4x300xT>) -> tensor<4x600xT>\n"
         "mt.yield %z : tensor<4x600xT>\n"
         "}\n"
         "return %y : tensor<4x600xT>",
         {makeValues(rows * 2 * width, 1)},
         [](const Operands &v) {
           Values z(v[0].size());
           for (size_t r = 0; r < rows; ++r)
             for (size_t i = 0; i < width; ++i) {
               double a = v[0][r * 2 * width + i],
                      b = v[0][r * 2 * width + width + i];
               z[r * 2 * width + i] = a * b;
               z[r * 2 * width + width + i] = a * a;
             }
           return Operands{z};
         }});
}
