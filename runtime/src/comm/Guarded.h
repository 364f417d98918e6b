//===- Guarded.h - the program of a rank, and what it throws ----*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_GUARDED_H
#define MT_RUNTIME_COMM_GUARDED_H

#include "mt/communicator.h"

namespace mt::runtime {

/// Runs `body`; what it throws ends the job.
void runGuarded(Communicator &communicator,
                const std::function<void(Communicator &)> &body);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_GUARDED_H
