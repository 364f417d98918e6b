//===- Philox.cpp - random numbers by position ----------------------------===//

#include "Philox.h"

using namespace mt::runtime;

uint64_t mt::runtime::streamOf(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}
