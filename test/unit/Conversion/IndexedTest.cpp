//===- IndexedTest.cpp - ops on global indices against loops --------------===//

#include "OpTest.h"

using namespace mt::test;

using Operands = std::vector<Values>;

/// The shard of 4 rows from row 4 on, of a table of 3 columns.
static const std::string shard = "%o = arith.constant 4 : index\n";
static const Values ids = {0, 4, 7, 5, 9, 4};

TEST(Indexed, Positions) {
  check(
      {"() -> (tensor<4xi32>, tensor<4xi64>)",
       shard + "%p = mt.positions : () -> tensor<4xi32>\n"
               "%q = mt.positions %o : (index) -> tensor<4xi64>\n"
               "return %p, %q : tensor<4xi32>, tensor<4xi64>",
       {},
       [](const Operands &) { return Operands{{0, 1, 2, 3}, {4, 5, 6, 7}}; }});
}

TEST(Indexed, EmbeddingOfAWholeTable) {
  check({"(%i: tensor<2x3xi32>, %t: tensor<10x3xT>) -> tensor<2x3x3xT>",
         "%y = mt.embedding %i, %t : (tensor<2x3xi32>, tensor<10x3xT>) -> "
         "tensor<2x3x3xT>\n"
         "return %y : tensor<2x3x3xT>",
         {ids, makeValues(30, 1)},
         [](const Operands &v) {
           Values y;
           for (double id : v[0])
             for (size_t h = 0; h < 3; ++h)
               y.push_back(v[1][size_t(id) * 3 + h]);
           return Operands{y};
         }});
}

TEST(Indexed, EmbeddingOfAShardHasZerosForOthersRows) {
  check({"(%i: tensor<6xi64>, %t: tensor<4x3xT>) -> tensor<6x3xT>",
         shard + "%y = mt.embedding %i, %t, %o : (tensor<6xi64>, "
                 "tensor<4x3xT>, index) -> tensor<6x3xT>\n"
                 "return %y : tensor<6x3xT>",
         {ids, makeValues(12, 1)},
         [](const Operands &v) {
           Values y;
           for (double id : v[0])
             for (size_t h = 0; h < 3; ++h)
               y.push_back(id >= 4 && id < 8 ? v[1][(size_t(id) - 4) * 3 + h]
                                             : 0.0);
           return Operands{y};
         }});
}

TEST(Indexed, EmbeddingGradAddsEqualIds) {
  for (bool isShard : {false, true}) {
    std::string rows = isShard ? "4" : "10";
    std::string offset = isShard ? ", %o" : "";
    std::string type = isShard ? ", index" : "";
    check({"(%i: tensor<2x3xi32>, %d: tensor<2x3x3xT>) -> tensor<" + rows +
               "x3xT>",
           shard + "%g = mt.embedding_grad %i, %d" + offset +
               " : (tensor<2x3xi32>, tensor<2x3x3xT>" + type + ") -> tensor<" +
               rows + "x3xT>\nreturn %g : tensor<" + rows + "x3xT>",
           {ids, makeValues(18, 1)},
           [&](const Operands &v) {
             Values whole(30, 0.0);
             for (size_t t = 0; t < 6; ++t)
               for (size_t h = 0; h < 3; ++h)
                 whole[size_t(v[0][t]) * 3 + h] += v[1][t * 3 + h];
             if (isShard)
               whole = Values(whole.begin() + 12, whole.begin() + 24);
             return Operands{whole};
           }});
  }
}

TEST(Indexed, EmbeddingGradLeavesOutPadding) {
  check({"(%i: tensor<2x3xi32>, %d: tensor<2x3x3xT>) -> tensor<10x3xT>",
         "%g = mt.embedding_grad %i, %d {padding = 5 : i64} : "
         "(tensor<2x3xi32>, tensor<2x3x3xT>) -> tensor<10x3xT>\n"
         "return %g : tensor<10x3xT>",
         {ids, makeValues(18, 1)},
         [&](const Operands &v) {
           Values whole(30, 0.0);
           for (size_t t = 0; t < 6; ++t)
             for (size_t h = 0; h < 3; ++h)
               if (v[0][t] != 5)
                 whole[size_t(v[0][t]) * 3 + h] += v[1][t * 3 + h];
           return Operands{whole};
         }});
}

TEST(Indexed, PickAndItsGradient) {
  Values labels = {4, -100, 7, 9};
  check({"(%x: tensor<4x4xT>, %l: tensor<4xi32>, %d: tensor<4xT>) -> "
         "(tensor<4xT>, tensor<4x4xT>)",
         shard + "%p = mt.pick %x, %l, %o : (tensor<4x4xT>, tensor<4xi32>, "
                 "index) -> tensor<4xT>\n"
                 "%g = mt.pick_grad %l, %d, %o : (tensor<4xi32>, tensor<4xT>, "
                 "index) -> tensor<4x4xT>\n"
                 "return %p, %g : tensor<4xT>, tensor<4x4xT>",
         {makeValues(16, 1), labels, makeValues(4, 2)},
         [](const Operands &v) {
           Values picked(4, 0.0), grad(16, 0.0);
           for (size_t r = 0; r < 4; ++r) {
             if (v[1][r] < 4 || v[1][r] >= 8)
               continue;
             size_t at = r * 4 + size_t(v[1][r]) - 4;
             picked[r] = v[0][at];
             grad[at] = v[2][r];
           }
           return Operands{picked, grad};
         }});
}
