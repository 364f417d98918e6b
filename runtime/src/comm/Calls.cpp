//===- Calls.cpp - what every backend says about calls --------------------===//

#include "Calls.h"

#include "../Elements.h"
#include "mt/error.h"

#include <cstdio>

using namespace mt::runtime;

namespace {

/// Name of a size array that is compared, and its length a tensor.
struct SizeArray {
  const int64_t *Collective::*array;
  const char *name;
  int64_t perTensor;
};

constexpr SizeArray sizeArrays[] = {
    {&Collective::counts, "elements", 1},
    {&Collective::outer, "outer elements", 1},
    {&Collective::inner, "inner elements", 1},
    {&Collective::sizes, "as a size", 5},
    {&Collective::splitFirst, "as the split", 1},
};

/// How two calls of one collective differ in their tensors; empty: not at all.
std::string sizesDiffer(const Collective &a, const Collective &b,
                        int64_t members) {
  auto text = [](int64_t first, int64_t second, const std::string &what) {
    return std::to_string(first) + " and " + std::to_string(second) + " " +
           what;
  };
  if (a.group != b.group)
    return text(a.group, b.group, "as the group");
  if (a.dtype != b.dtype)
    return text(a.dtype, b.dtype, "as the element type");
  if (a.reduction != b.reduction)
    return text(a.reduction, b.reduction, "as the reduction");
  if (a.tensors != b.tensors)
    return text(a.tensors, b.tensors, "tensors");
  for (const auto &[array, name, perTensor] : sizeArrays)
    for (int64_t i = 0; a.*array && i < a.tensors * perTensor; ++i)
      if ((a.*array)[i] != (b.*array)[i])
        return text((a.*array)[i], (b.*array)[i],
                    name + std::string(" of tensor ") +
                        std::to_string(i / perTensor));
  for (int64_t m = 0; a.sources && m < members; ++m)
    if (a.sources[m] != b.sources[m])
      return text(a.sources[m], b.sources[m],
                  "as the source of member " + std::to_string(m));
  return "";
}

bool isIdentity(const Collective &call, int64_t members) {
  for (int64_t m = 0; m < members; ++m)
    if (call.sources[m] != m)
      return false;
  return true;
}

} // namespace

int64_t mt::runtime::inputElements(const Collective &call, int64_t t,
                                   int64_t members) {
  switch (call.kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::CollectivePermute:
    return call.counts[t];
  case CollectiveKind::AllGather:
    return call.outer[t] * call.inner[t];
  case CollectiveKind::ReduceScatter:
    return call.outer[t] * members * call.inner[t];
  case CollectiveKind::AllToAll: {
    const int64_t *s = call.sizes + 5 * t;
    return s[0] * s[1] * s[2] * s[3] * s[4];
  }
  case CollectiveKind::Barrier:
  case CollectiveKind::Collect:
    break;
  }
  return 0;
}

int64_t mt::runtime::outputElements(const Collective &call, int64_t t,
                                    int64_t members) {
  if (call.kind == CollectiveKind::AllGather)
    return call.outer[t] * members * call.inner[t];
  if (call.kind == CollectiveKind::ReduceScatter)
    return call.outer[t] * call.inner[t];
  return inputElements(call, t, members);
}

const char *mt::runtime::kindName(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllToAll:
    return "all_to_all";
  case CollectiveKind::CollectivePermute:
    return "collective_permute";
  case CollectiveKind::Barrier:
    return "barrier";
  case CollectiveKind::Collect:
    return "collect";
  }
  return "unknown";
}

std::string mt::runtime::rankText(int64_t rank) {
  return "rank " + std::to_string(rank);
}

void mt::runtime::checkCall(const Collective &call, int64_t members) {
  auto require = [&](bool holds, const char *what) {
    if (!holds)
      throw Error(std::string(kindName(call.kind)) + " " +
                  std::to_string(call.id) + ": expected " + what);
  };
  require(call.dtype >= MT_F32 && call.dtype <= MT_I64, "a known element type");
  require(call.reduction >= MT_SUM && call.reduction <= MT_MIN,
          "a known reduction");
  require(call.tensors >= 0, "at least 0 tensors");
  for (int64_t t = 0; t < call.tensors; ++t) {
    for (const int64_t *sizes : {call.counts, call.outer, call.inner})
      require(!sizes || sizes[t] >= 0, "sizes of at least 0");
    for (int64_t i = 0; call.sizes && i < 5; ++i)
      require(call.sizes[5 * t + i] >= 0, "sizes of at least 0");
    require(!call.sizes ||
                call.sizes[5 * t + (call.splitFirst[t] ? 1 : 3)] % members == 0,
            "a size that the group divides");
  }
  for (int64_t m = 0; call.sources && m < members; ++m)
    require(call.sources[m] >= 0 && call.sources[m] < members,
            "sources inside the group");
}

std::string mt::runtime::describeCall(const std::vector<std::string> &names,
                                      const Collective &call) {
  if (call.kind == CollectiveKind::Barrier ||
      call.kind == CollectiveKind::Collect)
    return call.place;
  if (call.id >= 0 && call.id < int64_t(names.size()))
    return names[size_t(call.id)];
  return std::string(kindName(call.kind)) + " " + std::to_string(call.id) +
         ", which is not in the manifest";
}

std::string mt::runtime::callsDiffer(const std::vector<std::string> &names,
                                     int64_t rankA, const Collective &a,
                                     int64_t rankB, const Collective &b,
                                     int64_t members) {
  if (a.kind != b.kind || a.id != b.id)
    return "out of step: " + rankText(rankA) + " is at " +
           describeCall(names, a) + ", " + rankText(rankB) + " is at " +
           describeCall(names, b);
  std::string sizes = sizesDiffer(a, b, members);
  if (sizes.empty())
    return "";
  return describeCall(names, b) + ": expected the same call on " +
         rankText(rankA) + " and " + rankText(rankB) + ", found " + sizes;
}

std::string mt::runtime::missingMessage(int64_t rank, const std::string &call,
                                        double timeoutSeconds,
                                        const std::string &missing) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", timeoutSeconds);
  return rankText(rank) + ": expected all ranks at " + call + " within " +
         seconds + " s, found missing: " + missing;
}

int64_t mt::runtime::ringBytes(const Collective &call, int64_t members) {
  int64_t sum = 0;
  // Rounded a tensor, as the compiler's sums of coalesced tensors are.
  for (int64_t t = 0; t < call.tensors; ++t) {
    int64_t bytes =
        inputElements(call, t, members) * elementBytes(mt_dtype(call.dtype));
    switch (call.kind) {
    case CollectiveKind::AllReduce:
      sum += 2 * bytes * (members - 1) / members;
      break;
    case CollectiveKind::AllGather:
      sum += bytes * (members - 1);
      break;
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
      sum += bytes * (members - 1) / members;
      break;
    case CollectiveKind::CollectivePermute:
      sum += isIdentity(call, members) ? 0 : bytes;
      break;
    case CollectiveKind::Barrier:
    case CollectiveKind::Collect:
      break;
    }
  }
  return sum;
}
