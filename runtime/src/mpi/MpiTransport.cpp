//===- MpiTransport.cpp - messages by MPI ---------------------------------===//
//
// A library of its own, opened where a launcher is found: nothing else of mt
// needs MPI. Only non-blocking calls while the job runs, so that a rank that
// waits can still find out that the job is over.
//
//===----------------------------------------------------------------------===//

#include "../comm/Launch.h"
#include "mt/error.h"

#include <vector>

#include <mpi.h>

using namespace mt::runtime;

namespace {

void check(int result, const char *what) {
  if (result == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(std::string(what) + ": expected MPI to succeed, found: " + text);
}

class MpiTransport : public Transport {
public:
  MpiTransport() {
    int rank = 0, ranks = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads),
          "MPI_Init_thread");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    self = rank;
    count = ranks;
  }

  int64_t rank() const override { return self; }
  int64_t ranks() const override { return count; }
  bool maySwitchThreads() const override {
    return threads >= MPI_THREAD_SERIALIZED;
  }

  Request send(int64_t to, Tag tag, const void *data, int64_t bytes) override {
    Request slot = freeSlot();
    check(MPI_Isend(data, int(bytes), MPI_BYTE, int(to), int(tag), world,
                    &requests[size_t(slot)]),
          "MPI_Isend");
    return slot;
  }

  Request receive(int64_t from, Tag tag, void *data, int64_t bytes) override {
    Request slot = freeSlot();
    check(MPI_Irecv(data, int(bytes), MPI_BYTE, int(from), int(tag), world,
                    &requests[size_t(slot)]),
          "MPI_Irecv");
    return slot;
  }

  bool isDone(Request request) override {
    int done = 0;
    check(MPI_Test(&requests[size_t(request)], &done, MPI_STATUS_IGNORE),
          "MPI_Test");
    if (done)
      unused.push_back(request);
    return done != 0;
  }

  std::optional<Envelope> probe(int64_t from, Tag tag) override {
    int found = 0, bytes = 0;
    MPI_Status status;
    check(MPI_Iprobe(from == anyRank ? MPI_ANY_SOURCE : int(from), int(tag),
                     world, &found, &status),
          "MPI_Iprobe");
    if (!found)
      return std::nullopt;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return Envelope{status.MPI_SOURCE, bytes};
  }

  void allGather(const void *mine, void *all, int64_t bytes) override {
    check(MPI_Allgather(mine, int(bytes), MPI_BYTE, all, int(bytes), MPI_BYTE,
                        world),
          "MPI_Allgather");
  }

  void finish() override {
    MPI_Comm_free(&world);
    MPI_Finalize();
  }
  void abort() override { MPI_Abort(MPI_COMM_WORLD, 1); }

private:
  Request freeSlot() {
    if (unused.empty()) {
      requests.push_back(MPI_REQUEST_NULL);
      return Request(requests.size()) - 1;
    }
    Request slot = unused.back();
    unused.pop_back();
    return slot;
  }

  MPI_Comm world = MPI_COMM_NULL;
  int64_t self = 0, count = 0;
  /// What MPI allows threads.
  int threads = 0;
  /// By number; those in `unused` are done.
  std::vector<MPI_Request> requests;
  std::vector<Request> unused;
};

} // namespace

extern "C" Transport *mt_open_mpi_transport() { return new MpiTransport; }
