//===- SocketRanks.h - threads that meet by a file --------------*- C++ -*-===//
//
// Ranks are threads of the test, as processes would be: each joins by the file,
// and has sockets of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MT_UNITTESTS_RUNTIME_SOCKETRANKS_H
#define MT_UNITTESTS_RUNTIME_SOCKETRANKS_H

#include "Mesh.h"
#include "comm/SocketTransport.h"
#include "mt/communicator.h"

#include <functional>

namespace mt::runtime {

/// Runs `body` as each of `ranks` ranks, joined.
void withSockets(int64_t ranks,
                 const std::function<void(SocketTransport &)> &body);

/// Runs `body` as every rank, and returns the message that ended the job;
/// empty: none did.
std::string runOverSockets(const Mesh &mesh,
                           const std::vector<AxisList> &groups,
                           const std::function<void(Communicator &)> &body,
                           double timeoutSeconds = 60);

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_SOCKETRANKS_H
