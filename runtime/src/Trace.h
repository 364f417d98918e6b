//===- Trace.h - a timeline of all ranks ------------------------*- C++ -*-===//

#ifndef MT_RUNTIME_TRACE_H
#define MT_RUNTIME_TRACE_H

#include "Manifest.h"
#include "Recorder.h"

#include <mutex>

namespace mt::runtime {

/// A file of Chrome's trace events (Perfetto reads them too), one track a rank,
/// a second one for what it has started, or what a device does beside its
/// kernels, one event a line. It is whole after
/// each addition, however the job ends.
class TraceFile {
public:
  /// Does not touch the file before the first addition.
  TraceFile(std::string path, const Manifest &manifest, int64_t threads);
  ~TraceFile();
  TraceFile(const TraceFile &) = delete;
  TraceFile &operator=(const TraceFile &) = delete;

  void add(int64_t rank, const Span *spans, size_t count);

private:
  void open();
  void write(std::string text);
  bool hasSecondTracks() const;
  int64_t startedTrack(int64_t rank) const;
  std::string name(int64_t collective) const;
  nlohmann::ordered_json arguments(int64_t collective) const;
  std::string event(int64_t rank, const Span &span) const;

  std::string path;
  const Manifest &manifest;
  /// Of each rank; what the process is labelled with.
  int64_t threads;
  std::mutex mutex;
  int file = -1;
  /// Where the next event goes, over what closes the file.
  int64_t end = 0;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_TRACE_H
