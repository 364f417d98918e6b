//===- Runs.h - what a member sends to another and where it lands -*- C++ -*-===//
//
// The bytes that one member of a group sends to another lie in runs, spread
// over the tensors of a call. Both sides list them in the same order, so a
// message is what the runs hold, one after the other.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_RUNS_H
#define MT_RUNTIME_COMM_RUNS_H

#include "mt/communicator.h"

#include <vector>

namespace mt::runtime {

struct Run {
  char *data;
  int64_t bytes;
};

/// The runs of `me`'s inputs that `other` needs. Reductions: the piece that
/// `other` reduces.
std::vector<Run> runsToSend(const Collective &call, int64_t me, int64_t other,
                            int64_t members);

/// The runs of `me`'s outputs that come from `other`. An all-reduce: the piece
/// that `other` reduces; a reduce-scatter: all, from every member.
std::vector<Run> runsToReceive(const Collective &call, int64_t me,
                               int64_t other, int64_t members);

/// Goes through runs piece by piece.
class RunCursor {
public:
  explicit RunCursor(std::vector<Run> runs);

  /// Bytes not gone through yet.
  int64_t left() const { return bytesLeft; }
  /// The next `bytes` where they lie in one run, else null; does not move on.
  char *contiguous(int64_t bytes) const;
  void skip(int64_t bytes);
  /// Copy the next `bytes` and move on.
  void copyTo(char *buffer, int64_t bytes);
  void copyFrom(const char *buffer, int64_t bytes);

private:
  template <typename PieceFn> void advance(int64_t bytes, PieceFn piece);

  std::vector<Run> runs;
  size_t run = 0;
  int64_t offset = 0;
  int64_t bytesLeft = 0;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_RUNS_H
