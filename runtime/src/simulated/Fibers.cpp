//===- Fibers.cpp - the threads of a block, on one of the host's ----------===//

#include "Fibers.h"

#include "TensorCores.h"

#include <algorithm>
#include <new>
#include <utility>
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

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

using namespace mt::simulated;

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

namespace {

/// Where a thread may stop.
enum Place { Barrier, WarpBarrier, Shuffle, Product, End };

#if MT_SWITCHES_BY_HAND

/// Where a stack was left: its pointer, what must be kept lies on it.
using Context = void *;

#else

using Context = ucontext_t;

#endif

struct Thread;

struct Warp {
  /// What its threads bring to a shuffle, and to the one before: some have not
  /// fetched that yet when the first comes to the next.
  int32_t values[2][MT_WARP_SIZE];
  /// One of the two.
  int32_t *current;
  uint32_t count;
  /// How many threads have stopped where.
  uint32_t stopped[End + 1];
  /// What its threads bring to a product.
  Fragments fragments[MT_WARP_SIZE];
  Thread *first, *last;
  Context firstContext;
};

/// What the threads of a block have in common.
struct Common {
  BlockTask task;
  SharedLog *shared;
  /// A thread was not allowed to go on.
  bool isAbandoned;
};

constexpr size_t lineBytes = 64;

struct alignas(lineBytes) Thread {
  // First: a twin's thread is one of these.
  mt_twin_thread twin;
  const int32_t *result;
  AccessLog *log;
  /// Where this thread's context is: with who goes on to it, so that a switch
  /// need not look for it.
  Context *place;
  Thread *next;
  Warp *warp;
  Common *common;
  uint32_t lane;
  bool isNew;
  int64_t barriers;
  Context nextContext;
};

static_assert(offsetof(Thread, result) == 72, "mtSwitchStack knows it");

Thread &threadOf(mt_twin_thread *thread) {
  return *reinterpret_cast<Thread *>(thread);
}

} // namespace

//===----------------------------------------------------------------------===//
// Switching stacks
//===----------------------------------------------------------------------===//

#if MT_SWITCHES_BY_HAND

/// Leaves this stack, remembered in `*place`, for `thread`'s, left at
/// `context`. Returns there what that thread's `result` points to; a stack that
/// begins does so with a function, which gets `thread`.
///
/// The control words of SSE and x87 are a callee's to keep too. No twin changes
/// them, and all stacks of a runner are of one thread of the host: they are
/// what they were.
extern "C" int32_t mtSwitchStack(Thread *thread, void **place, void *context);

// Not a return, which processors expect to go to the last call: that was where
// this thread stops, and the next one is still where this one stopped before. A
// jump they expect to go where the last one went.
asm(R"(
  .text
  .local mtSwitchStack
  .type mtSwitchStack, @function
  .p2align 6
mtSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rsi)
  movq %rdx, %rsp
  movq 72(%rdi), %rax
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  movl (%rax), %eax
  popq %rcx
  jmpq *%rcx
  .size mtSwitchStack, .-mtSwitchStack
)");

#endif

namespace {

/// Goes on with the next thread. Returns what this one's `result` points to
/// when it is its turn again.
int32_t switchToNext(Thread &thread) {
#if MT_SWITCHES_BY_HAND
  return mtSwitchStack(thread.next, thread.place, thread.nextContext);
#else
  swapcontext(thread.place, &thread.nextContext);
  return *thread.result;
#endif
}

/// The bottom of every stack: runs a thread, and those that have not begun when
/// it is at its end.
void runThreads(Thread *thread) {
  while (true) {
    thread->isNew = false;
    const BlockTask &task = thread->common->task;
    task.function(&thread->twin, task.arguments);
    ++thread->warp->stopped[End];
    if (!thread->next->isNew)
      switchToNext(*thread);
    thread = thread->next;
  }
}

/// The stacks of a block's threads, side by side in large pages.
class Stacks {
public:
  Stacks()
      : start(mmap(nullptr, allBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (start == MAP_FAILED)
      throw std::bad_alloc();
    auto address = (reinterpret_cast<uintptr_t>(start) + largePage - 1) /
                   largePage * largePage;
    memory = reinterpret_cast<char *>(address);
#ifdef MADV_HUGEPAGE
    madvise(memory, mostThreads * stackBytes, MADV_HUGEPAGE);
#endif
  }
  ~Stacks() { munmap(start, allBytes); }
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  /// Lets the thread begin on a stack of its own.
  void prepare(Thread &thread, size_t number) {
    thread.isNew = true;
    char *bottom = memory + number * stackBytes;
    // Stacks in use at once are not all at the same place of a cache.
    size_t bytes = stackBytes - number * 5 % 64 * lineBytes;
#if MT_SWITCHES_BY_HAND
    // As a call leaves it: below an address at a multiple of 16.
    auto top = reinterpret_cast<void **>(bottom + bytes) - 2;
    *top = reinterpret_cast<void *>(runThreads);
    std::fill_n(top - 6, 6, nullptr);
    *thread.place = top - 6;
#else
    ucontext_t &context = *thread.place;
    getcontext(&context);
    context.uc_stack.ss_sp = bottom;
    context.uc_stack.ss_size = bytes;
    auto address = reinterpret_cast<uintptr_t>(&thread);
    makecontext(&context, reinterpret_cast<void (*)()>(runHalves), 2,
                unsigned(address >> 32), unsigned(address));
#endif
  }
  /// Marks the ends of the first `count` stacks.
  void mark(size_t count) {
    for (; marked < count; ++marked)
      end(marked) = untouched;
  }
  /// Whether the stack was too small, and marks it anew.
  bool hasOverflowed(size_t number) {
    return std::exchange(end(number), untouched) != untouched;
  }
  /// Forgets the calls that are on them.
  void abandon() {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(memory, mostThreads * stackBytes);
#endif
  }

  static constexpr size_t mostThreads = 1024;
  static constexpr size_t stackBytes = 32 << 10;

private:
#if !MT_SWITCHES_BY_HAND
  // makecontext passes integers on.
  static void runHalves(unsigned high, unsigned low) {
    runThreads(
        reinterpret_cast<Thread *>(uintptr_t(uint64_t(high) << 32 | low)));
  }
#endif

  uint64_t &end(size_t number) {
    return *reinterpret_cast<uint64_t *>(memory + number * stackBytes);
  }

  static constexpr size_t largePage = 2 << 20;
  static constexpr size_t allBytes = mostThreads * stackBytes + largePage;
  static constexpr uint64_t untouched = 0x5a5a5a5a5a5a5a5a;

  void *start;
  char *memory;
  size_t marked = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

class BlockRunner::Implementation {
public:
  std::string run(const BlockTask &task, int64_t block, void *shared,
                  AccessLog &log);
  /// Barriers that the first thread has come to.
  int64_t barriers() const { return threads.empty() ? 0 : threads[0].barriers; }

private:
  static void stop(mt_twin_thread *twin, Place place) {
    Thread &thread = threadOf(twin);
    ++thread.warp->stopped[place];
    switchToNext(thread);
  }
  static void wait(mt_twin_thread *twin, Place place) {
    Thread &thread = threadOf(twin);
    if (thread.barriers++ != thread.common->task.droppedBarrier)
      stop(twin, place);
  }
  static int32_t shuffle(mt_twin_thread *twin, int32_t value, int32_t distance);
  static void multiply(mt_twin_thread *twin, const uint32_t *a,
                       const uint32_t *b, float *sums);
  static void access(mt_twin_thread *twin, const void *address, int64_t bytes,
                     int32_t isWrite);
  static void otherAccess(mt_twin_thread *twin, const void *address,
                          int64_t bytes, int32_t isWrite);
  static void sharedAccess(mt_twin_thread *twin, const void *address,
                           int64_t bytes, int32_t isWrite);
  static void abandon(Thread &thread);
  void prepare(const BlockTask &task, int64_t block, void *shared,
               AccessLog &log);
  void prepareWarp(Warp &warp, size_t first, size_t last);
  bool runWarp(Warp &warp);
  /// The block's threads that have stopped there.
  size_t stoppedAt(Place place) const;
  std::string runWarps(int64_t block);
  std::string describeStuck(int64_t block) const;

  Stacks stacks;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  /// Who runs the warps, as a thread.
  Thread scheduler{};
  SharedLog sharedLog;
  Common common{};
};

int32_t BlockRunner::Implementation::shuffle(mt_twin_thread *twin,
                                             int32_t value, int32_t distance) {
  Thread &thread = threadOf(twin);
  Warp &warp = *thread.warp;
  warp.current[thread.lane] = value;
  uint32_t from = thread.lane ^ uint32_t(distance);
  thread.result = warp.current + (from < warp.count ? from : thread.lane);
  ++warp.stopped[Shuffle];
  return switchToNext(thread);
}

void BlockRunner::Implementation::multiply(mt_twin_thread *twin,
                                           const uint32_t *a, const uint32_t *b,
                                           float *sums) {
  Thread &thread = threadOf(twin);
  thread.warp->fragments[thread.lane] = {a, b, sums};
  stop(twin, Product);
}

void BlockRunner::Implementation::access(mt_twin_thread *twin,
                                         const void *address, int64_t bytes,
                                         int32_t isWrite) {
  if (isWrite == 0 && bytes == int64_t(wordBytes) &&
      threadOf(twin).log->hasRead(reinterpret_cast<uintptr_t>(address)))
    return;
  otherAccess(twin, address, bytes, isWrite);
}

[[gnu::noinline]] void BlockRunner::Implementation::otherAccess(
    mt_twin_thread *twin, const void *address, int64_t bytes, int32_t isWrite) {
  Thread &thread = threadOf(twin);
  if (thread.log->add(reinterpret_cast<uintptr_t>(address), size_t(bytes),
                      isWrite != 0))
    return;
  abandon(thread);
}

[[gnu::noinline]] void BlockRunner::Implementation::sharedAccess(
    mt_twin_thread *twin, const void *address, int64_t bytes, int32_t isWrite) {
  Thread &thread = threadOf(twin);
  if (!thread.common->shared->add(uint32_t(twin->thread),
                                  reinterpret_cast<uintptr_t>(address),
                                  size_t(bytes), isWrite != 0))
    abandon(thread);
}

/// Goes on without the thread, which never comes back: its stack is forgotten.
void BlockRunner::Implementation::abandon(Thread &thread) {
  thread.common->isAbandoned = true;
  thread.nextContext = thread.warp->last->nextContext;
  thread.next = thread.warp->last->next;
  switchToNext(thread);
}

/// The ring of a warp.
void BlockRunner::Implementation::prepareWarp(Warp &warp, size_t first,
                                              size_t last) {
  warp.current = warp.values[0];
  warp.count = uint32_t(last - first);
  Context *place = &warp.firstContext;
  Thread **next = &warp.first;
  for (size_t i = first; i < last; ++i) {
    size_t number = common.task.isBackwards ? last - 1 - (i - first) : i;
    Thread &thread = threads[number];
    thread.warp = &warp;
    thread.lane = uint32_t(number - first);
    // Any: what a barrier returns is not looked at.
    thread.result = warp.values[0];
    thread.place = place;
    stacks.prepare(thread, number);
    *next = warp.last = &thread;
    place = &thread.nextContext;
    next = &thread.next;
  }
  *next = &scheduler;
}

void BlockRunner::Implementation::prepare(const BlockTask &task, int64_t block,
                                          void *shared, AccessLog &log) {
  threads.resize(size_t(task.threads));
  warps.resize((threads.size() + MT_WARP_SIZE - 1) / MT_WARP_SIZE);
  common = {task, &sharedLog, false};
  sharedLog.problem.clear();
  sharedLog.beginBlock(shared, task.sharedBytes);
  stacks.mark(threads.size());
  scheduler.result = warps[0].values[0];
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].twin = {int64_t(i),
                       block,
                       shared,
                       [](mt_twin_thread *t) { wait(t, Barrier); },
                       [](mt_twin_thread *t) { wait(t, WarpBarrier); },
                       shuffle,
                       access,
                       multiply,
                       task.checksShared ? sharedAccess : nullptr};
    threads[i].log = &log;
    threads[i].common = &common;
    threads[i].barriers = 0;
  }
  for (size_t i = 0; i < warps.size(); ++i)
    prepareWarp(warps[i], i * MT_WARP_SIZE,
                std::min(threads.size(), (i + 1) * MT_WARP_SIZE));
}

/// Runs a warp until its threads wait for others of the block, or are done.
/// False: they will never go on.
bool BlockRunner::Implementation::runWarp(Warp &warp) {
  while (true) {
    std::fill(std::begin(warp.stopped), std::end(warp.stopped), 0);
    scheduler.next = warp.first;
    scheduler.nextContext = warp.firstContext;
    scheduler.place = &warp.last->nextContext;
    switchToNext(scheduler);
    if (common.isAbandoned)
      return false;
    if (warp.stopped[Shuffle] == warp.count)
      warp.current = warp.values[warp.current == warp.values[0]];
    else if (warp.stopped[Product] == MT_WARP_SIZE)
      multiplyFragments(warp.fragments);
    else if (warp.stopped[WarpBarrier] == warp.count)
      sharedLog.passWarpBarrier();
    else
      return warp.stopped[Shuffle] + warp.stopped[Product] +
                 warp.stopped[WarpBarrier] ==
             0;
  }
}

size_t BlockRunner::Implementation::stoppedAt(Place place) const {
  size_t sum = 0;
  for (const Warp &warp : warps)
    sum += warp.stopped[place];
  return sum;
}

std::string BlockRunner::Implementation::describeStuck(int64_t block) const {
  auto count = [&](Place place) { return std::to_string(stoppedAt(place)); };
  return "expected all threads of block " + std::to_string(block) +
         " at one barrier, found " + count(Barrier) + " there, " +
         count(WarpBarrier) + " at a barrier of their warp, " + count(Shuffle) +
         " at a shuffle, " + count(Product) + " at a product, " + count(End) +
         " at their end";
}

std::string BlockRunner::Implementation::runWarps(int64_t block) {
  while (true) {
    for (Warp &warp : warps)
      std::fill(std::begin(warp.stopped), std::end(warp.stopped), 0);
    for (Warp &warp : warps)
      if (!runWarp(warp))
        return common.isAbandoned ? sharedLog.problem : describeStuck(block);
    if (stoppedAt(End) == threads.size())
      return "";
    if (stoppedAt(Barrier) != threads.size())
      return describeStuck(block);
    sharedLog.passBarrier();
  }
}

std::string BlockRunner::Implementation::run(const BlockTask &task,
                                             int64_t block, void *shared,
                                             AccessLog &log) {
  if (task.threads > int64_t(Stacks::mostThreads))
    return "expected a block of at most " +
           std::to_string(Stacks::mostThreads) + " threads, found " +
           std::to_string(task.threads);
  prepare(task, block, shared, log);
  std::string problem = runWarps(block);
  if (common.isAbandoned || !problem.empty())
    stacks.abandon();
  // The first of a warp always has a stack, and one is like the others.
  for (const Warp &warp : warps)
    if (stacks.hasOverflowed(size_t(warp.first - threads.data())))
      return "expected a thread to need at most " +
             std::to_string(Stacks::stackBytes) + " bytes of stack, found more";
  return problem;
}

BlockRunner::BlockRunner()
    : implementation(std::make_unique<Implementation>()) {}

BlockRunner::~BlockRunner() = default;

int64_t BlockRunner::barriers() const { return implementation->barriers(); }

std::string BlockRunner::run(const BlockTask &task, int64_t block, void *shared,
                             AccessLog &log) {
  return implementation->run(task, block, shared, log);
}
