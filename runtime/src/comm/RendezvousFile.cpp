//===- RendezvousFile.cpp - the file by which processes meet --------------===//

#include "RendezvousFile.h"

#include "../WholeFile.h"
#include "Listener.h"
#include "mt/error.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/random.h>
#include <unistd.h>

using namespace mt::runtime;

namespace fs = std::filesystem;

namespace {

constexpr const char *firstLine = "mt-rendezvous 1";
/// More than any such file has.
constexpr size_t mostBytes = 4096;

/// Empty: there is nothing, or nothing that can be read.
std::string readStart(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text(mostBytes, '\0');
  stream.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

std::optional<Invitation> parse(const std::string &text) {
  std::istringstream lines(text);
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  std::istringstream words(second);
  Invitation result;
  std::optional<Endpoint> endpoint = Endpoint::parse(third);
  if (first != firstLine || !(words >> result.key >> result.ranks) ||
      result.key.size() != keyLength || !endpoint)
    return std::nullopt;
  result.endpoint = *endpoint;
  return result;
}

} // namespace

std::string mt::runtime::makeKey() {
  unsigned char bytes[keyLength / 2];
  if (getrandom(bytes, sizeof bytes, 0) != ssize_t(sizeof bytes))
    throw Error(std::string("expected random bytes, found: ") +
                std::strerror(errno));
  std::string key;
  for (unsigned char byte : bytes)
    for (int digit : {byte >> 4, byte & 15})
      key += "0123456789abcdef"[digit];
  return key;
}

RendezvousFile::Content RendezvousFile::read() const {
  std::string text = readStart(path);
  std::optional<Invitation> invitation = parse(text);
  if (invitation)
    return {invitation, ""};
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return {std::nullopt, "none"};
  return {std::nullopt, "a file that --rendezvous has not written"};
}

/// A file of another kind is somebody's, and stays.
void RendezvousFile::checkPlace() const {
  checkFilePlace(path);
  std::error_code ignored;
  std::string text = readStart(path);
  if (text.rfind(firstLine, 0) != 0 &&
      (!text.empty() ||
       (fs::exists(path, ignored) && fs::file_size(path, ignored) > 0)))
    throw Error(path + ": expected a file that --rendezvous has written, or "
                       "none, found another");
}

void RendezvousFile::write(const Invitation &invitation) const {
  checkPlace();
  std::string text = std::string(firstLine) + "\n" + invitation.key + " " +
                     std::to_string(invitation.ranks) + "\n" +
                     invitation.endpoint.text() + "\n";
  // The key lets whoever has it into the job: for this user alone.
  replaceFile(path, text, invitation.key, 0600);
}

void RendezvousFile::remove(const std::string &key) const noexcept {
  try {
    std::optional<Invitation> found = read().invitation;
    if (found && found->key == key)
      unlink(path.c_str());
  } catch (const std::exception &) {
    // It stays, and misleads nobody.
  }
}
