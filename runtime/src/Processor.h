//===- Processor.h - what a step needs to run on ----------------*- C++ -*-===//

#ifndef MT_RUNTIME_PROCESSOR_H
#define MT_RUNTIME_PROCESSOR_H

#include <set>
#include <string>
#include <vector>

namespace mt::runtime {

/// What code has been compiled for. Features are named as in mt/processor.def.
struct ProcessorNeeds {
  std::string architecture, name;
  std::vector<std::string> features;
};

struct Processor {
  std::string architecture;
  std::set<std::string> features;
};

/// The one that this process runs on, with what its operating system allows.
const Processor &thisProcessor();

/// Throws an Error that starts with `where` unless `processor` has all of
/// `needs`.
void checkProcessor(const ProcessorNeeds &needs, const Processor &processor,
                    const std::string &where);

} // namespace mt::runtime

#endif // MT_RUNTIME_PROCESSOR_H
