// Ends waits of another thread: whoever waits polls the descriptor along with its own.
#pragma once

#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/status.h"

namespace tfring {

class Interruption {
 public:
  static Result<std::shared_ptr<Interruption>> Make();

  // From any thread; the first one counts.
  void Set(const Status& why);

  // Ok until Set.
  Status why() const;

  // Readable from Set on.
  int fd() const { return event_.get(); }

 private:
  Fd event_;
  mutable std::mutex mutex_;
  Status why_;
};

}  // namespace tfring
