//===- NcclWork.h - what a group of NCCL's calls does -----------*- C++ -*-===//

#ifndef MT_RUNTIME_SIMULATED_NCCLWORK_H
#define MT_RUNTIME_SIMULATED_NCCLWORK_H

#include "Simulator.h"

namespace mt::simulated {

struct NcclCall {
  enum Kind { AllReduce, AllGather, ReduceScatter, Send, Recv } kind;
  const char *input = nullptr;
  char *output = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int peer = -1;
};

/// The members of a communicator.
struct NcclWorld {
  std::string identifier;
  int size = 0;
  int joined = 0;
  bool isAborted = false;
};

/// One member's calls, from ncclGroupStart to ncclGroupEnd.
struct NcclWork {
  std::shared_ptr<NcclWorld> world;
  int member = 0;
  std::vector<NcclCall> calls;
};

/// The bytes of `count` elements.
size_t byteCount(ncclDataType_t type, size_t count);
/// `all_reduce of 8 elements of type 7`, for messages.
std::string describe(const NcclCall &call);
/// The member's own memory that the calls use.
void findRanges(const NcclWork &work, std::vector<Range> &reads,
                std::vector<Range> &writes);
/// Why these calls, by member, are not one; empty: they are.
std::string mismatch(const std::vector<NcclWork *> &members);
/// Does them.
void runNccl(const std::vector<NcclWork *> &members);

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_NCCLWORK_H
