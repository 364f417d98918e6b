//===- CallMessage.h - a call as the other members see it -------*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_CALLMESSAGE_H
#define MT_RUNTIME_COMM_CALLMESSAGE_H

#include "mt/communicator.h"

#include <vector>

namespace mt::runtime {

/// All of a call but its memory, to be sent to the other members.
std::vector<int64_t> encodeCall(const Collective &call, int64_t bytes,
                                int64_t members);

/// A call of another member.
struct ReceivedCall {
  explicit ReceivedCall(std::vector<int64_t> words);
  ReceivedCall(const ReceivedCall &) = delete;
  ReceivedCall &operator=(const ReceivedCall &) = delete;

  /// Points into the words; has no inputs and outputs.
  Collective call;
  /// Of the data that a Collect hands over.
  int64_t bytes = 0;

private:
  std::vector<int64_t> words;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_CALLMESSAGE_H
