// One rank's engine: its progress thread, and the way to it from all others.
//
// One thread at a time drives: takes submissions, moves bytes, completes operations. A caller
// that waits for an operation drives by itself if nobody does, which saves waking the progress
// thread and being woken by it: most of a small operation's time. It looks for a little while
// (EngineOptions::spin), then leaves the rest to the progress thread.
//
// The progress thread sleeps until a link can move or something is submitted; an idle engine
// uses no CPU but for its heartbeats. While callers come and go it only looks now and then
// whether they still do (kLinger), and no peer need ring to wake it.
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
  Status Submit(Request&& request);

  // The same, and drives until `done` (which request.done sets) or until it is better to sleep.
  Status SubmitAndDrive(Request&& request, const std::atomic<bool>& done);

  // Drives, if nobody else does, until `done` or until it is better to sleep.
  void Drive(const std::atomic<bool>& done);

  // From any thread: every operation fails with `why` from now on, here and on all other ranks.
  void Interrupt(const Status& why);

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
  Duration Serve();
  bool Turn(TimePoint* now);
  bool TryToDrive() { return !driven_.exchange(true); }
  void StopDriving() { driven_ = false; }
  void DriveUntil(const std::atomic<bool>& done);
  void Pause(std::chrono::microseconds idle) const;
  void Break(const Status& why);
  Status Admit(const Request& request, std::shared_ptr<const ProcessSet>* set);
  bool TakeSubmissions();
  void KeepAlive(TimePoint now);
  Duration TimeToSleep() const;
  void MakeSetOfAll(const std::vector<int>& host_of_rank);
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
  Status interrupted_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::atomic<bool> submitted_{false};  // the queue has something, or the end has come
  std::atomic<bool> sleeping_{false};   // the progress thread
  std::atomic<bool> driven_{false};     // some thread drives
  const bool crowded_;                  // more ranks than cores

  // The driver's own.
  bool visited_ = false;  // callers have driven since the progress thread last looked
  std::vector<Submission> taken_;
  TimePoint next_heartbeat_{};
  TimePoint last_check_{};
};

}  // namespace tfring
