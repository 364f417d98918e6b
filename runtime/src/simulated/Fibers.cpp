//===- Fibers.cpp - the threads of a block, on one of the host's ----------===//

#include "Fibers.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <sys/mman.h>

// Elsewhere the system's own way to switch, which takes longer: it calls the
// kernel for the mask of signals.
#if defined(__x86_64__) && !defined(MT_SIMULATED_UCONTEXT)
#define MT_SWITCHES_BY_HAND 1
#else
#define MT_SWITCHES_BY_HAND 0
#include <ucontext.h>
#endif

using namespace mt::simulated;

//===----------------------------------------------------------------------===//
// Switching stacks
//===----------------------------------------------------------------------===//

namespace {

constexpr size_t stackBytes = 64 << 10;

#if MT_SWITCHES_BY_HAND

/// Where a stack was left: its pointer, what must be kept lies on it.
using Context = void *;

#else

using Context = ucontext_t;

#endif

} // namespace

#if MT_SWITCHES_BY_HAND

/// Leaves this stack, remembered in `*from`, for the one left at `to`.
extern "C" void mtSwitchStack(void **from, void *to);

asm(R"(
  .text
  .local mtSwitchStack
  .type mtSwitchStack, @function
mtSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size mtSwitchStack, .-mtSwitchStack
)");

#endif

namespace {

void switchTo(Context &from, Context &to) {
#if MT_SWITCHES_BY_HAND
  mtSwitchStack(&from, to);
#else
  swapcontext(&from, &to);
#endif
}

class Stack {
public:
  Stack()
      : memory(static_cast<char *>(
            mmap(nullptr, stackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (memory == MAP_FAILED)
      throw std::bad_alloc();
  }
  ~Stack() { munmap(memory, stackBytes); }
  Stack(const Stack &) = delete;
  Stack &operator=(const Stack &) = delete;

  /// Lets `context` begin with `body`, which must not return.
  void prepare(Context &context, void (*body)()) {
#if MT_SWITCHES_BY_HAND
    // As a call leaves it: below an address at a multiple of 16.
    auto top = reinterpret_cast<void **>(memory + stackBytes) - 2;
    *top = reinterpret_cast<void *>(body);
    context = top - 6;
    std::fill_n(static_cast<void **>(context), 6, nullptr);
#else
    getcontext(&context);
    context.uc_stack.ss_sp = memory;
    context.uc_stack.ss_size = stackBytes;
    makecontext(&context, body, 0);
#endif
  }

private:
  char *memory;
};

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

enum class State { New, Ready, AtBarrier, AtWarpBarrier, AtShuffle, Done };

struct Thread {
  // First: a twin's thread is one of these.
  mt_twin_thread twin;
  State state = State::New;
  int32_t value = 0, distance = 0;
  Context context{};
  Stack *stack = nullptr;
};

class Block {
public:
  Block(mt_twin function, void **arguments, const AccessFn &access,
        std::vector<std::unique_ptr<Stack>> &pool)
      : function(function), arguments(arguments), access(access), pool(pool) {}

  std::string run(int64_t block, int64_t count, void *shared, bool backwards);

private:
  static Thread &threadOf(mt_twin_thread *thread) {
    return *reinterpret_cast<Thread *>(thread);
  }
  static void leave(mt_twin_thread *thread, State state);
  static void body();
  void resume(Thread &thread);
  bool runWarp(size_t first, size_t last, bool backwards);
  bool areAll(size_t first, size_t last, State state) const;
  void shuffle(size_t first, size_t last);
  std::string describeStuck(int64_t block) const;
  Stack *takeStack();

  mt_twin function;
  void **arguments;
  const AccessFn &access;
  std::vector<std::unique_ptr<Stack>> &pool;
  std::vector<Stack *> freeStacks;
  size_t stacksUsed = 0;
  std::vector<Thread> threads;
  Context scheduler{};
  Thread *running = nullptr;
  bool isAbandoned = false;
};

/// The block that runs on this thread of the host.
thread_local Block *current = nullptr;

void Block::leave(mt_twin_thread *thread, State state) {
  threadOf(thread).state = state;
  switchTo(threadOf(thread).context, current->scheduler);
}

/// The bottom of every stack.
void Block::body() {
  while (true) {
    Thread &thread = *current->running;
    current->function(&thread.twin, current->arguments);
    leave(&thread.twin, State::Done);
  }
}

Stack *Block::takeStack() {
  if (!freeStacks.empty()) {
    Stack *stack = freeStacks.back();
    freeStacks.pop_back();
    return stack;
  }
  if (stacksUsed == pool.size())
    pool.push_back(std::make_unique<Stack>());
  return pool[stacksUsed++].get();
}

void Block::resume(Thread &thread) {
  if (thread.state == State::New) {
    thread.stack = takeStack();
    thread.stack->prepare(thread.context, body);
  }
  thread.state = State::Ready;
  running = &thread;
  switchTo(scheduler, thread.context);
  if (thread.state == State::Done)
    freeStacks.push_back(thread.stack);
}

bool Block::areAll(size_t first, size_t last, State state) const {
  return std::all_of(threads.begin() + long(first),
                     threads.begin() + long(last),
                     [&](const Thread &t) { return t.state == state; });
}

void Block::shuffle(size_t first, size_t last) {
  std::vector<int32_t> values;
  for (size_t i = first; i < last; ++i)
    values.push_back(threads[i].value);
  for (size_t i = first; i < last; ++i) {
    size_t from = (i - first) ^ size_t(threads[i].distance);
    threads[i].value = values[from < values.size() ? from : i - first];
  }
}

/// Runs a warp until its threads wait for others of the block, or are done.
/// False: they will never go on.
bool Block::runWarp(size_t first, size_t last, bool backwards) {
  while (true) {
    for (size_t k = first; k < last && !isAbandoned; ++k) {
      Thread &thread = threads[backwards ? last - 1 - (k - first) : k];
      if (thread.state == State::New || thread.state == State::Ready)
        resume(thread);
    }
    if (isAbandoned)
      return false;
    if (areAll(first, last, State::AtShuffle))
      shuffle(first, last);
    else if (!areAll(first, last, State::AtWarpBarrier))
      break;
    for (size_t i = first; i < last; ++i)
      threads[i].state = State::Ready;
  }
  return std::none_of(threads.begin() + long(first),
                      threads.begin() + long(last), [](const Thread &t) {
                        return t.state == State::AtShuffle ||
                               t.state == State::AtWarpBarrier;
                      });
}

std::string Block::describeStuck(int64_t block) const {
  auto count = [&](State state) {
    return std::to_string(
        std::count_if(threads.begin(), threads.end(),
                      [&](const Thread &t) { return t.state == state; }));
  };
  return "expected all threads of block " + std::to_string(block) +
         " at one barrier, found " + count(State::AtBarrier) + " there, " +
         count(State::AtWarpBarrier) + " at a barrier of their warp, " +
         count(State::AtShuffle) + " at a shuffle, " + count(State::Done) +
         " at their end";
}

std::string Block::run(int64_t block, int64_t count, void *shared,
                       bool backwards) {
  threads.resize(size_t(count));
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].state = State::New;
    threads[i].twin = {
        int64_t(i),
        block,
        shared,
        [](mt_twin_thread *t) { leave(t, State::AtBarrier); },
        [](mt_twin_thread *t) { leave(t, State::AtWarpBarrier); },
        [](mt_twin_thread *t, int32_t value, int32_t distance) {
          threadOf(t).value = value;
          threadOf(t).distance = distance;
          leave(t, State::AtShuffle);
          return threadOf(t).value;
        },
        [](mt_twin_thread *t, const void *address, int64_t bytes,
           int32_t isWrite) {
          if (current->access(address, bytes, isWrite != 0))
            return;
          // Never comes back: its stack is forgotten.
          current->isAbandoned = true;
          leave(t, State::Done);
        }};
  }
  while (true) {
    for (size_t first = 0; first < threads.size(); first += MT_WARP_SIZE)
      if (!runWarp(first, std::min(threads.size(), first + MT_WARP_SIZE),
                   backwards))
        return isAbandoned ? "" : describeStuck(block);
    if (areAll(0, threads.size(), State::Done))
      return "";
    if (!areAll(0, threads.size(), State::AtBarrier))
      return describeStuck(block);
    for (Thread &thread : threads)
      thread.state = State::Ready;
  }
}

} // namespace

std::string mt::simulated::runBlock(mt_twin function, void **arguments,
                                    int64_t block, int64_t threads,
                                    void *shared, bool backwards,
                                    const AccessFn &access) {
  static thread_local std::vector<std::unique_ptr<Stack>> pool;
  Block running(function, arguments, access, pool);
  current = &running;
  std::string problem = running.run(block, threads, shared, backwards);
  current = nullptr;
  return problem;
}
