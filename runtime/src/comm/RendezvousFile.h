//===- RendezvousFile.h - the file by which processes meet ------*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_RENDEZVOUSFILE_H
#define MT_RUNTIME_COMM_RENDEZVOUSFILE_H

#include "Sockets.h"

namespace mt::runtime {

/// A random key, of keyLength characters.
std::string makeKey();

/// What the file says.
struct Invitation {
  std::string key;
  int64_t ranks = 0;
  Endpoint endpoint;
};

class RendezvousFile {
public:
  explicit RendezvousFile(std::string path) : path(std::move(path)) {}

  struct Content {
    std::optional<Invitation> invitation;
    /// What is there instead, for messages.
    std::string found;
  };
  Content read() const;
  /// Puts the file there as a whole, in the place of an earlier job's. Throws
  /// Error where that cannot be, or where another file is there.
  void write(const Invitation &invitation) const;
  /// Removes it where it still has this key.
  void remove(const std::string &key) const noexcept;
  const std::string &name() const { return path; }

private:
  void checkPlace() const;

  std::string path;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_RENDEZVOUSFILE_H
