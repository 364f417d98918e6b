//===- SocketTransport.cpp - messages by sockets --------------------------===//

#include "SocketTransport.h"

#include "Calls.h"
#include "mt/error.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

using namespace mt::runtime;

namespace {

/// Data of more bytes waits for its memory.
constexpr int64_t eagerBytes = 64 << 10;
/// How long an orderly job's ranks wait for each other to leave.
constexpr double leaveSeconds = 5;
/// How long a rank that ends the job tries to reach another one.
constexpr double endSeconds = 0.5;
/// Parts of messages that one connection hands over before the next one's turn.
constexpr int mostReads = 32;

} // namespace

SocketTransport::SocketTransport(Gathering all)
    : gathering(std::move(all)), peers(gathering.connections.size()) {
  for (size_t rank = 0; rank < peers.size(); ++rank)
    peers[rank].socket = std::move(gathering.connections[rank]);
}

Transport::Request SocketTransport::begin(Operation operation) {
  if (unused.empty()) {
    operations.push_back(operation);
    return Request(operations.size()) - 1;
  }
  Request request = unused.back();
  unused.pop_back();
  operations[size_t(request)] = operation;
  return request;
}

Transport::Request SocketTransport::send(int64_t to, Tag tag, const void *data,
                                         int64_t bytes) {
  Operation operation;
  operation.source = data;
  operation.bytes = bytes;
  Request request = begin(operation);
  auto bytesToSend = static_cast<const char *>(data);
  if (tag == Tag::Data && bytes > eagerBytes)
    peers[size_t(to)].outgoing.push_back(
        {{Kind::Offer, tag, bytes, request, -1}, nullptr, -1});
  else
    peers[size_t(to)].outgoing.push_back(
        {{Kind::Eager, tag, bytes, -1, -1}, bytesToSend, request});
  write(to);
  return request;
}

Transport::Request SocketTransport::receive(int64_t from, Tag tag, void *data,
                                            int64_t bytes) {
  Operation operation;
  operation.target = data;
  operation.bytes = bytes;
  Request request = begin(operation);
  channel(from, tag).receives.push_back(request);
  match(from, tag);
  return request;
}

bool SocketTransport::isDone(Request request) {
  if (!operations[size_t(request)].isDone)
    progress();
  if (!operations[size_t(request)].isDone)
    return false;
  unused.push_back(request);
  return true;
}

std::optional<Envelope> SocketTransport::probe(int64_t from, Tag tag) {
  progress();
  int64_t first = from == anyRank ? 0 : from;
  int64_t last = from == anyRank ? ranks() - 1 : from;
  for (int64_t rank = first; rank <= last; ++rank) {
    const std::deque<Arrival> &arrivals = channel(rank, tag).arrivals;
    if (!arrivals.empty() && arrivals.front().isWhole)
      return Envelope{rank, arrivals.front().frame.bytes};
  }
  return std::nullopt;
}

/// Of a rank that has ended there are zeros: it is missed by the next call.
void SocketTransport::allGather(const void *mine, void *all, int64_t bytes) {
  std::vector<Request> requests(peers.size(), -1);
  auto place = [&](int64_t rank) {
    return static_cast<char *>(all) + rank * bytes;
  };
  std::memset(all, 0, size_t(bytes * ranks()));
  std::memcpy(place(rank()), mine, size_t(bytes));
  for (int64_t other = 0; other < ranks(); ++other) {
    if (other == rank())
      continue;
    send(other, Tag::Call, mine, bytes);
    requests[size_t(other)] = receive(other, Tag::Call, place(other), bytes);
  }
  for (int64_t other = 0; other < ranks(); ++other)
    while (other != rank() && isConnected(other) &&
           !operations[size_t(requests[size_t(other)])].isDone)
      progress(/*timeoutMilliseconds=*/100);
}

/// Nobody's last message is lost: a connection is closed when both ends have
/// said all.
void SocketTransport::finish() {
  Deadline deadline = deadlineIn(leaveSeconds);
  auto isOver = [](const Peer &peer) { return !peer.socket; };
  auto isWritten = [](const Peer &peer) { return peer.outgoing.empty(); };
  while (!std::all_of(peers.begin(), peers.end(), isWritten) &&
         !hasPassed(deadline))
    progress(/*timeoutMilliseconds=*/100);
  for (Peer &peer : peers)
    if (peer.socket)
      shutdown(peer.socket.get(), SHUT_WR);
  while (!std::all_of(peers.begin(), peers.end(), isOver) &&
         !hasPassed(deadline))
    progress(/*timeoutMilliseconds=*/100);
}

void SocketTransport::abort() {
  for (int64_t other = 0; other < ranks(); ++other)
    if (other != rank())
      greet(gathering.endpoints[size_t(other)],
            {gathering.key, Purpose::End, rank(), other, ranks()},
            deadlineIn(endSeconds));
  std::_Exit(1);
}

/// Joins what has come from a rank with what is awaited from it.
void SocketTransport::match(int64_t rank, Tag tag) {
  Channel &queue = channel(rank, tag);
  while (!queue.arrivals.empty() && !queue.receives.empty()) {
    Arrival &arrival = queue.arrivals.front();
    Request request = queue.receives.front();
    Operation &receive = operations[size_t(request)];
    if (arrival.frame.bytes != receive.bytes)
      throw Error("expected a message of " + std::to_string(receive.bytes) +
                  " bytes from " + rankText(rank) + ", found one of " +
                  std::to_string(arrival.frame.bytes));
    if (arrival.frame.kind == Kind::Offer) {
      Frame accept = arrival.frame;
      accept.kind = Kind::Accept;
      accept.receiver = request;
      peers[size_t(rank)].outgoing.push_back({accept, nullptr, -1});
    } else if (arrival.isWhole) {
      std::copy(arrival.data.begin(), arrival.data.end(),
                static_cast<char *>(receive.target));
      receive.isDone = true;
    } else {
      break;
    }
    queue.arrivals.pop_front();
    queue.receives.pop_front();
  }
  write(rank);
}

void SocketTransport::progress(int timeoutMilliseconds) {
  std::vector<pollfd> entries;
  std::vector<int64_t> rankOf;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const Peer &peer = peers[size_t(rank)];
    if (!peer.socket)
      continue;
    short events = peer.outgoing.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({peer.socket.get(), events, 0});
    rankOf.push_back(rank);
  }
  if (poll(entries.data(), entries.size(), timeoutMilliseconds) <= 0)
    return;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents & POLLOUT)
      write(rankOf[i]);
    if (entries[i].revents & ~POLLOUT)
      read(rankOf[i]);
  }
}

void SocketTransport::end(int64_t rank) {
  peers[size_t(rank)].hasEnded = true;
  peers[size_t(rank)].socket.close();
  // Never done: whoever waits for them finds out that the rank has ended.
  peers[size_t(rank)].outgoing.clear();
}

/// Writes what the connection takes at once.
void SocketTransport::write(int64_t rank) {
  Peer &peer = peers[size_t(rank)];
  if (!peer.socket)
    peer.outgoing.clear();
  while (!peer.outgoing.empty()) {
    Outgoing &next = peer.outgoing.front();
    auto head = reinterpret_cast<char *>(&next.frame);
    size_t body = next.data ? size_t(next.frame.bytes) : 0;
    size_t ofHead = std::min(next.written, sizeof next.frame);
    size_t ofBody = next.written - ofHead;
    iovec parts[] = {{head + ofHead, sizeof next.frame - ofHead},
                     {const_cast<char *>(next.data) + ofBody, body - ofBody}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = body > 0 ? 2 : 1;
    ssize_t size = sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL);
    if (size < 0) {
      // What the other end has sent before it went is still to be read.
      if (errno == EPIPE || errno == ECONNRESET)
        peer.outgoing.clear();
      return;
    }
    next.written += size_t(size);
    if (next.written < sizeof next.frame + body)
      continue;
    if (next.request >= 0)
      operations[size_t(next.request)].isDone = true;
    peer.outgoing.pop_front();
  }
}

void SocketTransport::read(int64_t rank) {
  for (int i = 0; i < mostReads && readSome(rank); ++i)
    ;
}

/// Whether there may be more to read.
bool SocketTransport::readSome(int64_t rank) {
  Peer &peer = peers[size_t(rank)];
  if (!peer.socket)
    return false;
  bool isFrame = peer.frameRead < sizeof peer.frame;
  char *at = isFrame ? reinterpret_cast<char *>(&peer.frame) + peer.frameRead
                     : peer.target;
  size_t bytes =
      isFrame ? sizeof peer.frame - peer.frameRead : size_t(peer.targetLeft);
  ssize_t size = recv(peer.socket.get(), at, bytes, 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (size <= 0) {
    end(rank);
    return false;
  }
  if (isFrame) {
    peer.frameRead += size_t(size);
    if (peer.frameRead < sizeof peer.frame)
      return true;
    beginMessage(rank);
  } else {
    peer.target += size;
    peer.targetLeft -= size;
  }
  if (peer.targetLeft == 0)
    endMessage(rank);
  return true;
}

/// A request that another rank names.
SocketTransport::Operation &SocketTransport::operation(Request request,
                                                       int64_t from) {
  if (request < 0 || request >= int64_t(operations.size()))
    throw Error("expected a message of the job from " + rankText(from) +
                ", found another");
  return operations[size_t(request)];
}

/// A frame has been read: finds the place of what follows it.
void SocketTransport::beginMessage(int64_t rank) {
  Peer &peer = peers[size_t(rank)];
  const Frame &frame = peer.frame;
  peer.targetLeft = 0;
  bool isKnown = frame.tag == Tag::Call || frame.tag == Tag::Data ||
                 frame.tag == Tag::Notice;
  if (!isKnown || frame.bytes < 0)
    throw Error("expected a message of the job from " + rankText(rank) +
                ", found another");
  if (frame.kind == Kind::Payload) {
    peer.target = static_cast<char *>(operation(frame.receiver, rank).target);
    peer.targetLeft = frame.bytes;
  } else if (frame.kind == Kind::Eager) {
    Channel &queue = channel(rank, frame.tag);
    queue.arrivals.push_back({frame, std::vector<char>(size_t(frame.bytes))});
    peer.target = queue.arrivals.back().data.data();
    peer.targetLeft = frame.bytes;
  }
}

void SocketTransport::endMessage(int64_t rank) {
  Peer &peer = peers[size_t(rank)];
  const Frame frame = peer.frame;
  peer.frameRead = 0;
  switch (frame.kind) {
  case Kind::Eager:
    channel(rank, frame.tag).arrivals.back().isWhole = true;
    return match(rank, frame.tag);
  case Kind::Offer:
    channel(rank, frame.tag).arrivals.push_back({frame, {}});
    return match(rank, frame.tag);
  case Kind::Accept: {
    auto data = static_cast<const char *>(operation(frame.sender, rank).source);
    Frame payload = frame;
    payload.kind = Kind::Payload;
    peer.outgoing.push_back({payload, data, frame.sender});
    return write(rank);
  }
  case Kind::Payload:
    operation(frame.receiver, rank).isDone = true;
    return;
  }
  throw Error("expected a message of the job from " + rankText(rank) +
              ", found another");
}
