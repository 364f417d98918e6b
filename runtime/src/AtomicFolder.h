//===- AtomicFolder.h - a folder that is whole or not there -----*- C++ -*-===//
//
// Files are written into a folder beside the target. When all of them are on
// the disk the two folders are exchanged, in one call of the system: whoever
// looks, at any moment and after any crash, finds the old files or the new.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_ATOMICFOLDER_H
#define MT_RUNTIME_ATOMICFOLDER_H

#include <filesystem>
#include <string>

namespace mt::runtime {

class AtomicFolder {
public:
  /// Makes the folder beside the target, and those above it.
  explicit AtomicFolder(const std::string &path);
  /// Removes what was written, unless committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder &) = delete;
  AtomicFolder &operator=(const AtomicFolder &) = delete;

  /// Where `file` of the folder is written.
  std::string file(const std::string &name) const;
  /// Replaces the target. Files of it that are not of a checkpoint stay.
  /// Where the file system cannot exchange folders (`mayExchange`: for tests)
  /// the old one is moved aside first, and found there by existingFolder.
  void commit(bool mayExchange = true);

private:
  void keepOtherFiles() const;

  std::string name;
  std::filesystem::path target, temporary, old;
  bool committed = false;
};

/// Refuses a target that cannot be replaced as a whole.
void checkReplaceable(const std::string &path);

/// `path`, or where a commit that was interrupted between two renames has left
/// its folder.
std::string existingFolder(const std::string &path);

} // namespace mt::runtime

#endif // MT_RUNTIME_ATOMICFOLDER_H
