//===- Runs.cpp - what a member sends to another and where it lands -------===//

#include "Runs.h"

#include "../Elements.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

class RunList {
public:
  void add(void *data, int64_t offset, int64_t bytes) {
    if (bytes == 0)
      return;
    char *begin = static_cast<char *>(data) + offset;
    if (!runs.empty() && runs.back().data + runs.back().bytes == begin)
      runs.back().bytes += bytes;
    else
      runs.push_back({begin, bytes});
  }
  std::vector<Run> take() { return std::move(runs); }

private:
  std::vector<Run> runs;
};

void *input(const Collective &call, int64_t t) {
  return const_cast<void *>(call.inputs[t]);
}

int64_t elementBytesOf(const Collective &call) {
  return elementBytes(mt_dtype(call.dtype));
}

/// Piece `index` of all tensors' elements in a row, cut into `members`.
std::vector<Run> reducePiece(const Collective &call, int64_t index,
                             int64_t members, bool ofOutputs) {
  int64_t bytes = elementBytesOf(call), total = 0;
  for (int64_t t = 0; t < call.tensors; ++t)
    total += call.counts[t];
  int64_t piece = total / members, rest = total % members;
  int64_t begin = piece * index + std::min(index, rest);
  int64_t end = begin + piece + (index < rest ? 1 : 0);
  RunList list;
  int64_t first = 0;
  for (int64_t t = 0; t < call.tensors; ++t) {
    int64_t last = first + call.counts[t];
    int64_t from = std::max(begin, first), to = std::min(end, last);
    if (from < to)
      list.add(ofOutputs ? call.outputs[t] : input(call, t),
               (from - first) * bytes, (to - from) * bytes);
    first = last;
  }
  return list.take();
}

/// Block `index` of the middle dimension of [outer, members, inner], or all of
/// [outer, inner].
std::vector<Run> outerBlocks(const Collective &call, bool ofOutputs,
                             bool hasMembers, int64_t index, int64_t members) {
  RunList list;
  for (int64_t t = 0; t < call.tensors; ++t) {
    int64_t bytes = call.inner[t] * elementBytesOf(call);
    for (int64_t o = 0; o < call.outer[t]; ++o)
      list.add(ofOutputs ? call.outputs[t] : input(call, t),
               (hasMembers ? o * members + index : o) * bytes, bytes);
  }
  return list.take();
}

/// Where one member's block lies in the input, or in the output.
std::vector<Run> exchangedBlocks(const Collective &call, int64_t other,
                                 int64_t members, bool ofOutputs) {
  int64_t bytes = elementBytesOf(call);
  RunList list;
  for (int64_t t = 0; t < call.tensors; ++t) {
    const int64_t *s = call.sizes + 5 * t;
    int64_t a = s[0], p = s[1], b = s[2], q = s[3], c = s[4];
    bool splitP = call.splitFirst[t] != 0;
    int64_t blockP = splitP ? p / members : p;
    int64_t blockQ = splitP ? q : q / members;
    // The array that the block is cut out of, and whether along p.
    int64_t wholeP = ofOutputs ? (splitP ? blockP : p * members) : p;
    int64_t wholeQ = ofOutputs ? (splitP ? q * members : blockQ) : q;
    bool alongP = splitP != ofOutputs;
    for (int64_t i = 0; i < a; ++i)
      for (int64_t j = 0; j < blockP; ++j)
        for (int64_t k = 0; k < b; ++k) {
          int64_t atP = alongP ? other * blockP + j : j;
          int64_t atQ = alongP ? 0 : other * blockQ;
          int64_t at = (((i * wholeP + atP) * b + k) * wholeQ + atQ) * c;
          list.add(ofOutputs ? call.outputs[t] : input(call, t), at * bytes,
                   blockQ * c * bytes);
        }
  }
  return list.take();
}

std::vector<Run> whole(const Collective &call, bool ofOutputs) {
  RunList list;
  for (int64_t t = 0; t < call.tensors; ++t)
    list.add(ofOutputs ? call.outputs[t] : input(call, t), 0,
             call.counts[t] * elementBytesOf(call));
  return list.take();
}

} // namespace

std::vector<Run> mt::runtime::runsToSend(const Collective &call, int64_t me,
                                         int64_t other, int64_t members) {
  switch (call.kind) {
  case CollectiveKind::AllReduce:
    return reducePiece(call, other, members, false);
  case CollectiveKind::AllGather:
    return outerBlocks(call, false, false, 0, members);
  case CollectiveKind::ReduceScatter:
    return outerBlocks(call, false, true, other, members);
  case CollectiveKind::AllToAll:
    return exchangedBlocks(call, other, members, false);
  case CollectiveKind::CollectivePermute:
    return call.sources[other] == me ? whole(call, false) : std::vector<Run>();
  case CollectiveKind::Barrier:
  case CollectiveKind::Collect:
    break;
  }
  return {};
}

std::vector<Run> mt::runtime::runsToReceive(const Collective &call, int64_t me,
                                            int64_t other, int64_t members) {
  switch (call.kind) {
  case CollectiveKind::AllReduce:
    return reducePiece(call, other, members, true);
  case CollectiveKind::AllGather:
    return outerBlocks(call, true, true, other, members);
  case CollectiveKind::ReduceScatter:
    return outerBlocks(call, true, false, 0, members);
  case CollectiveKind::AllToAll:
    return exchangedBlocks(call, other, members, true);
  case CollectiveKind::CollectivePermute:
    return call.sources[me] == other ? whole(call, true) : std::vector<Run>();
  case CollectiveKind::Barrier:
  case CollectiveKind::Collect:
    break;
  }
  return {};
}

RunCursor::RunCursor(std::vector<Run> runs) : runs(std::move(runs)) {
  for (const Run &run : this->runs)
    bytesLeft += run.bytes;
}

char *RunCursor::contiguous(int64_t bytes) const {
  if (run == runs.size() || runs[run].bytes - offset < bytes)
    return nullptr;
  return runs[run].data + offset;
}

template <typename PieceFn>
void RunCursor::advance(int64_t bytes, PieceFn piece) {
  bytesLeft -= bytes;
  while (bytes > 0) {
    int64_t size = std::min(bytes, runs[run].bytes - offset);
    piece(runs[run].data + offset, size);
    bytes -= size;
    offset += size;
    if (offset == runs[run].bytes)
      ++run, offset = 0;
  }
}

void RunCursor::skip(int64_t bytes) {
  advance(bytes, [](char *, int64_t) {});
}

void RunCursor::copyTo(char *buffer, int64_t bytes) {
  advance(bytes, [&](char *data, int64_t size) {
    std::memcpy(buffer, data, size_t(size));
    buffer += size;
  });
}

void RunCursor::copyFrom(const char *buffer, int64_t bytes) {
  advance(bytes, [&](char *data, int64_t size) {
    std::memcpy(data, buffer, size_t(size));
    buffer += size;
  });
}
