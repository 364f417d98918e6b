//===- Text.h - how texts begin and end -------------------------*- C++ -*-===//

#ifndef MT_RUNTIME_TEXT_H
#define MT_RUNTIME_TEXT_H

#include <string>

namespace mt::runtime {

inline bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

inline bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace mt::runtime

#endif // MT_RUNTIME_TEXT_H
