//===- Listener.cpp - lets the ranks of a job in --------------------------===//

#include "Listener.h"

#include "Calls.h"
#include "mt/error.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace mt::runtime;

namespace {

/// How long a greeting may take to come, or to be answered.
constexpr double greetingSeconds = 5;
constexpr int waitMilliseconds = 100;
/// Guests that have not said yet who they are; more wait in the system.
constexpr size_t mostGuests = 256;

Socket makeWake() {
  Socket wake(eventfd(0, EFD_CLOEXEC));
  if (!wake)
    throw Error(std::string("expected a descriptor, found: ") +
                std::strerror(errno));
  return wake;
}

} // namespace

Greeting::Greeting(const std::string &text, Purpose purpose, int64_t from,
                   int64_t to, int64_t ranks)
    : purpose(purpose), from(int32_t(from)), to(int32_t(to)),
      ranks(int32_t(ranks)) {
  std::copy_n(text.begin(), std::min(text.size(), key.size()), key.begin());
}

Listener::Listener(const std::string &key, int64_t rank, int64_t ranks)
    : own(key, Purpose::Join, rank, rank, ranks), socket(listenAnywhere(port)),
      wake(makeWake()), isKnown(size_t(ranks)), thread([this] { serve(); }) {}

Listener::~Listener() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake.get(), &one, sizeof one);
  thread.join();
}

Socket Listener::take(int64_t rank) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = arrived.find(rank);
  if (found == arrived.end())
    return Socket();
  Socket taken = std::move(found->second);
  arrived.erase(found);
  return taken;
}

std::string Listener::conflict() {
  std::lock_guard<std::mutex> lock(mutex);
  return trouble;
}

std::string Listener::close() {
  std::lock_guard<std::mutex> lock(mutex);
  isClosed = true;
  return trouble;
}

void Listener::serve() {
  std::vector<Guest> guests;
  while (true) {
    bool isFull = guests.size() >= mostGuests;
    std::vector<pollfd> entries = {
        {wake.get(), POLLIN, 0}, {socket.get(), short(isFull ? 0 : POLLIN), 0}};
    for (const Guest &guest : guests)
      entries.push_back({guest.socket.get(), POLLIN, 0});
    // Where nobody is expected to speak it may sleep until somebody comes.
    poll(entries.data(), entries.size(), guests.empty() ? -1 : 1000);
    if (entries[0].revents)
      return;
    for (size_t i = guests.size(); i-- > 0;)
      if ((entries[2 + i].revents && !hear(guests[i])) ||
          hasPassed(guests[i].deadline))
        guests.erase(guests.begin() + int64_t(i));
    if (entries[1].revents)
      letIn(guests);
  }
}

void Listener::letIn(std::vector<Guest> &guests) {
  Socket guest(
      accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (guest) {
    setUpConnection(guest);
    guests.push_back(
        {std::move(guest), deadlineIn(greetingSeconds), Greeting()});
  } else if (errno != EAGAIN && errno != EINTR) {
    // No descriptor is left, say: not to be asked for all the time.
    usleep(10000);
  }
}

/// Whether more is to come of a greeting.
bool Listener::hear(Guest &guest) {
  char *at = reinterpret_cast<char *>(&guest.greeting) + guest.received;
  ssize_t size =
      recv(guest.socket.get(), at, sizeof guest.greeting - guest.received, 0);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR;
  guest.received += size_t(size);
  if (size > 0 && guest.received < sizeof guest.greeting)
    return true;
  if (size > 0 && guest.greeting.magic == own.magic &&
      guest.greeting.key == own.key && guest.greeting.to == own.to &&
      guest.greeting.from >= 0)
    answer(guest);
  return false;
}

void Listener::answer(Guest &guest) {
  // Said already by the one that greets.
  if (guest.greeting.purpose == Purpose::End)
    std::_Exit(1);
  std::lock_guard<std::mutex> lock(mutex);
  Reply reply;
  reply.key = own.key;
  reply.answer = judge(guest.greeting);
  // The first bytes of a connection: never more than it takes at once.
  bool isSent = sendAll(guest.socket, &reply, sizeof reply, Deadline());
  if (reply.answer != Answer::Welcome || !isSent)
    return;
  isKnown[size_t(guest.greeting.from)] = true;
  arrived[guest.greeting.from] = std::move(guest.socket);
}

Answer Listener::judge(const Greeting &greeting) {
  std::string found;
  if (greeting.ranks != own.ranks)
    found = "expected a job of " + std::to_string(own.ranks) + " ranks as on " +
            rankText(own.from) + ", found " + std::to_string(greeting.ranks);
  else if (isClosed)
    return Answer::Full;
  else if (greeting.from >= own.ranks || greeting.from == own.from ||
           isKnown[size_t(greeting.from)])
    found = "expected one process, found two";
  if (found.empty())
    return Answer::Welcome;
  if (isClosed)
    return Answer::Full;
  if (trouble.empty())
    trouble = rankText(greeting.from) + ": " + found;
  return Answer::Refused;
}

Reception mt::runtime::greet(const Endpoint &endpoint, const Greeting &greeting,
                             Deadline deadline,
                             const std::function<bool()> &isStale) {
  deadline = std::min(deadline, deadlineIn(greetingSeconds));
  std::vector<Socket> connecting = beginConnecting(endpoint);
  while (Socket socket = takeConnected(connecting, deadline)) {
    Reply reply;
    if (!sendAll(socket, &greeting, sizeof greeting, deadline))
      continue;
    while (!isReadable(socket, waitMilliseconds) && !hasPassed(deadline))
      if (isStale())
        return {Socket(), std::nullopt};
    if (receiveAll(socket, &reply, sizeof reply, deadline) &&
        reply.magic == greeting.magic && reply.key == greeting.key)
      return {std::move(socket), reply.answer};
  }
  return {Socket(), std::nullopt};
}
