//===- ProcessFailure.cpp - how a job of processes ends early -------------===//

#include "Guarded.h"
#include "ProcessCommunicator.h"
#include "mt/error.h"

#include <chrono>
#include <cstdlib>
#include <thread>

using namespace mt::runtime;

namespace {

using Clock = std::chrono::steady_clock;

/// How long the reporter may take to answer: it may be in compiled code.
constexpr double answerSeconds = 3;
/// How long the processes may take to end once the reporter has spoken.
constexpr double endSeconds = 5;
constexpr double flushSeconds = 0.3;

/// First character of a notice: to the reporter, or from it.
constexpr char failedNotice = 'f', overNotice = 'o';

/// Calls `done` until it is true, or for `seconds`.
template <typename DoneFn> bool within(double seconds, DoneFn done) {
  Clock::time_point start = Clock::now();
  while (!done()) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

} // namespace

int64_t ProcessCommunicator::reporter() const {
  int64_t lowest = 0;
  while (lowest != rank() && !watch.isRunning(lowest))
    ++lowest;
  return lowest;
}

void ProcessCommunicator::tell(int64_t other, char kind) {
  notices.push_back({kind + reason, 0});
  Notice &notice = notices.back();
  notice.request = transport.send(other, Tag::Notice, notice.text.data(),
                                  int64_t(notice.text.size()));
}

void ProcessCommunicator::tellAll() {
  if (hasToldAll)
    return;
  hasToldAll = true;
  for (int64_t other = 0; other < ranks(); ++other)
    if (other != rank() && watch.isRunning(other))
      tell(other, overNotice);
}

void ProcessCommunicator::flushNotices() {
  within(flushSeconds, [&] {
    notices.remove_if(
        [&](const Notice &n) { return transport.isDone(n.request); });
    return notices.empty();
  });
}

void ProcessCommunicator::endAs(const std::string &message) {
  if (!reason.empty())
    return;
  reason = message.empty() ? "failed without a message" : message;
  int64_t to = reporter();
  if (to == rank())
    tellAll();
  else
    tell(to, failedNotice);
}

void ProcessCommunicator::endJob(const std::string &message) {
  endAs(message);
  throw JobEnded();
}

void ProcessCommunicator::fail(const std::string &message) {
  isFailing = true;
  std::lock_guard<std::mutex> lock(inUse);
  endAs("rank " + std::to_string(rank()) + ": " + message);
}

void ProcessCommunicator::takeNotices() {
  bool isAsked = false;
  while (auto envelope = transport.probe(Transport::anyRank, Tag::Notice)) {
    std::string text(size_t(envelope->bytes), '\0');
    Transport::Request request = transport.receive(
        envelope->from, Tag::Notice, text.data(), envelope->bytes);
    // On its way already.
    while (!transport.isDone(request))
      std::this_thread::yield();
    if (text.empty())
      continue;
    if (reason.empty())
      reason = text.substr(1);
    if (text[0] == overNotice)
      isTold = true;
    else
      isAsked = true;
  }
  if (isAsked && !isTold)
    tellAll();
}

void ProcessCommunicator::checkNotices() {
  takeNotices();
  if (isFailing || !reason.empty())
    throw JobEnded();
}

bool ProcessCommunicator::mustReport() {
  if (!hasToldAll)
    within(answerSeconds, [&] {
      takeNotices();
      return isTold || hasToldAll || reporter() == rank();
    });
  if (isTold && !hasToldAll) {
    std::this_thread::sleep_for(std::chrono::duration<double>(endSeconds));
    return false;
  }
  tellAll();
  flushNotices();
  return true;
}

void mt::runtime::runProcessRank(
    Transport &transport, ProcessCommunicator &communicator,
    const std::function<void(Communicator &)> &body) {
  runGuarded(communicator, body);
  if (communicator.failure().empty())
    return;
  if (communicator.mustReport())
    throw Error(communicator.failure());
  transport.abort();
  std::_Exit(1);
}
