#include "core/engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/pause.h"
#include "core/local.h"

namespace tfring {
namespace {

constexpr Duration kFlushTimeout{2000};
// Of a job that is broken: what others still need to hear is little, and some may not read it.
constexpr Duration kBrokenFlushTimeout{50};
constexpr Duration kLongestSleep{1000};
constexpr Duration kCheckInterval{100};  // with operations pending: conflicts, stalls
constexpr Duration kLinger{1};

// Answers that come at once come within a few microseconds; after that whoever else wants the
// core may have it for a moment.
constexpr std::chrono::microseconds kEagerSpin{5};
constexpr std::chrono::microseconds kDefaultSpin{100};

int Cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

EngineOptions WithDefaults(EngineOptions options) {
  if (options.spin.count() < 0) options.spin = kDefaultSpin;
  return options;
}

}  // namespace

Engine::Engine(const EngineOptions& options, Counters& counters)
    : options_(WithDefaults(options)),
      counters_(counters),
      crowded_(options.local_size > Cores()) {}

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options, Store* store,
                                               Counters& counters) {
  ConfigureLog(options.log_level, options.rank);
  std::unique_ptr<Engine> engine(new Engine(options, counters));
  if (options.size == 1) {
    engine->MakeSetOfAll({0});
    return engine;
  }
  MeshOptions mesh;
  mesh.rank = options.rank;
  mesh.size = options.size;
  mesh.host_id = options.host_id;
  mesh.generation = options.generation;
  mesh.secret = options.secret;
  mesh.listen_address = options.listen_address;
  mesh.timeout = options.start_timeout;
  mesh.interruption = options.interruption;
  Result<std::unique_ptr<Mesh>> connected = Mesh::Connect(mesh, *store);
  if (!connected.ok()) return connected.status();
  engine->mesh_ = std::move(connected.value());
  engine->MakeSetOfAll(engine->mesh_->hosts());
  engine->conversations_ =
      std::make_unique<Conversations>(engine->options_, *engine->mesh_, counters,
                                      [raw = engine.get()](const Status& why) { raw->Break(why); });
  engine->thread_ = std::thread([raw = engine.get()] { raw->Run(); });
  return engine;
}

Engine::~Engine() { ShutDown(); }

void Engine::Interrupt(const Status& why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_ || !health_.ok()) return;
    health_ = interrupted_ = why;
  }
  if (mesh_ == nullptr) return;
  submitted_ = true;
  mesh_->Wake();
}

void Engine::ShutDown() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    if (health_.ok()) health_ = Status(Code::kShutDown, "the engine has shut down");
  }
  if (mesh_ == nullptr) return;
  submitted_ = true;
  mesh_->Wake();
  thread_.join();
}

void Engine::Break(const Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (health_.ok()) health_ = why;
}

Status Engine::health() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return health_;
}

// ---- Process sets ----------------------------------------------------------------------

void Engine::MakeSetOfAll(const std::vector<int>& host_of_rank) {
  std::vector<int> all(host_of_rank.size());
  std::iota(all.begin(), all.end(), 0);
  sets_[0] = std::make_shared<ProcessSet>(ProcessSet::Of(0, all, options_.rank, host_of_rank));
}

Result<int64_t> Engine::AddProcessSet(const std::vector<int>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= options_.size || (i > 0 && ranks[i] <= ranks[i - 1])) {
      return Status(Code::kInvalidArgument,
                    "process set: expected strictly increasing ranks below " +
                        std::to_string(options_.size) + ", received " + std::to_string(ranks[i]) +
                        " at index " + std::to_string(i));
    }
  }
  if (ranks.empty()) {
    return Status(Code::kInvalidArgument, "process set: expected at least one rank, received none");
  }
  if (static_cast<int>(ranks.size()) == options_.size) return int64_t{0};
  // A hash of its members: equal on all ranks, so that they need not agree on a number.
  Hasher hasher;
  for (int rank : ranks) hasher.Add(int64_t{rank});
  const int64_t id = static_cast<int64_t>(hasher.value() >> 1) | 1;
  std::lock_guard<std::mutex> lock(mutex_);
  sets_[id] =
      std::make_shared<ProcessSet>(ProcessSet::Of(id, ranks, options_.rank, mesh_->hosts()));
  return id;
}

Status Engine::RemoveProcessSet(int64_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (id == 0) return {Code::kInvalidArgument, "process set 0, all ranks, can't be removed"};
  if (sets_.erase(id) == 1) return Status::Ok();
  return {Code::kInvalidArgument, "process set " + std::to_string(id) + " does not exist"};
}

Status Engine::FindSet(const Request& request, std::shared_ptr<const ProcessSet>* set) {
  const auto found = sets_.find(request.process_set);
  const auto invalid = [&request](const std::string& what) {
    return Status(Code::kInvalidArgument,
                  std::string(NameOf(request.kind)) + " \"" + request.name + "\": " + what);
  };
  const auto of_set = [&request] { return "process set " + std::to_string(request.process_set); };
  if (found == sets_.end()) return invalid(of_set() + " does not exist");
  if (found->second->self < 0) {
    return invalid("rank " + std::to_string(options_.rank) + " is not a member of " + of_set());
  }
  if (request.kind == Kind::kBroadcast && (request.root < 0 || request.root >= options_.size ||
                                           found->second->members[request.root] < 0)) {
    return invalid("root " + std::to_string(request.root) + " is not a member of " + of_set());
  }
  *set = found->second;
  return Status::Ok();
}

// ---- Submission ------------------------------------------------------------------------

Status Engine::Admit(const Request& request, std::shared_ptr<const ProcessSet>* set) {
  if (!health_.ok()) return health_;
  return FindSet(request, set);
}

Status Engine::Submit(Request&& request) {
  TFR_RETURN_IF_ERROR(Validate(request));
  bool alone = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<const ProcessSet> set;
    TFR_RETURN_IF_ERROR(Admit(request, &set));
    alone = set->count() == 1;
    if (!alone) {
      queue_.push_back({std::move(request), std::move(set), Clock::now()});
      submitted_ = true;
    }
  }
  if (alone) {
    RunAlone(request, counters_);
  } else if (sleeping_) {
    mesh_->Wake();
  }
  return Status::Ok();
}

Status Engine::SubmitAndDrive(Request&& request, const std::atomic<bool>& done) {
  if (mesh_ == nullptr || !TryToDrive()) return Submit(std::move(request));
  Status status = Validate(request);
  std::shared_ptr<const ProcessSet> set;
  if (status.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    status = Admit(request, &set);
  }
  if (!status.ok() || set->count() == 1) {
    StopDriving();
    if (status.ok()) RunAlone(request, counters_);
    return status;
  }
  TakeSubmissions();  // those before it come first
  const TimePoint now = Clock::now();
  conversations_->BeginRound(now);
  conversations_->Begin(std::move(request), std::move(set), now);
  DriveUntil(done);
  return Status::Ok();
}

void Engine::Drive(const std::atomic<bool>& done) {
  if (mesh_ != nullptr && TryToDrive()) DriveUntil(done);
}

bool Engine::TakeSubmissions() {
  if (!submitted_.exchange(false)) return false;
  bool stopping;
  Status interrupted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    taken_.swap(queue_);
    stopping = stopping_;
    interrupted = interrupted_;
  }
  for (Submission& submission : taken_) {
    conversations_->Begin(std::move(submission.request), std::move(submission.set),
                          submission.time);
  }
  taken_.clear();
  if (!interrupted.ok()) conversations_->Interrupt(interrupted);
  stopped_ = stopping;
  return true;
}

// ---- The progress thread ---------------------------------------------------------------

bool Engine::Turn(TimePoint* now) {
  *now = Clock::now();
  conversations_->BeginRound(*now);
  bool moved = TakeSubmissions();
  conversations_->BeginPoll();
  moved |= mesh_->Poll(*conversations_);
  moved |= conversations_->Advance();
  conversations_->CheckTime(*now);
  KeepAlive(*now);
  return moved;
}

void Engine::Pause(std::chrono::microseconds idle) const {
  if (crowded_ || idle > kEagerSpin) {
    std::this_thread::yield();
  } else {
    CpuPause();
  }
}

void Engine::DriveUntil(const std::atomic<bool>& done) {
  const bool asleep = mesh_->Disarm();
  visited_ = true;
  TimePoint now{};
  TimePoint idle_since{};
  while (!stopped_ && !done) {
    const bool moved = Turn(&now);
    if (moved || idle_since == TimePoint{}) idle_since = now;
    if (done || now > idle_since + options_.spin) break;
    if (!moved) Pause(std::chrono::duration_cast<std::chrono::microseconds>(now - idle_since));
  }
  const bool unfinished = stopped_ || conversations_->pending();
  StopDriving();
  // The progress thread has to take over, or at least to arm again when callers stay away.
  if (asleep || unfinished) mesh_->Wake();
}

void Engine::Run() {
  while (true) {
    Duration sleep = kLinger;
    if (TryToDrive()) {
      mesh_->Rise();
      sleep = Serve();
      if (stopped_) break;  // and goes on driving: nobody else may
      StopDriving();
    }
    sleeping_ = true;
    mesh_->Sleep(submitted_ ? Duration(0) : sleep);
    sleeping_ = false;
  }
  const bool broken = !conversations_->broken().ok();
  conversations_->ShutDown();
  mesh_->Close(broken ? kBrokenFlushTimeout : kFlushTimeout);
}

// Drives as long as that moves anything, and a little longer. Returns how long to sleep.
Duration Engine::Serve() {
  TimePoint now{};
  TimePoint idle_since{};
  while (!stopped_) {
    const bool moved = Turn(&now);
    if (moved || idle_since == TimePoint{}) {
      idle_since = now;
    } else if (conversations_->pending() && now < idle_since + options_.spin) {
      Pause(std::chrono::duration_cast<std::chrono::microseconds>(now - idle_since));
    } else if (std::exchange(visited_, false) && !conversations_->pending()) {
      return kLinger;
    } else if (mesh_->Arm()) {
      return TimeToSleep();
    }
  }
  return Duration(0);
}

Duration Engine::TimeToSleep() const {
  const Duration longest = conversations_->pending() ? kCheckInterval : kLongestSleep;
  if (options_.heartbeat_timeout.count() == 0) return longest;
  return std::clamp(options_.heartbeat_timeout / 4, Duration(1), longest);
}

void Engine::KeepAlive(TimePoint now) {
  const TimePoint last = std::exchange(last_check_, now);
  const Duration timeout = options_.heartbeat_timeout;
  if (timeout.count() == 0 || now < next_heartbeat_) return;
  next_heartbeat_ = now + timeout / 4;
  conversations_->SendHeartbeats();
  // After a long sleep of this process itself (a stop, a suspended machine) the others'
  // signs of life may be waiting unread: give them a round before judging.
  if (now - last > timeout / 2) {
    conversations_->ForgiveSilence(now);
    return;
  }
  conversations_->CheckSilence(now, timeout);
}

}  // namespace tfring
