//===- MemoryTransport.cpp - messages between threads ---------------------===//

#include "MemoryTransport.h"

#include "comm/Guarded.h"
#include "mt/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

using namespace mt::runtime;

std::deque<Mailboxes::Message>::iterator MemoryTransport::find(int64_t from,
                                                               Tag tag) {
  auto &box = boxes.of[size_t(self)];
  return std::find_if(box.begin(), box.end(), [&](const auto &message) {
    return (from == anyRank || message.from == from) && message.tag == tag;
  });
}

Transport::Request MemoryTransport::send(int64_t to, Tag tag, const void *data,
                                         int64_t bytes) {
  const char *begin = static_cast<const char *>(data);
  std::lock_guard<std::mutex> lock(boxes.mutex);
  boxes.of[size_t(to)].push_back({self, tag, {begin, begin + bytes}});
  if (tag == Tag::Data)
    dataBytes += bytes;
  return -1;
}

Transport::Request MemoryTransport::receive(int64_t from, Tag tag, void *data,
                                            int64_t bytes) {
  receives.push_back({from, tag, data, bytes});
  return Request(receives.size()) - 1;
}

bool MemoryTransport::isDone(Request request) {
  if (request < 0)
    return true;
  const Receive &receive = receives[size_t(request)];
  std::lock_guard<std::mutex> lock(boxes.mutex);
  auto found = find(receive.from, receive.tag);
  if (found == boxes.of[size_t(self)].end())
    return false;
  EXPECT_EQ(int64_t(found->data.size()), receive.bytes);
  std::copy(found->data.begin(), found->data.end(),
            static_cast<char *>(receive.data));
  boxes.of[size_t(self)].erase(found);
  return true;
}

std::optional<Envelope> MemoryTransport::probe(int64_t from, Tag tag) {
  std::lock_guard<std::mutex> lock(boxes.mutex);
  auto found = find(from, tag);
  if (found == boxes.of[size_t(self)].end())
    return std::nullopt;
  return Envelope{found->from, int64_t(found->data.size())};
}

void MemoryTransport::allGather(const void *mine, void *all, int64_t bytes) {
  for (int64_t to = 0; to < ranks(); ++to)
    send(to, Tag::Call, mine, bytes);
  for (int64_t from = 0; from < ranks(); ++from) {
    Request request = receive(from, Tag::Call,
                              static_cast<char *>(all) + from * bytes, bytes);
    while (!isDone(request))
      std::this_thread::yield();
  }
}

std::string mt::runtime::runOverMessages(
    const Mesh &mesh, const std::vector<AxisList> &groups,
    std::vector<std::string> names, double timeoutSeconds,
    int64_t bytesInFlight, std::function<void(Communicator &)> body,
    std::vector<int64_t> *sent) {
  int64_t ranks = mesh.ranks();
  Mailboxes boxes(ranks);
  std::vector<std::string> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  if (sent)
    sent->resize(size_t(ranks));
  auto runRank = [&](int64_t rank) {
    MemoryTransport transport(boxes, rank);
    ProcessCommunicator communicator(transport, timeoutSeconds);
    communicator.setBytesInFlight(bytesInFlight);
    communicator.setGroups(mesh, groups, names);
    runGuarded(communicator, [&](Communicator &) {
      body(communicator);
      // Whoever is done hears of a failure here.
      communicator.barrier("the end", -1, /*timed=*/false);
    });
    failures[size_t(rank)] = communicator.failure();
    if (sent)
      (*sent)[size_t(rank)] += transport.dataBytes;
  };
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back(runRank, rank);
  for (std::thread &thread : threads)
    thread.join();
  // All know of a failure, or none.
  for (const std::string &failure : failures)
    EXPECT_EQ(failure.empty(), failures[0].empty());
  return failures[0];
}
