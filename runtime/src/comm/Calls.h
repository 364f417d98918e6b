//===- Calls.h - what every backend says about calls ------------*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_CALLS_H
#define MT_RUNTIME_COMM_CALLS_H

#include "mt/communicator.h"

#include <vector>

namespace mt::runtime {

/// `rank 3`.
std::string rankText(int64_t rank);

/// Refuses a call that would read or write where it must not.
void checkCall(const Collective &call, int64_t members);

/// `all_reduce 0 over {tp} (transformer.h.0, forward)`; `names` are the texts
/// of the manifest's collectives, by id.
std::string describeCall(const std::vector<std::string> &names,
                         const Collective &call);

/// Why the calls of two members of one group cannot be one; empty: they can.
std::string callsDiffer(const std::vector<std::string> &names, int64_t rankA,
                        const Collective &a, int64_t rankB, const Collective &b,
                        int64_t members);

/// `rank 0: expected all ranks at CALL within 60 s, found missing: ...`.
std::string missingMessage(int64_t rank, const std::string &call,
                           double timeoutSeconds, const std::string &missing);

/// Elements of the tensor `t` that a member puts into a step's call, and gets
/// out.
int64_t inputElements(const Collective &call, int64_t t, int64_t members);
int64_t outputElements(const Collective &call, int64_t t, int64_t members);

/// Bytes that a member sends where the call is done in a ring, as the
/// compiler predicts them.
int64_t ringBytes(const Collective &call, int64_t members);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_CALLS_H
