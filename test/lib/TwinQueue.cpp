//===- TwinQueue.cpp - a device that does everything at once --------------===//

#include "TwinQueue.h"

#include "Elements.h"
#include "simulated/Gelu.h"

#include "mt/error.h"
#include <cstring>

using namespace mt::test;
namespace runtime = mt::runtime;

namespace {

/// Of the host, where nobody looks at what is used.
struct AnyMemory : mt::simulated::AccessLog {
  bool add(uintptr_t, size_t, bool) override { return true; }
};

} // namespace

TwinQueue::TwinQueue(const DeviceCode &code,
                     runtime::Communicator &communicator)
    : code(code), host{&communicator},
      scratchMemory(size_t(code.scratchBytes / 8 + 1)) {
  auto image = static_cast<const mt_twin_image *>(code.twins);
  for (const DeviceCode::Function &function : code.functions) {
    mt_twin twin = nullptr;
    for (int64_t i = 0; i < image->count; ++i)
      if (image->functions[i].name == function.name)
        twin = image->functions[i].function;
    if (!twin)
      throw runtime::Error("expected a twin of " + function.name +
                           ", found none");
    twins.push_back(twin);
  }
}

mt::test::BarrierProbe *mt::test::barrierProbe = nullptr;

void TwinQueue::launch(int64_t number, const int64_t *arguments) {
  const DeviceCode::Function &function = code.functions[size_t(number)];
  std::vector<int64_t> values(arguments, arguments + function.arguments);
  std::vector<void *> pointers;
  for (int64_t &value : values)
    pointers.push_back(&value);
  mt::simulated::BlockTask task{
      twins[size_t(number)], pointers.data(),
      function.threads,      size_t(function.sharedBytes),
      /*checksShared=*/true, ++launches % 2 == 0};
  if (barrierProbe && barrierProbe->function == function.name)
    task.droppedBarrier = barrierProbe->dropped;
  AnyMemory log;
  for (int64_t block = 0; block < function.blocks; ++block) {
    // Not zeros: what is read has been written.
    std::vector<int64_t> shared(size_t(function.sharedBytes / 8 + 1),
                                int64_t(0xAAAAAAAAAAAAAAAA));
    std::string problem = runner.run(task, block, shared.data(), log);
    if (!problem.empty())
      throw runtime::Error(function.name + ": " + problem);
    if (barrierProbe) {
      int64_t &count = barrierProbe->counts[function.name];
      count = std::max(count, runner.barriers());
    }
  }
}

void TwinQueue::copy(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, size_t(bytes));
}

template <typename T, typename R, typename GemmFn>
static void callGemm(mt_context &host, const runtime::DeviceProduct &p,
                     GemmFn gemm) {
  gemm(&host, p.batch0, p.batch1, p.m, p.n, p.k,
       static_cast<const T *>(p.a.data), p.a.batch0, p.a.batch1, p.a.row,
       p.a.column, static_cast<const T *>(p.b.data), p.b.batch0, p.b.batch1,
       p.b.row, p.b.column, static_cast<R *>(const_cast<void *>(p.c.data)),
       p.c.batch0, p.c.batch1, p.c.row, p.c.column, p.accumulate);
}

/// C = A B + addend + bias and GELU of it, by way of sums in memory of their
/// own.
void TwinQueue::multiplyWithEpilogue(const runtime::DeviceProduct &p) {
  mt_dtype sumType = p.dtype == MT_F64 ? MT_F64 : MT_F32;
  std::vector<double> memory(size_t(p.batch0 * p.batch1 * p.m * p.n));
  runtime::DeviceProduct sums = p;
  sums.c = {memory.data(), p.batch1 * p.m * p.n, p.m * p.n, p.n, 1};
  sums.result = sumType;
  sums.addend = sums.bias = nullptr;
  sums.gelu = nullptr;
  multiply(sums);
  void *c = const_cast<void *>(p.c.data);
  for (int64_t i = 0; i < p.batch0; ++i)
    for (int64_t j = 0; j < p.batch1; ++j)
      for (int64_t r = 0; r < p.m; ++r)
        for (int64_t t = 0; t < p.n; ++t) {
          int64_t at = i * p.c.batch0 + j * p.c.batch1 + r * p.c.row + t;
          double sum = runtime::loadFloat(
              sumType, memory.data(), ((i * p.batch1 + j) * p.m + r) * p.n + t);
          if (p.addend)
            sum += runtime::loadFloat(p.result, p.addend, at);
          if (p.bias)
            sum += runtime::loadFloat(p.result, p.bias, t);
          runtime::storeFloat(p.result, c, at, sum);
          if (p.gelu)
            runtime::storeFloat(p.result, p.gelu, at, mt::simulated::gelu(sum));
        }
}

void TwinQueue::multiply(const runtime::DeviceProduct &product) {
  if (product.addend || product.bias || product.result == MT_BF16)
    return multiplyWithEpilogue(product);
  switch (product.dtype) {
  case MT_F64:
    return callGemm<double, double>(host, product, mt_gemm_f64);
  case MT_BF16:
    return callGemm<uint16_t, float>(host, product, mt_gemm_bf16);
  default:
    return callGemm<float, float>(host, product, mt_gemm_f32);
  }
}
