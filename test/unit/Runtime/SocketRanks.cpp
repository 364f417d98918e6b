//===- SocketRanks.cpp - threads that meet by a file ----------------------===//

#include "SocketRanks.h"

#include "Support.h"
#include "comm/Guarded.h"
#include "comm/ProcessCommunicator.h"

#include <thread>

using namespace mt::runtime;

void mt::runtime::withSockets(
    int64_t ranks, const std::function<void(SocketTransport &)> &body) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::string failure = errorOf([&] {
        SocketTransport transport(gather(folder.path("meet"), rank, ranks, 30));
        body(transport);
      });
      EXPECT_EQ(failure, "") << "rank " << rank;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(folder.files(), 0u);
}

std::string mt::runtime::runOverSockets(
    const Mesh &mesh, const std::vector<AxisList> &groups,
    const std::function<void(Communicator &)> &body, double timeoutSeconds) {
  std::vector<std::string> failures(size_t(mesh.ranks()));
  withSockets(mesh.ranks(), [&](SocketTransport &transport) {
    ProcessCommunicator communicator(transport, timeoutSeconds);
    communicator.setGroups(mesh, groups, {});
    runGuarded(communicator, [&](Communicator &) {
      body(communicator);
      // Whoever is done hears of a failure here.
      communicator.barrier("the end", -1, /*timed=*/false);
    });
    failures[size_t(transport.rank())] = communicator.failure();
    transport.finish();
  });
  // All know of a failure, or none.
  for (const std::string &failure : failures)
    EXPECT_EQ(failure.empty(), failures[0].empty());
  return failures[0];
}
