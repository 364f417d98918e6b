//===- StartedCalls.h - collectives beside the rank's own work --*- C++ -*-===//
//
// A rank that starts collectives has a second thread, which makes all its
// calls, one after another in the order in which the rank asks for them:
//
//   the rank     start A | compute ........ | run B ...... | wait for A | ...
//   its thread           | A ............ | | B .......... |
//
// There is one order for all groups, so two ranks whose programs make the same
// calls cannot wait for each other in two groups, and what a backend finds
// (calls that differ, members that do not come) it finds as it would without
// the thread.
//
//   * A call that is not started, a barrier and a collect return when they are
//     done, so after all that was started before.
//   * What a call throws ends the job at once, and is thrown at the rank by its
//     next call or wait. Nothing behind it in the queue is begun.
//   * fail() takes the thread out of its call and ends the queue.
//   * All that was started is waited for before the driver's next barrier or
//     collect, and before destruction, unless the job fails; else that ends the
//     job. Destruction waits for the thread, which has left its call then:
//     afterwards nothing uses the memory of any call.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_STARTEDCALLS_H
#define MT_RUNTIME_COMM_STARTEDCALLS_H

#include "ForwardingCommunicator.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace mt::runtime {

class StartedCalls : public ForwardingCommunicator {
public:
  /// `inner` knows nothing of started calls.
  explicit StartedCalls(Communicator &inner);
  ~StartedCalls() override;

  void run(const Collective &call) override;
  void start(const Collective &call) override;
  void wait(int64_t id) override;
  void barrier(const char *place, int64_t id, bool timed) override;
  void collect(const char *place, int64_t id, const void *data, int64_t bytes,
               const CollectFn &consume) override;
  void fail(const std::string &message) override;

private:
  using Lock = std::unique_lock<std::mutex>;
  using Action = std::function<void()>;

  struct Task {
    Action action;
    bool isDone = false;
  };
  struct Started {
    /// `all_reduce 3`, for messages.
    std::string name;
    std::shared_ptr<Task> task;
  };

  std::shared_ptr<Task> add(Lock &lock, Action action);
  void await(Lock &lock, const Task &task);
  void runNow(Action action);
  void checkWaited(const char *place);
  void checkOver() const;
  void work();
  std::exception_ptr attempt(const Action &action);
  void endQueue();

  std::mutex mutex;
  std::condition_variable forThread, forRank;
  std::deque<std::shared_ptr<Task>> queue;
  /// Those that have not been waited for, by id.
  std::map<int64_t, Started> started;
  /// Nothing is taken from the queue any more.
  bool isOver = false;
  /// What a call has thrown.
  std::exception_ptr failure;
  std::thread thread;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_STARTEDCALLS_H
