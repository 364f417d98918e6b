//===- Listener.h - lets the ranks of a job in ------------------*- C++ -*-===//
//
// A connection begins with a greeting, which has the job's key: whoever does
// not know it is no rank of the job, and is let go. The greeting either joins
// two ranks by the connection, or says that the job has failed and all its
// processes are to end: it reaches also a rank that is in compiled code.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_LISTENER_H
#define MT_RUNTIME_COMM_LISTENER_H

#include "Sockets.h"

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace mt::runtime {

constexpr size_t keyLength = 32;

enum class Purpose : int32_t { Join = 1, End = 2 };

struct Greeting {
  std::array<char, 8> magic = {'m', 't', '-', 'r', 'a', 'n', 'k', '1'};
  std::array<char, keyLength> key = {};
  Purpose purpose = Purpose::Join;
  int32_t from = 0, to = 0, ranks = 0;

  Greeting(const std::string &key, Purpose purpose, int64_t from, int64_t to,
           int64_t ranks);
  Greeting() = default;
};

enum class Answer : int32_t {
  Welcome = 1,
  /// The rank that is asked ends the job, and says why.
  Refused = 2,
  /// All ranks are there.
  Full = 3,
};

struct Reply {
  std::array<char, 8> magic = Greeting().magic;
  std::array<char, keyLength> key = {};
  Answer answer = Answer::Welcome;
};

class Listener {
public:
  /// Throws Error where the system has no port.
  Listener(const std::string &key, int64_t rank, int64_t ranks);
  ~Listener();
  Listener(const Listener &) = delete;
  Listener &operator=(const Listener &) = delete;

  Endpoint endpoint() const { return endpointHere(port); }
  /// The connection from another rank, once it is there; else an empty one.
  Socket take(int64_t rank);
  /// Why the processes that have come cannot be a job; empty: they can.
  std::string conflict();
  /// Lets nobody join any more; returns conflict().
  std::string close();

private:
  struct Guest {
    Socket socket;
    Deadline deadline;
    Greeting greeting;
    size_t received = 0;
  };

  void serve();
  void letIn(std::vector<Guest> &guests);
  bool hear(Guest &guest);
  void answer(Guest &guest);
  Answer judge(const Greeting &greeting);

  const Greeting own;
  int port = 0;
  Socket socket, wake;
  std::mutex mutex;
  std::map<int64_t, Socket> arrived;
  /// Those that have come, taken or not.
  std::vector<bool> isKnown;
  std::string trouble;
  bool isClosed = false;
  std::thread thread;
};

/// How a process was received.
struct Reception {
  Socket socket;
  /// Nothing: nobody who knows the key answers.
  std::optional<Answer> answer;
};

/// Connects to another rank, and greets it. Gives up where `isStale` says that
/// nobody is to be expected there any more.
Reception greet(
    const Endpoint &endpoint, const Greeting &greeting, Deadline deadline,
    const std::function<bool()> &isStale = [] { return false; });

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_LISTENER_H
