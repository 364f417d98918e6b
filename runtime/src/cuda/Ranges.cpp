//===- Ranges.cpp - what a profiler is told -------------------------------===//

#include "Ranges.h"

using namespace mt::runtime::cuda;

#ifdef MT_NVTX
#include <nvtx3/nvToolsExt.h>

namespace {

/// Of all ranges of mt, so that a tool can tell them from those of libraries.
nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t made = nvtxDomainCreateA("mt");
  return made;
}

} // namespace

ToolRange::ToolRange(const std::string &name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &attributes);
}

ToolRange::~ToolRange() { nvtxDomainRangePop(domain()); }

#else

ToolRange::ToolRange(const std::string &) {}
ToolRange::~ToolRange() = default;

#endif
