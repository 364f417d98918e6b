//===- error.h - how the runtime reports failure ----------------*- C++ -*-===//

#ifndef MT_ERROR_H
#define MT_ERROR_H

#include <stdexcept>
#include <string>

namespace mt::runtime {

/// A failure that a user can cause or act on. Its text is one line, lower case,
/// `<file or flag>: what was expected and what was found`.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Leaves a rank because the job has ended elsewhere; the communicator keeps
/// the reason, so this carries none and is never reported itself.
class JobEnded : public std::exception {
public:
  const char *what() const noexcept override { return "the job has ended"; }
};

} // namespace mt::runtime

#endif // MT_ERROR_H
