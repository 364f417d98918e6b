//===- StartedCalls.cpp - collectives beside the rank's own work ----------===//

#include "StartedCalls.h"

#include "Guarded.h"
#include "mt/error.h"

#include <system_error>
#include <vector>

using namespace mt::runtime;

namespace {

std::string nameOf(const Collective &call) {
  return std::string(kindName(call.kind)) + " " + std::to_string(call.id);
}

/// A call whose arrays of pointers may go once it has been started.
struct OwnedCall {
  explicit OwnedCall(const Collective &original)
      : inputs(original.inputs, original.inputs + original.tensors),
        outputs(original.outputs, original.outputs + original.tensors),
        call(original) {
    call.isStarted = true;
    call.inputs = inputs.data();
    call.outputs = outputs.data();
  }
  OwnedCall(const OwnedCall &) = delete;
  OwnedCall &operator=(const OwnedCall &) = delete;

  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  Collective call;
};

} // namespace

void Communicator::start(const Collective &call) {
  throw Error(nameOf(call) + ": expected a collective that the manifest says "
                             "is started, found none such in the manifest");
}

void Communicator::wait(int64_t id) {
  throw Error("mt_wait " + std::to_string(id) +
              ": expected a collective that has been started, found none of "
              "this id");
}

StartedCalls::StartedCalls(Communicator &inner)
    : ForwardingCommunicator(inner) {
  try {
    thread = std::thread([this] { work(); });
  } catch (const std::system_error &) {
    throw Error("expected a thread for started collectives, found that the "
                "system starts no more");
  }
}

StartedCalls::~StartedCalls() {
  try {
    checkWaited("its rank ends");
  } catch (const Error &error) {
    inner.fail(error.what());
  } catch (...) {
    // Reported by whoever failed.
  }
  endQueue();
  thread.join();
}

/// Throws where something that was started has not been waited for, and what
/// has ended the queue.
void StartedCalls::checkWaited(const char *place) {
  Lock lock(mutex);
  checkOver();
  if (!started.empty())
    throw Error(started.begin()->second.name + ": expected mt_wait before " +
                place + ", found none");
}

void StartedCalls::run(const Collective &call) {
  runNow([&] { inner.run(call); });
}

void StartedCalls::start(const Collective &call) {
  auto owned = std::make_shared<OwnedCall>(call);
  Lock lock(mutex);
  checkOver();
  if (started.count(call.id))
    throw Error(nameOf(call) +
                ": expected mt_wait before it is started again, found none");
  started[call.id] = {nameOf(call),
                      add(lock, [this, owned] { inner.run(owned->call); })};
}

void StartedCalls::wait(int64_t id) {
  Lock lock(mutex);
  checkOver();
  auto found = started.find(id);
  if (found == started.end())
    return Communicator::wait(id);
  std::shared_ptr<Task> task = std::move(found->second.task);
  started.erase(found);
  await(lock, *task);
}

void StartedCalls::barrier(const char *place, int64_t id, bool timed) {
  checkWaited(place);
  runNow([&] { inner.barrier(place, id, timed); });
}

void StartedCalls::collect(const char *place, int64_t id, const void *data,
                           int64_t bytes, const CollectFn &consume) {
  checkWaited(place);
  runNow([&] { inner.collect(place, id, data, bytes, consume); });
}

void StartedCalls::fail(const std::string &message) {
  // First, so that the thread does not come to another call.
  endQueue();
  inner.fail(message);
}

void StartedCalls::runNow(Action action) {
  Lock lock(mutex);
  checkOver();
  await(lock, *add(lock, std::move(action)));
}

std::shared_ptr<StartedCalls::Task> StartedCalls::add(Lock &, Action action) {
  auto task = std::make_shared<Task>();
  task->action = std::move(action);
  queue.push_back(task);
  forThread.notify_one();
  return task;
}

void StartedCalls::await(Lock &lock, const Task &task) {
  forRank.wait(lock, [&] { return task.isDone || isOver; });
  if (!task.isDone || failure)
    checkOver();
}

/// Throws what has ended the queue.
void StartedCalls::checkOver() const {
  if (failure)
    std::rethrow_exception(failure);
  if (isOver)
    throw JobEnded();
}

void StartedCalls::work() {
  Lock lock(mutex);
  while (true) {
    forThread.wait(lock, [&] { return isOver || !queue.empty(); });
    if (isOver)
      return;
    std::shared_ptr<Task> task = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    std::exception_ptr thrown = attempt(task->action);
    lock.lock();
    task->isDone = true;
    if (thrown) {
      failure = thrown;
      isOver = true;
      queue.clear();
    }
    forRank.notify_all();
  }
}

/// What `action` throws, which has ended the job then: the other ranks need not
/// wait until this one comes to its next call.
std::exception_ptr StartedCalls::attempt(const Action &action) {
  std::exception_ptr thrown;
  runGuarded(inner, [&](Communicator &) {
    try {
      action();
    } catch (...) {
      thrown = std::current_exception();
      throw;
    }
  });
  return thrown;
}

void StartedCalls::endQueue() {
  Lock lock(mutex);
  isOver = true;
  queue.clear();
  forThread.notify_all();
}
