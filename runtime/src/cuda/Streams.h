//===- Streams.h - the two streams of a rank --------------------*- C++ -*-===//
//
//   compute         k0   k1  ─▶ k2   k3 ........ ─▶ k4
//                         │ fork                 ▲ wait
//   communication         └─▶ all_reduce ────────┘
//
// Every collective of a rank runs on the communication stream, so there is one
// order of them all. Nothing here waits without watching: what watches may
// throw where a collective does not come to its end.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_STREAMS_H
#define MT_RUNTIME_CUDA_STREAMS_H

#include "Libraries.h"

#include <functional>
#include <utility>

namespace mt::runtime::cuda {

/// A handle of a library, the driver where nothing else is said, released with
/// this.
template <typename HandleT, typename ResultT = CUresult> class Owned {
public:
  using ReleaseFn = ResultT (*)(HandleT);

  Owned() = default;
  Owned(HandleT handle, ReleaseFn release) : handle(handle), release(release) {}
  Owned(Owned &&other) { swap(other); }
  Owned &operator=(Owned &&other) {
    swap(other);
    return *this;
  }
  ~Owned() {
    if (handle)
      release(handle);
  }

  HandleT get() const { return handle; }
  explicit operator bool() const { return bool(handle); }

private:
  void swap(Owned &other) {
    std::swap(handle, other.handle);
    std::swap(release, other.release);
  }

  HandleT handle{};
  ReleaseFn release = nullptr;
};

Owned<CUevent> makeEvent(const Driver &driver);
/// Memory of the host that the device reads and writes by itself.
Owned<void *> makePinned(const Driver &driver, size_t bytes);

class Streams {
public:
  explicit Streams(const Driver &driver);

  CUstream compute() const { return computeStream.get(); }
  CUstream communication() const { return communicationStream.get(); }

  /// What is queued on `later` from here on runs behind what is on `earlier`.
  void order(CUstream earlier, CUstream later, const Owned<CUevent> &event);
  /// Waits until `event` is over.
  void await(const Owned<CUevent> &event);
  /// Waits for all that is on the compute stream.
  void awaitCompute();

  /// Called while await() waits, with the seconds that it has waited.
  std::function<void(double seconds)> watch;

  const Driver &driver;

private:
  Owned<CUstream> computeStream, communicationStream;
  Owned<CUevent> end;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_STREAMS_H
