//===- Rendezvous.cpp - processes become a job by a file ------------------===//

#include "Rendezvous.h"

#include "Calls.h"
#include "RendezvousFile.h"
#include "mt/error.h"

#include <algorithm>
#include <thread>

using namespace mt::runtime;

namespace {

/// Begins what a rank tells rank 0, and rank 0 all, of a failure.
constexpr char failureMark = '!';
/// How much longer than rank 0 the others wait: it says who is missing.
constexpr double laterSeconds = 3;
/// How often it is looked whether the file is still this job's.
constexpr int64_t roundsBetweenChecks = 10;

std::string within(double seconds) {
  char text[48];
  std::snprintf(text, sizeof text, " within %g s", seconds);
  return text;
}

/// Before it is looked again whether somebody has come: most are there at once.
void pause(int64_t round) {
  std::this_thread::sleep_for(
      std::chrono::milliseconds(std::min<int64_t>(1 + round / 4, 20)));
}

bool isFailure(const std::string &text) {
  return !text.empty() && text[0] == failureMark;
}

/// What both sides of the rendezvous have.
class Side {
public:
  Side(const std::string &file, int64_t rank, int64_t ranks, double timeout)
      : file(file), ranks(ranks), timeout(timeout),
        deadline(deadlineIn(timeout)) {
    result.rank = rank;
    result.connections.resize(size_t(ranks));
  }

protected:
  void setEndpoints(const std::string &lines);

  const RendezvousFile file;
  const int64_t ranks;
  const double timeout;
  const Deadline deadline;
  Gathering result;
};

class Host : public Side {
public:
  using Side::Side;
  Gathering gather();

private:
  std::vector<std::string> hearAll(const char *what, bool isFirst);
  void letIn();
  void checkFile();
  void tellAll(const std::string &text);
  std::string missing(const std::vector<bool> &isHere) const;
};

class Guest : public Side {
public:
  using Side::Side;
  Gathering gather();

private:
  void findHost();
  void connectAll();
  void awaitOthers();
  std::string hearHost();
  void checkHost();

  Socket &host() { return result.connections[0]; }
  Greeting greeting(int64_t to) const {
    return {result.key, Purpose::Join, result.rank, to, ranks};
  }
};

} // namespace

void Side::setEndpoints(const std::string &lines) {
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = lines.find('\n', begin);
    std::optional<Endpoint> endpoint =
        Endpoint::parse(lines.substr(begin, end - begin));
    result.endpoints.push_back(endpoint.value_or(Endpoint()));
    begin = end == std::string::npos ? lines.size() : end + 1;
  }
  if (int64_t(result.endpoints.size()) != ranks)
    throw Error("expected the addresses of " + std::to_string(ranks) +
                " ranks, found " + std::to_string(result.endpoints.size()));
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

Gathering Host::gather() {
  result.key = makeKey();
  result.listener = std::make_unique<Listener>(result.key, 0, ranks);
  std::string lines = result.listener->endpoint().text() + "\n";
  file.write({result.key, ranks, result.listener->endpoint()});
  try {
    for (const std::string &line : hearAll("join the job", true))
      lines += line + "\n";
    setEndpoints(lines);
    std::string conflict = result.listener->close();
    if (!conflict.empty())
      throw Error(conflict);
    tellAll(lines);
    hearAll("connect to each other", false);
    file.remove(result.key);
    tellAll("go");
  } catch (const Error &error) {
    file.remove(result.key);
    tellAll(failureMark + std::string(error.what()));
    throw;
  }
  return std::move(result);
}

/// A text from every other rank, in their order. `isFirst`: of ranks that are
/// to come yet.
std::vector<std::string> Host::hearAll(const char *what, bool isFirst) {
  std::vector<std::string> texts;
  std::vector<bool> isHere(size_t(ranks), false);
  texts.resize(size_t(ranks - 1));
  isHere[0] = true;
  for (int64_t round = 1;; ++round) {
    if (isFirst)
      letIn();
    if (isFirst && round % roundsBetweenChecks == 0)
      checkFile();
    for (int64_t rank = 1; rank < ranks; ++rank) {
      const Socket &socket = result.connections[size_t(rank)];
      if (!socket || isHere[size_t(rank)] || !isReadable(socket))
        continue;
      auto text = receiveText(socket, deadline);
      if (!text)
        throw Error(rankText(rank) + ": expected a process that joins the job, "
                                     "found that it has ended");
      if (isFailure(*text))
        throw Error(text->substr(1));
      texts[size_t(rank - 1)] = *text;
      isHere[size_t(rank)] = true;
    }
    std::string absent = missing(isHere);
    if (absent.empty())
      return texts;
    if (hasPassed(deadline))
      throw Error("rank 0: expected all ranks to " + std::string(what) +
                  within(timeout) + ", found missing: " + absent);
    pause(round);
  }
}

void Host::letIn() {
  for (int64_t rank = 1; rank < ranks; ++rank)
    if (Socket socket = result.listener->take(rank))
      result.connections[size_t(rank)] = std::move(socket);
  std::string conflict = result.listener->conflict();
  if (!conflict.empty())
    throw Error(conflict);
}

/// The others find the process that wrote the file last.
void Host::checkFile() {
  std::optional<Invitation> found = file.read().invitation;
  if (!found || found->key != result.key)
    throw Error("rank 0: " + file.name() +
                ": expected the file as this process wrote it, found " +
                (found ? "another one's: two processes have rank 0"
                       : "that it has gone"));
}

void Host::tellAll(const std::string &text) {
  Deadline soon = deadlineIn(laterSeconds);
  for (const Socket &socket : result.connections)
    if (socket)
      sendText(socket, text, soon);
}

std::string Host::missing(const std::vector<bool> &isHere) const {
  std::string text;
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (!isHere[size_t(rank)])
      text += (text.empty() ? "" : ", ") + rankText(rank);
  return text;
}

//===----------------------------------------------------------------------===//
// The other ranks
//===----------------------------------------------------------------------===//

Gathering Guest::gather() {
  findHost();
  try {
    result.listener =
        std::make_unique<Listener>(result.key, result.rank, ranks);
    sendText(host(), result.listener->endpoint().text(), deadline);
    setEndpoints(hearHost());
    connectAll();
    awaitOthers();
    result.listener->close();
    sendText(host(), "ready", deadline);
  } catch (const Error &error) {
    // Rank 0 says it, unless it has gone.
    bool isTold = host() && sendText(host(),
                                     failureMark + rankText(result.rank) +
                                         ": " + error.what(),
                                     deadlineIn(laterSeconds));
    if (isTold)
      hearHost();
    throw;
  }
  hearHost();
  return std::move(result);
}

void Guest::findHost() {
  for (int64_t round = 0;; ++round) {
    RendezvousFile::Content content = file.read();
    if (content.invitation) {
      result.key = content.invitation->key;
      Reception reception =
          greet(content.invitation->endpoint, greeting(0), deadline, [&] {
            std::optional<Invitation> now = file.read().invitation;
            return !now || now->key != result.key;
          });
      if (reception.answer == Answer::Refused)
        throw JobEnded();
      if (reception.answer == Answer::Full)
        throw Error(file.name() +
                    ": expected a job that this process may join, found that "
                    "all its " +
                    std::to_string(content.invitation->ranks) +
                    " ranks are there");
      if (reception.answer) {
        host() = std::move(reception.socket);
        return;
      }
      content.found = "one that names a process that does not answer";
    }
    if (hasPassed(deadline))
      throw Error(file.name() + ": expected rank 0 to write it" +
                  within(timeout) + ", found " + content.found);
    pause(round);
  }
}

void Guest::connectAll() {
  for (int64_t rank = 1; rank < result.rank; ++rank) {
    checkHost();
    const Endpoint &endpoint = result.endpoints[size_t(rank)];
    Reception reception = greet(endpoint, greeting(rank), deadline);
    if (reception.answer != Answer::Welcome)
      throw Error("expected a connection to " + rankText(rank) + " at " +
                  endpoint.text() + ", found none");
    result.connections[size_t(rank)] = std::move(reception.socket);
  }
}

void Guest::awaitOthers() {
  int64_t rank = result.rank + 1;
  for (int64_t round = 0; rank < ranks; ++round) {
    if (Socket socket = result.listener->take(rank)) {
      result.connections[size_t(rank++)] = std::move(socket);
      continue;
    }
    checkHost();
    if (hasPassed(deadline))
      throw Error("expected a connection from " + rankText(rank) +
                  within(timeout) + ", found none");
    pause(round);
  }
}

/// What rank 0 says next; the job may end by it.
std::string Guest::hearHost() {
  auto text = receiveText(
      host(), deadline + std::chrono::seconds(int64_t(laterSeconds)));
  if (text && isFailure(*text))
    throw JobEnded();
  if (!text) {
    result.connections[0].close();
    throw Error("expected rank 0 to join the job, found that it has ended");
  }
  return *text;
}

/// Before this rank is ready, rank 0 speaks of a failure alone.
void Guest::checkHost() {
  if (isReadable(host()))
    hearHost();
}

Gathering mt::runtime::gather(const std::string &file, int64_t rank,
                              int64_t ranks, double timeoutSeconds) {
  if (rank == 0)
    return Host(file, rank, ranks, timeoutSeconds).gather();
  try {
    return Guest(file, rank, ranks, timeoutSeconds).gather();
  } catch (const Error &error) {
    throw Error(rankText(rank) + ": " + error.what());
  }
}
