//===- RandomModel.h - models, meshes and strategies by seed ----*- C++ -*-===//
//
// A seed gives a model, the values of its arguments, a mesh and a strategy. The
// models are legal Transformers of any shape: depth, widths, heads and groups,
// normalisations before or after, activations, gates, biases, parallel blocks,
// rotary or learned positions, key masks, dropout, residuals that are read
// twice, weights that layers share, frozen parameters, tied or untied heads,
// units or none. The strategy shards activations, and state by ZeRO.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_UNIT_EXECUTION_RANDOMMODEL_H
#define MT_TEST_UNIT_EXECUTION_RANDOMMODEL_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mt::test {

struct RandomModel {
  explicit RandomModel(uint64_t seed);

  /// The dense module.
  std::string text;
  std::map<std::string, std::vector<double>> reals;
  std::map<std::string, std::vector<int32_t>> integers;
  std::vector<std::string> trained;

  /// Options of the pipeline.
  std::string mesh, rules, recompute;
  bool sequenceParallel, vocabularyParallel, keepGathered;
  int64_t zero;
  int64_t ranks;
};

} // namespace mt::test

#endif // MT_TEST_UNIT_EXECUTION_RANDOMMODEL_H
