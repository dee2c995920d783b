// This process's place in the job: the engine of the moment, and what outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

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

  // Null before Init and after ShutDown.
  std::shared_ptr<Engine> engine() const;

  Counters& counters() { return counters_; }
  Timeline& timeline() { return timeline_; }

 private:
  Job() = default;
  Status ServeStore(const EngineOptions& options);
  void NumberRendezvous(EngineOptions* options);

  mutable std::mutex mutex_;
  std::mutex init_mutex_;  // one Init or ShutDown at a time
  std::shared_ptr<Engine> engine_;
  Counters counters_;
  Timeline timeline_;
  // The store stays up between engines: other ranks may still be reading from it.
  std::unique_ptr<StoreServer> store_server_;
  int store_port_ = 0;
  int64_t generation_ = -1;
  int64_t inits_ = 0;  // of this generation
};

}  // namespace tfring
