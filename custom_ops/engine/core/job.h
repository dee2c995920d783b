// This process's place in the job: the engine of the moment, and what outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/interruption.h"
#include "core/counters.h"
#include "core/engine.h"
#include "core/timeline.h"
#include "rendezvous/store_server.h"

namespace tfring {

class Job {
 public:
  // The process's only one; never destroyed, since threads may still run at exit.
  static Job& Get();

  // Joins. With an engine there already: kInvalidArgument.
  Status Init(const std::string& options);

  // Leaves; nothing when there is no engine.
  void ShutDown();

  // Generations from 1 to this one are over: their engine is interrupted, and their Init, under
  // way or yet to come, fails with kInterrupted.
  void Interrupt(int64_t generation, const std::string& reason);

  // Null before Init and after ShutDown.
  std::shared_ptr<Engine> engine() const;

  Counters& counters() { return counters_; }
  Timeline& timeline() { return timeline_; }

 private:
  Job() = default;
  Status ServeStore(const EngineOptions& options);
  void NumberRendezvous(EngineOptions* options);
  Status BeginJoining(EngineOptions* options);
  Status Join(const EngineOptions& options);
  Status Interrupted(int64_t generation) const;

  mutable std::mutex mutex_;
  std::mutex init_mutex_;  // one Init or ShutDown at a time
  std::shared_ptr<Engine> engine_;
  int64_t engine_generation_ = 0;
  std::shared_ptr<Interruption> joining_;  // of the Init under way
  int64_t joining_generation_ = 0;
  int64_t interrupted_generation_ = 0;  // the latest that is over
  std::string interrupted_reason_;
  Counters counters_;
  Timeline timeline_;
  // The store stays up between engines: other ranks may still be reading from it.
  std::unique_ptr<StoreServer> store_server_;
  int store_port_ = 0;
  int64_t generation_ = -1;
  int64_t inits_ = 0;  // of this generation
};

}  // namespace tfring
