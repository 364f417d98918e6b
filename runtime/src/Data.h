//===- Data.h - what a step trains on ---------------------------*- C++ -*-===//
//
// Training goes through one endless list of sequences; a step takes the next
// `batch` of them. A sequence is asked for by its number, so every rank sees
// the same data whatever the mesh and the microbatches, and a run goes on where
// another has ended.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_DATA_H
#define MT_RUNTIME_DATA_H

#include "Manifest.h"

#include <memory>

namespace mt::runtime {

class DataSource {
public:
  virtual ~DataSource() = default;
  /// Fills `input` (`input_ids`, `labels`, ...) of a sequence of the list:
  /// `sequence` elements of the manifest.
  virtual void readRow(const std::string &input, int64_t sequence,
                       int64_t *elements) const = 0;
  /// How many sequences the files hold; after these comes the next epoch.
  virtual int64_t epochSequences() const = 0;
};

struct DataOptions {
  std::vector<std::string> files;
  uint64_t seed = 0;
  /// The sequences that training will read: these are checked.
  int64_t firstSequence = 0;
  int64_t sequences = 0;
  /// Width of a token of a .bin file.
  int64_t tokenBytes = 2;
  /// Put after each document of text or tokens; -1: nothing.
  int64_t endOfDocument = -1;
};

/// Opens files of safetensors, text or tokens, and checks that they fit the
/// model.
std::unique_ptr<DataSource> openData(const DataOptions &options,
                                     const Manifest &manifest);

/// As openData, of text or tokens (TokenData.cpp).
std::unique_ptr<DataSource> openTokens(const DataOptions &options,
                                       const Manifest &manifest);

/// Names of the inputs that the step reads.
std::vector<std::string> inputNames(const Manifest &manifest);

/// Whether a file's name says that it holds token ids: .bin, .u16, .u32.
bool isTokenFile(const std::string &path);

/// Fills the part of an input that `rank` holds of one microbatch of the step
/// that starts with `firstSequence`.
void fillInput(const DataSource &source, const Manifest &manifest,
               const Buffer &buffer, int64_t rank, int64_t firstSequence,
               int64_t microbatch, void *data);

} // namespace mt::runtime

#endif // MT_RUNTIME_DATA_H
