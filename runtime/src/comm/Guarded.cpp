//===- Guarded.cpp - the program of a rank, and what it throws ------------===//

#include "Guarded.h"

#include "mt/error.h"

#include <new>

using namespace mt::runtime;

void mt::runtime::runGuarded(Communicator &communicator,
                             const std::function<void(Communicator &)> &body) {
  try {
    body(communicator);
  } catch (const JobEnded &) {
    // Reported by whoever ended it.
  } catch (const std::bad_alloc &) {
    communicator.fail("out of memory");
  } catch (const std::exception &error) {
    communicator.fail(error.what());
  } catch (...) {
    communicator.fail("unknown failure");
  }
}
