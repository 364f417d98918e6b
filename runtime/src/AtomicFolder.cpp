//===- AtomicFolder.cpp - a folder that is whole or not there -------------===//

#include "AtomicFolder.h"

#include "MappedFile.h"
#include "Text.h"
#include "mt/error.h"

#include <cerrno>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

using namespace mt::runtime;

namespace fs = std::filesystem;

namespace {

fs::path resolved(const std::string &path) {
  std::error_code ignored;
  // A link stays a link: what it points to is replaced.
  fs::path result = fs::weakly_canonical(fs::absolute(path), ignored);
  return result.has_filename() ? result : result.parent_path();
}

fs::path beside(const fs::path &target, const char *ending) {
  return target.parent_path() / ("." + target.filename().string() + ending);
}

/// Files that a new checkpoint replaces, also where it has none of that name.
bool isOfCheckpoint(const std::string &file) {
  bool isWeights = startsWith(file, "model") &&
                   file.find(".safetensors") != std::string::npos;
  return isWeights || startsWith(file, "optimizer.safetensors") ||
         file == "trainer_state.json";
}

void syncFolder(const fs::path &folder) {
  int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  fsync(descriptor);
  close(descriptor);
}

} // namespace

AtomicFolder::AtomicFolder(const std::string &path)
    : name(path), target(resolved(path)), temporary(beside(target, ".saving")),
      old(beside(target, ".old")) {
  std::error_code failed;
  fs::remove_all(temporary, failed);
  if (!failed)
    fs::create_directories(temporary, failed);
  if (failed)
    throw Error(name + ": expected a folder that can be made, found: " +
                errnoText(failed.value()));
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed)
    fs::remove_all(temporary, ignored);
}

std::string AtomicFolder::file(const std::string &name) const {
  return (temporary / name).string();
}

void AtomicFolder::keepOtherFiles() const {
  std::error_code failed;
  for (const auto &entry : fs::directory_iterator(target, failed)) {
    fs::path copy = temporary / entry.path().filename();
    std::error_code ignored;
    if (isOfCheckpoint(copy.filename().string()) || fs::exists(copy, ignored) ||
        !entry.is_regular_file(ignored))
      continue;
    fs::create_hard_link(entry.path(), copy, failed);
    // Not every file system has them.
    if (failed)
      fs::copy_file(entry.path(), copy, failed);
    if (failed)
      throw Error(name + ": expected to keep " + copy.filename().string() +
                  ", found: " + errnoText(failed.value()));
  }
}

void AtomicFolder::commit(bool mayExchange) {
  std::error_code ignored;
  bool replaces = fs::exists(target, ignored);
  if (replaces)
    keepOtherFiles();
  syncFolder(temporary);
  auto moved = [&](int result) {
    if (result == 0)
      return;
    throw Error(name + ": expected a folder that can be replaced, found: " +
                errnoText(errno));
  };
  bool exchanged = replaces && mayExchange &&
                   renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD,
                             target.c_str(), RENAME_EXCHANGE) == 0;
  if (!exchanged) {
    if (replaces) {
      fs::remove_all(old, ignored);
      moved(rename(target.c_str(), old.c_str()));
      syncFolder(target.parent_path());
    }
    moved(rename(temporary.c_str(), target.c_str()));
  }
  committed = true;
  syncFolder(target.parent_path());
  fs::remove_all(exchanged ? temporary : old, ignored);
}

void mt::runtime::checkReplaceable(const std::string &path) {
  std::error_code ignored;
  fs::path target = resolved(path);
  if (!fs::exists(target, ignored))
    return;
  if (!fs::is_directory(target, ignored))
    throw Error(path + ": expected a folder to write to, found a file");
  if (fs::equivalent(target, fs::current_path(ignored), ignored))
    throw Error(path + ": expected a folder that can be replaced, found the "
                       "one this runs in");
  for (const auto &entry : fs::directory_iterator(target, ignored))
    if (!entry.is_regular_file(ignored))
      throw Error(path +
                  ": expected a folder of files, which is replaced as a "
                  "whole, found " +
                  entry.path().filename().string() + " in it");
}

std::string mt::runtime::existingFolder(const std::string &path) {
  std::error_code ignored;
  if (path.empty())
    return path;
  fs::path old = beside(resolved(path), ".old");
  return !fs::exists(path, ignored) && fs::is_directory(old, ignored)
             ? old.string()
             : path;
}
