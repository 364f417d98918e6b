//===- SocketTransportTest.cpp - messages by sockets ----------------------===//

#include "SocketRanks.h"
#include "Support.h"

#include <numeric>
#include <thread>

using namespace mt::runtime;

namespace {

/// Beyond what sockets keep on their way.
constexpr int64_t large = 40 << 20;

void await(SocketTransport &transport, Transport::Request request) {
  auto deadline = deadlineIn(20);
  while (!transport.isDone(request)) {
    if (hasPassed(deadline))
      throw Error("expected a message to be done, found it under way");
    std::this_thread::yield();
  }
}

std::vector<char> pattern(int64_t bytes, int64_t seed) {
  std::vector<char> result(static_cast<size_t>(bytes));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = char(i * 7 + i / 251 + size_t(seed));
  return result;
}

TEST(SocketTransport, DeliversLargeMessagesBothWaysAtOnce) {
  withSockets(3, [](SocketTransport &transport) {
    int64_t self = transport.rank();
    std::vector<std::vector<char>> to, from(3, std::vector<char>(large));
    std::vector<Transport::Request> requests;
    for (int64_t other = 0; other < 3; ++other)
      to.push_back(pattern(large, 10 * self + other));
    for (int64_t other = 0; other < 3; ++other)
      if (other != self) {
        requests.push_back(
            transport.send(other, Tag::Data, to[size_t(other)].data(), large));
        requests.push_back(transport.receive(
            other, Tag::Data, from[size_t(other)].data(), large));
      }
    for (Transport::Request request : requests)
      await(transport, request);
    for (int64_t other = 0; other < 3; ++other)
      if (other != self) {
        EXPECT_TRUE(from[size_t(other)] == pattern(large, 10 * other + self));
      }
    transport.finish();
  });
}

// Small messages overtake nothing, though large ones wait for their memory.
TEST(SocketTransport, KeepsTheOrderOfATag) {
  const std::vector<int64_t> sizes = {0,     5,       100000, 3, 65536, 65537,
                                      large, 1 << 20, 1,      0, 200000};
  withSockets(2, [&](SocketTransport &transport) {
    std::vector<std::vector<char>> messages;
    std::vector<Transport::Request> requests;
    for (size_t i = 0; i < sizes.size(); ++i)
      messages.push_back(pattern(sizes[i], int64_t(i)));
    if (transport.rank() == 0) {
      for (const std::vector<char> &message : messages)
        requests.push_back(transport.send(1, Tag::Data, message.data(),
                                          int64_t(message.size())));
      for (Transport::Request request : requests)
        await(transport, request);
    } else {
      // Some have come before they are awaited.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      transport.probe(0, Tag::Notice);
      std::vector<std::vector<char>> received;
      for (int64_t size : sizes)
        received.emplace_back(size_t(size), 'x');
      for (size_t i = 0; i < sizes.size(); ++i)
        requests.push_back(
            transport.receive(0, Tag::Data, received[i].data(), sizes[i]));
      for (Transport::Request request : requests)
        await(transport, request);
      EXPECT_TRUE(received == messages);
    }
    transport.finish();
  });
}

TEST(SocketTransport, NoticesPassDataThatNobodyTakes) {
  withSockets(2, [](SocketTransport &transport) {
    std::vector<char> data(large);
    std::string notice = "over";
    if (transport.rank() == 0) {
      transport.send(1, Tag::Data, data.data(), large);
      await(transport, transport.send(1, Tag::Notice, notice.data(), 4));
    } else {
      std::optional<Envelope> envelope;
      for (auto deadline = deadlineIn(20); !envelope && !hasPassed(deadline);)
        envelope = transport.probe(Transport::anyRank, Tag::Notice);
      ASSERT_TRUE(envelope);
      EXPECT_EQ(envelope->from, 0);
      EXPECT_EQ(envelope->bytes, 4);
      std::string text(4, ' ');
      await(transport, transport.receive(0, Tag::Notice, text.data(), 4));
      EXPECT_EQ(text, notice);
      EXPECT_FALSE(transport.probe(0, Tag::Notice));
    }
  });
}

TEST(SocketTransport, GathersFromAll) {
  withSockets(4, [](SocketTransport &transport) {
    int64_t mine = 100 + transport.rank();
    std::vector<int64_t> all(4);
    transport.allGather(&mine, all.data(), sizeof mine);
    EXPECT_EQ(all, (std::vector<int64_t>{100, 101, 102, 103}));
    transport.finish();
  });
}

TEST(SocketTransport, KnowsWhoHasGone) {
  withSockets(3, [](SocketTransport &transport) {
    if (transport.rank() == 1)
      return;
    auto deadline = deadlineIn(20);
    while (transport.isConnected(1) && !hasPassed(deadline))
      transport.probe(1, Tag::Call);
    EXPECT_FALSE(transport.isConnected(1));
    EXPECT_TRUE(transport.isConnected(transport.rank() == 0 ? 2 : 0));
    // Of one that has gone there are zeros, and nobody waits for it.
    int64_t mine = 7;
    std::vector<int64_t> all(3, -1);
    transport.allGather(&mine, all.data(), sizeof mine);
    EXPECT_EQ(all, (std::vector<int64_t>{7, 0, 7}));
    // Nor does a message to it do harm.
    transport.send(1, Tag::Call, &mine, sizeof mine);
    transport.finish();
  });
}

TEST(SocketTransport, LastMessagesAreNotLost) {
  withSockets(2, [](SocketTransport &transport) {
    std::vector<char> data = pattern(60000, 1), received(60000);
    if (transport.rank() == 0) {
      transport.send(1, Tag::Data, data.data(), 60000);
      transport.finish();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    await(transport, transport.receive(0, Tag::Data, received.data(), 60000));
    EXPECT_TRUE(received == data);
    transport.finish();
  });
}

TEST(SocketTransport, RefusesAMessageOfAnotherSize) {
  withSockets(2, [](SocketTransport &transport) {
    char bytes[8] = {};
    if (transport.rank() == 0) {
      await(transport, transport.send(1, Tag::Data, bytes, 8));
      return;
    }
    EXPECT_EQ(errorOf([&] {
                await(transport, transport.receive(0, Tag::Data, bytes, 4));
              }),
              "expected a message of 4 bytes from rank 0, found one of 8");
  });
}

} // namespace
