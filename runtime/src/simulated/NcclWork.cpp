//===- NcclWork.cpp - what a group of NCCL's calls does -------------------===//

#include "NcclWork.h"

#include "../comm/Reduce.h"

#include <cstring>

using namespace mt::simulated;

namespace {

bool isMessage(const NcclCall &call) {
  return call.kind == NcclCall::Send || call.kind == NcclCall::Recv;
}

/// The member's calls that all members make together, in order.
std::vector<const NcclCall *> commonCalls(const NcclWork &work) {
  std::vector<const NcclCall *> calls;
  for (const NcclCall &call : work.calls)
    if (!isMessage(call))
      calls.push_back(&call);
  return calls;
}

/// The member's messages to or from another one, in order.
std::vector<const NcclCall *> messages(const NcclWork &work,
                                       NcclCall::Kind kind, int peer) {
  std::vector<const NcclCall *> calls;
  for (const NcclCall &call : work.calls)
    if (call.kind == kind && call.peer == peer)
      calls.push_back(&call);
  return calls;
}

std::string differ(int memberA, const NcclCall *a, int memberB,
                   const NcclCall *b) {
  auto text = [](int member, const NcclCall *call) {
    return "member " + std::to_string(member) + " at " +
           (call ? describe(*call) : "no call");
  };
  return "nccl: expected calls that match, found " + text(memberA, a) +
         " and " + text(memberB, b);
}

mt_dtype dtypeOf(ncclDataType_t type) {
  switch (type) {
  case ncclFloat64:
    return MT_F64;
  case ncclBfloat16:
    return MT_BF16;
  case ncclInt32:
    return MT_I32;
  case ncclInt64:
    return MT_I64;
  default:
    return MT_F32;
  }
}

void runCommon(const std::vector<const NcclCall *> &calls) {
  const NcclCall &first = *calls[0];
  size_t n = calls.size(), bytes = byteCount(first.type, first.count);
  mt_reduction reduction = first.reduction == ncclMax   ? MT_MAX
                           : first.reduction == ncclMin ? MT_MIN
                                                        : MT_SUM;
  auto reduce = [&](size_t offset, const std::vector<void *> &outputs) {
    std::vector<const void *> inputs;
    for (const NcclCall *call : calls)
      inputs.push_back(call->input + offset);
    mt::runtime::reduceArrays(dtypeOf(first.type), reduction,
                              int64_t(first.count), inputs, outputs);
  };
  if (first.kind == NcclCall::AllReduce) {
    std::vector<void *> outputs;
    for (const NcclCall *call : calls)
      outputs.push_back(call->output);
    return reduce(0, outputs);
  }
  if (first.kind == NcclCall::ReduceScatter) {
    for (size_t m = 0; m < n; ++m)
      reduce(m * bytes, {calls[m]->output});
    return;
  }
  for (size_t to = 0; to < n; ++to)
    for (size_t from = 0; from < n; ++from)
      std::memmove(calls[to]->output + from * bytes, calls[from]->input, bytes);
}

} // namespace

size_t mt::simulated::byteCount(ncclDataType_t type, size_t count) {
  size_t bytes = type == ncclBfloat16                       ? 2
                 : type == ncclFloat32 || type == ncclInt32 ? 4
                                                            : 8;
  return count * bytes;
}

std::string mt::simulated::describe(const NcclCall &call) {
  const char *names[] = {"all_reduce", "all_gather", "reduce_scatter", "send",
                         "recv"};
  return std::string(names[call.kind]) + " of " + std::to_string(call.count) +
         " elements of type " + std::to_string(call.type);
}

void mt::simulated::findRanges(const NcclWork &work, std::vector<Range> &reads,
                               std::vector<Range> &writes) {
  for (const NcclCall &call : work.calls) {
    size_t bytes = byteCount(call.type, call.count);
    size_t all = bytes * size_t(work.world->size);
    if (call.input)
      reads.push_back({reinterpret_cast<uintptr_t>(call.input),
                       call.kind == NcclCall::ReduceScatter ? all : bytes});
    if (call.output)
      writes.push_back({reinterpret_cast<uintptr_t>(call.output),
                        call.kind == NcclCall::AllGather ? all : bytes});
  }
}

std::string mt::simulated::mismatch(const std::vector<NcclWork *> &members) {
  auto at = [](const std::vector<const NcclCall *> &calls, size_t i) {
    return i < calls.size() ? calls[i] : nullptr;
  };
  int n = int(members.size());
  for (int m = 1; m < n; ++m) {
    auto a = commonCalls(*members[0]), b = commonCalls(*members[size_t(m)]);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const NcclCall *x = at(a, i), *y = at(b, i);
      if (!x || !y || x->kind != y->kind || x->count != y->count ||
          x->type != y->type || x->reduction != y->reduction)
        return differ(0, x, m, y);
    }
  }
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      auto a = messages(*members[size_t(from)], NcclCall::Send, to);
      auto b = messages(*members[size_t(to)], NcclCall::Recv, from);
      for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const NcclCall *x = at(a, i), *y = at(b, i);
        if (!x || !y || x->count != y->count || x->type != y->type)
          return differ(from, x, to, y);
      }
    }
  return "";
}

void mt::simulated::runNccl(const std::vector<NcclWork *> &members) {
  size_t common = commonCalls(*members[0]).size();
  for (size_t i = 0; i < common; ++i) {
    std::vector<const NcclCall *> calls;
    for (const NcclWork *member : members)
      calls.push_back(commonCalls(*member)[i]);
    runCommon(calls);
  }
  int n = int(members.size());
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      auto a = messages(*members[size_t(from)], NcclCall::Send, to);
      auto b = messages(*members[size_t(to)], NcclCall::Recv, from);
      for (size_t i = 0; i < a.size(); ++i)
        std::memmove(b[i]->output, a[i]->input,
                     byteCount(a[i]->type, a[i]->count));
    }
}
