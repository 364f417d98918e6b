//===- Data.h - what a step trains on ----------------------------*- C++
//-*-===//

#ifndef MT_RUNTIME_DATA_H
#define MT_RUNTIME_DATA_H

#include "Manifest.h"

#include <memory>

namespace mt::runtime {

/// The global batches of a job. Rows are asked for by number, so that every
/// rank sees the same data whatever the mesh.
class DataSource {
public:
  virtual ~DataSource() = default;
  /// Fills one row of `input` (`input_ids`, `labels`, ...) of the batch of
  /// `step`, counted from 0: `sequence` elements.
  virtual void readRow(const std::string &input, int64_t step, int64_t row,
                       int64_t *elements) const = 0;
};

/// Opens files of safetensors, or of text, and checks that they fit the model
/// and hold what `steps` steps read.
std::unique_ptr<DataSource> openData(const std::vector<std::string> &files,
                                     const Manifest &manifest, uint64_t seed,
                                     int64_t steps);

/// Fills the part of an input that `rank` holds of one microbatch.
void fillInput(const DataSource &source, const Manifest &manifest,
               const Buffer &buffer, int64_t rank, int64_t step,
               int64_t microbatch, void *data);

} // namespace mt::runtime

#endif // MT_RUNTIME_DATA_H
