//===- Trace.cpp - a timeline of all ranks --------------------------------===//

#include "Trace.h"

#include "mt/error.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace mt::runtime;
using Json = nlohmann::ordered_json;

namespace {

constexpr char opening[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
constexpr char closing[] = "\n]}\n";

/// Microseconds, as the format wants them, to the nanosecond.
double microseconds(double seconds) { return std::round(seconds * 1e9) * 1e-3; }

std::string line(const Json &event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// What is said of a process or of a track.
std::string metaLine(const char *kind, int64_t track, const Json &arguments) {
  return line({{"name", kind},
               {"ph", "M"},
               {"pid", 0},
               {"tid", track},
               {"args", arguments}});
}

std::string nameLine(const char *kind, int64_t track, const std::string &name) {
  return metaLine(kind, track, {{"name", name}});
}

} // namespace

TraceFile::TraceFile(std::string path, const Manifest &manifest,
                     int64_t threads)
    : path(std::move(path)), manifest(manifest), threads(threads) {}

TraceFile::~TraceFile() {
  if (file >= 0)
    close(file);
}

void TraceFile::open() {
  file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0)
    throw Error(path + ": expected a file that can be written, found: " +
                std::strerror(errno));
  std::string text =
      opening + nameLine("process_name", 0, "mt-run") + ",\n" +
      metaLine("process_labels", 0,
               {{"labels", "threads of a rank: " + std::to_string(threads)}});
  int64_t ranks = manifest.mesh.ranks();
  for (int64_t rank = 0; rank < ranks; ++rank)
    text +=
        ",\n" + nameLine("thread_name", rank, "rank " + std::to_string(rank));
  // The second track of a rank is shown below its first.
  const char *second = manifest.device ? " communication" : " started";
  for (int64_t rank = 0; hasSecondTracks() && rank < ranks; ++rank) {
    text += ",\n" + nameLine("thread_name", startedTrack(rank),
                             "rank " + std::to_string(rank) + second);
    text +=
        ",\n" + metaLine("thread_sort_index", rank, {{"sort_index", 2 * rank}});
    text += ",\n" + metaLine("thread_sort_index", startedTrack(rank),
                             {{"sort_index", 2 * rank + 1}});
  }
  write(text);
}

/// A device has a stream for all collectives.
bool TraceFile::hasSecondTracks() const {
  return manifest.device ? !manifest.collectives.empty()
                         : manifest.startsCollectives();
}

int64_t TraceFile::startedTrack(int64_t rank) const {
  return manifest.mesh.ranks() + rank;
}

/// Writes what closes the file with it, so that it is whole at once.
void TraceFile::write(std::string text) {
  int64_t size = int64_t(text.size());
  text += closing;
  for (size_t done = 0; done < text.size();) {
    ssize_t written = pwrite(file, text.data() + done, text.size() - done,
                             off_t(end + int64_t(done)));
    if (written < 0 && errno != EINTR)
      throw Error(path + ": expected a file that can be written, found: " +
                  std::strerror(errno));
    done += size_t(std::max<ssize_t>(written, 0));
  }
  end += size;
}

/// `all_gather {tp}`.
std::string TraceFile::name(int64_t collective) const {
  const CollectiveInfo &info = manifest.collectives[size_t(collective)];
  return info.kind + " {" + info.axesText() + "}";
}

Json TraceFile::arguments(int64_t collective) const {
  const CollectiveInfo &info = manifest.collectives[size_t(collective)];
  return {{"id", collective},
          {"unit", info.unit},
          {"direction", info.direction},
          {"reason", info.reason},
          {"operation", info.operation},
          {"payload_bytes", info.payloadBytes},
          {"bytes", info.ringBytes}};
}

std::string TraceFile::event(int64_t rank, const Span &span) const {
  Json event = {{"name", ""},
                {"cat", ""},
                {"ph", "X"},
                {"ts", microseconds(span.startSeconds)},
                {"dur", microseconds(span.seconds)},
                {"pid", 0},
                {"tid", rank}};
  switch (span.kind) {
  case Span::Step:
    event["name"] = "step " + std::to_string(span.id + 1);
    event["cat"] = "step";
    break;
  case Span::Microbatch:
  case Span::Update:
    event["name"] = span.kind == Span::Update ? manifest.update.name
                                              : manifest.microbatch.name;
    event["cat"] = "entry";
    break;
  case Span::Wait:
    event["name"] = "wait for all";
    event["cat"] = "wait";
    break;
  case Span::Kernel:
    event["name"] = manifest.kernels[size_t(span.id)].name;
    event["cat"] = "kernel";
    break;
  case Span::DeviceWait:
    event["args"] = {{"id", span.id}};
    [[fallthrough]];
  case Span::StartedWait:
    event["name"] = "wait for " + name(span.id);
    event["cat"] = "wait";
    break;
  case Span::StartedCall:
    event["tid"] = startedTrack(rank);
    [[fallthrough]];
  case Span::Call:
    event["name"] = name(span.id);
    event["cat"] = "collective";
    event["args"] = arguments(span.id);
    break;
  }
  return line(event);
}

void TraceFile::add(int64_t rank, const Span *spans, size_t count) {
  std::lock_guard<std::mutex> lock(mutex);
  if (file < 0)
    open();
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += ",\n" + event(rank, spans[i]);
  if (!text.empty())
    write(std::move(text));
}
