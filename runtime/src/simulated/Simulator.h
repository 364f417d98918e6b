//===- Simulator.h - devices made of host memory ----------------*- C++ -*-===//
//
// What is queued on a stream runs when somebody waits for it, or by chance, and
// in any order that streams, events and collectives allow:
//
//   stream 1   copy | kernel | record e | kernel
//   stream 2   wait e | all_reduce | memset          one of the heads that may
//   stream 3   all_reduce | copy                     run is drawn, and runs
//   whole
//
// A captured graph is a list of the same operations on streams of its own,
// which a launch queues there anew. So there is one kind of order, and one
// check of races (Memory.h), for all of it.
//
// The environment is read by cuInit, which begins anew where no context is
// left:
//
//   MT_SIMULATED_DEVICES     number of devices (16)
//   MT_SIMULATED_MEMORY      bytes of each (2 GiB)
//   MT_SIMULATED_SEED        of the order (0)
//   MT_SIMULATED_THREADS     of the host (one a processor, 8 at most)
//   MT_SIMULATED_SHARED      0: not to look for races in shared memory
//   MT_SIMULATED_DROP_WAIT   this wait of the first device, from 0, is none
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_SIMULATOR_H
#define MT_RUNTIME_SIMULATED_SIMULATOR_H

#include "../cuda/Types.h"
#include "../host/ThreadPool.h"
#include "Kernels.h"
#include "mt/device.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <set>

namespace mt::simulated {

using namespace mt::runtime::cuda;

struct Capture;
struct NcclWork;

/// One call of cuEventRecord.
struct Recording {
  bool isDone = false;
  /// By the device's clock, which is the host's.
  std::chrono::steady_clock::time_point time;
  Clock clock;
  /// Null: not captured.
  Capture *capture = nullptr;
};

struct Operation {
  enum Kind { Work, Record, Wait, Nccl } kind = Work;
  std::string name;
  /// What it uses as a whole, and what it does.
  std::vector<Range> reads, writes;
  std::function<void()> run;
  std::shared_ptr<Recording> recording;
  std::shared_ptr<NcclWork> nccl;
  /// What the host knew to be over when it was queued.
  Clock host;
};

struct Stream {
  uint32_t number = 0;
  int device = 0;
  std::deque<Operation> queue;
  Clock clock;
  Capture *capture = nullptr;
};

struct Event {
  bool isTimed = false;
  std::shared_ptr<Recording> last;
};

struct Graph {
  struct Node {
    size_t lane;
    Operation operation;
  };
  std::vector<Node> nodes;
  size_t lanes = 0;
};

/// A graph under construction. Its first lane is the stream that began.
struct Capture {
  Graph graph;
  std::vector<Stream *> lanes;
  /// What each lane comes behind, to find streams that do not come back.
  std::vector<Clock> clocks;

  size_t laneOf(const Stream *stream) const;
};

struct GraphInstance {
  Graph graph;
  std::vector<std::unique_ptr<Stream>> lanes;
};

/// Memory that is known to a communicator of NCCL's.
struct Registration {
  const void *communicator;
  Range range;
};

struct Module {
  std::map<std::string, Function> functions;
};

class Simulator {
public:
  using Lock = std::unique_lock<std::mutex>;

  void initialize();
  /// Queues an operation, or adds it to the graph that the stream captures.
  void enqueue(Stream &stream, Operation operation);
  void record(Event &event, Stream &stream);
  CUresult wait(Stream &stream, const Event &event);
  /// Runs operations until `isOver`.
  void runUntil(Lock &lock, const std::function<bool()> &isOver);
  /// Runs some operations, or none.
  void runSome(int most);
  /// The host has seen that all before `clock` is over.
  void joinHost(const Clock &clock) { host.join(clock); }

  CUresult beginCapture(Stream &stream);
  CUresult endCapture(Stream &stream, Graph *&graph);
  std::unique_ptr<GraphInstance> instantiate(const Graph &graph);
  void launch(GraphInstance &instance, Stream &stream);

  void runKernel(Launch launch);

  std::unique_ptr<Stream> makeStream();
  /// Nobody holds the stream any more: what is queued there still runs.
  void release(std::unique_ptr<Stream> stream);
  /// Frees memory: of the driver's, or of NCCL's.
  CUresult freeMemory(CUdeviceptr address, bool isNccls);
  void fail(const std::string &text);
  bool hasFailed() const { return !memory.problem.empty(); }

  std::mutex mutex;
  std::condition_variable changed;
  Memory memory;
  /// What work is shared among.
  std::unique_ptr<runtime::ThreadPool> pool;
  int devices = 0;
  size_t memoryBytes = 0;
  int64_t contexts = 0;
  std::mt19937_64 random;
  std::set<Stream *> streams;
  /// By handle.
  std::map<uintptr_t, Registration> registrations;

private:
  void push(Stream &stream, Operation operation);
  bool mayRun(const Stream &stream) const;
  bool runOne();
  void execute(Stream &stream);
  void executeNccl(const std::shared_ptr<NcclWork> &work);
  /// Lets memory see an operation, before it runs.
  bool use(const Operation &operation, Stream &stream);

  Clock host;
  uint32_t streamCount = 0;
  std::vector<std::unique_ptr<Stream>> orphans;
  int64_t waitCount = 0, droppedWait = -1;
  Kernels kernels{memory};
};

Simulator &simulator();

inline Stream &streamOf(CUstream stream) {
  return *reinterpret_cast<Stream *>(stream);
}

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_SIMULATOR_H
