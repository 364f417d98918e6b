//===- Account.h - predicted and counted traffic side by side ---*- C++ -*-===//

#ifndef MT_RUNTIME_ACCOUNT_H
#define MT_RUNTIME_ACCOUNT_H

#include "Manifest.h"
#include "Recorder.h"

#include <iosfwd>

namespace mt::runtime {

/// A collective of the manifest over a whole run, as each rank sees it.
struct AccountEntry {
  int64_t predictedLaunches = 0, predictedBytes = 0;
  /// Where ranks differ: those of the rank that is farthest from the
  /// prediction.
  int64_t launches = 0, bytes = 0;
  /// Mean over the ranks.
  double seconds = 0, exposedSeconds = 0;
};

/// What all ranks counted, by the manifest's ids.
class Account {
public:
  Account(const Manifest &manifest, int64_t steps, int64_t ranks);
  void add(const CollectiveCount *counts);

  const std::vector<AccountEntry> &entries() const { return list; }
  /// Whether every rank sent just what was predicted.
  bool agrees() const;
  /// Two tables: by kind and axes; by unit, equal layers folded.
  void print(std::ostream &stream) const;
  /// `{"collectives": [...]}` on one line.
  std::string json() const;

private:
  const Manifest &manifest;
  int64_t steps, ranks;
  std::vector<AccountEntry> list;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_ACCOUNT_H
