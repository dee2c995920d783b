// One rank's engine: the progress thread, and the way to it from all others.
//
// The thread sleeps in Mesh::Wait until a link can move or something is submitted; an idle
// engine uses no CPU but for its heartbeats. With operations pending it looks a little
// longer before it sleeps (EngineOptions::spin), which saves a wake-up when the peer is
// about to answer.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/conversations.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/process_set.h"
#include "core/request.h"
#include "rendezvous/store.h"
#include "transport/mesh.h"

namespace tfring {

class Engine {
 public:
  // Blocks until all ranks have met in the store (not used at size 1).
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options, Store* store,
                                                Counters& counters);
  ~Engine();  // as ShutDown

  // Checks and starts an operation; request.done is called once if this returns ok.
  Status Submit(Request request);

  // Ends pending operations, says goodbye, sends what is queued. Idempotent.
  void ShutDown();

  Result<int64_t> AddProcessSet(const std::vector<int>& ranks);
  Status RemoveProcessSet(int64_t id);

  // Ok, or why nothing can be done any more.
  Status health() const;

  const EngineOptions& options() const { return options_; }

 private:
  struct Submission {
    Request request;
    std::shared_ptr<const ProcessSet> set;
    TimePoint time;
  };

  Engine(const EngineOptions& options, Counters& counters);
  void Run();
  void Break(const Status& why);
  bool TakeSubmissions();
  void KeepAlive(TimePoint now);
  Duration TimeToSleep() const;
  Status FindSet(const Request& request, std::shared_ptr<const ProcessSet>* set);

  const EngineOptions options_;
  Counters& counters_;
  std::unique_ptr<Mesh> mesh_;  // null at size 1
  std::unique_ptr<Conversations> conversations_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::vector<Submission> queue_;
  std::map<int64_t, std::shared_ptr<const ProcessSet>> sets_;
  Status health_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::atomic<bool> submitted_{false};  // the queue has something, or the end has come
  std::atomic<bool> sleeping_{false};

  // The thread's own.
  std::vector<Submission> taken_;
  TimePoint next_heartbeat_{};
  TimePoint last_check_{};
};

}  // namespace tfring
