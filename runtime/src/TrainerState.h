//===- TrainerState.h - where a run stands ----------------------*- C++ -*-===//
//
// trainer_state.json of a saved folder: with the weights and the moments beside
// it everything that the next step depends on. Random numbers are functions of
// the seed and the step, so no generator has a state.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_TRAINERSTATE_H
#define MT_RUNTIME_TRAINERSTATE_H

#include "mt/runtime.h"

namespace mt::runtime {

struct TrainerState {
  /// Steps that have been made.
  int64_t step = 0;
  uint64_t seed = 0;
  /// Sequences that have been read, and how many an epoch has.
  int64_t sequences = 0;
  int64_t epochSequences = 0;
  Hyperparameters hyperparameters;

  /// The text of the file; no time or machine is in it.
  std::string text() const;
  /// Reads the file of `folder`.
  static TrainerState read(const std::string &folder);
};

} // namespace mt::runtime

#endif // MT_RUNTIME_TRAINERSTATE_H
