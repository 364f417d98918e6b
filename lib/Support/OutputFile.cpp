//===- OutputFile.cpp - files that are written whole or not ---------------===//

#include "mt/Support/OutputFile.h"

#include "llvm/Support/FileSystem.h"

using namespace mt;
using llvm::Error;
using llvm::Expected;

namespace fs = llvm::sys::fs;

Error mt::makeWriteError(llvm::StringRef path, std::error_code code) {
  return llvm::createStringError(
      code, (path == "-" ? llvm::StringRef("standard output") : path) +
                ": expected a file that can be written, found '" +
                llvm::StringRef(code.message()).lower() + "'");
}

/// A full disk is an error, not the end of the process.
static std::error_code
print(int descriptor, bool shouldClose,
      llvm::function_ref<void(llvm::raw_ostream &)> print) {
  llvm::raw_fd_ostream stream(descriptor, shouldClose);
  print(stream);
  stream.flush();
  std::error_code code = stream.error();
  stream.clear_error();
  return code;
}

/// The file that a path leads to, so that links stay what they are.
static llvm::SmallString<128> resolve(llvm::StringRef path) {
  llvm::SmallString<128> target;
  if (fs::real_path(path, target))
    target = path;
  return target;
}

static bool isSpecial(llvm::StringRef path) {
  fs::file_status status;
  return !fs::status(path, status) &&
         status.type() != fs::file_type::regular_file;
}

Expected<TemporaryFile> TemporaryFile::create(llvm::StringRef path) {
  llvm::SmallString<128> name;
  if (std::error_code code =
          fs::createUniqueFile(resolve(path) + ".temp-%%%%%%%%", name))
    return makeWriteError(path, code);
  return TemporaryFile(name);
}

TemporaryFile::~TemporaryFile() {
  if (!name.empty())
    fs::remove(name);
}

Error TemporaryFile::keepAs(llvm::StringRef path) {
  if (isSpecial(path))
    return makeWriteError(
        path, std::make_error_code(fs::is_directory(path)
                                       ? std::errc::is_a_directory
                                       : std::errc::operation_not_supported));
  if (std::error_code code = fs::rename(name, resolve(path)))
    return makeWriteError(path, code);
  name.clear();
  return Error::success();
}

Error mt::writeOutput(
    llvm::StringRef path,
    llvm::function_ref<void(llvm::raw_ostream &)> printContent) {
  bool toOutput = path == "-";
  if (toOutput || (isSpecial(path) && !fs::is_directory(path))) {
    int descriptor = 1;
    std::error_code code;
    if (!toOutput)
      code = fs::openFileForWrite(path, descriptor);
    if (!code)
      code = print(descriptor, /*shouldClose=*/!toOutput, printContent);
    return code ? makeWriteError(path, code) : Error::success();
  }
  Expected<TemporaryFile> file = TemporaryFile::create(path);
  if (!file)
    return file.takeError();
  int descriptor;
  std::error_code code = fs::openFileForWrite(file->getName(), descriptor);
  if (!code)
    code = print(descriptor, /*shouldClose=*/true, printContent);
  return code ? makeWriteError(path, code) : file->keepAs(path);
}
