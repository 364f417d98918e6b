//===- Processor.cpp - what a step needs to run on ------------------------===//

#include "Processor.h"

#include "mt/error.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

using namespace mt::runtime;

namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// All zero where the processor does not know the leaf.
Registers askProcessor(unsigned leaf, unsigned subleaf) {
  Registers found;
  if (!__get_cpuid_count(leaf, subleaf, &found.eax, &found.ebx, &found.ecx,
                         &found.edx))
    return Registers();
  return found;
}

/// The registers that the operating system saves, as bits of XCR0.
uint64_t savedRegisters() {
  constexpr unsigned osxsave = 1u << 27;
  if (!(askProcessor(1, 0).ecx & osxsave))
    return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t(high) << 32;
}

Processor readProcessor() {
  Processor processor{"x86_64", {}};
  const uint64_t saved = savedRegisters();
#define MT_X86_FEATURE(name, leaf, subleaf, register, bit, state)              \
  if ((askProcessor(leaf, subleaf).register >> bit & 1) &&                     \
      (saved & (state)) == (state))                                            \
    processor.features.insert(name);
#include "mt/processor.def"
  return processor;
}

#elif defined(__aarch64__)
Processor readProcessor() { return {"aarch64", {}}; }
#else
Processor readProcessor() { return {}; }
#endif

} // namespace

const Processor &mt::runtime::thisProcessor() {
  static const Processor processor = readProcessor();
  return processor;
}

void mt::runtime::checkProcessor(const ProcessorNeeds &needs,
                                 const Processor &processor,
                                 const std::string &where) {
  if (needs.architecture != processor.architecture)
    throw Error(where + ": expected a processor of " + needs.architecture +
                ", found one of " + processor.architecture);
  std::string missing;
  for (const std::string &feature : needs.features)
    if (!processor.features.count(feature))
      missing += (missing.empty() ? "" : ", ") + feature;
  if (!missing.empty())
    throw Error(where + ": expected a processor with " + missing +
                ", found one without");
}
