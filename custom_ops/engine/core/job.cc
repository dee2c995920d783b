#include "core/job.h"

#include <utility>

#include "rendezvous/tcp_store.h"

namespace tfring {
namespace {

// Room for that many inits within one generation's number.
constexpr int64_t kInitsPerGeneration = int64_t{1} << 20;

}  // namespace

Job& Job::Get() {
  static Job* const job = new Job;
  return *job;
}

std::shared_ptr<Engine> Job::engine() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return engine_;
}

Status Job::Init(const std::string& text) {
  std::lock_guard<std::mutex> one_at_a_time(init_mutex_);
  if (engine() != nullptr) {
    return {Code::kInvalidArgument, "tfring is initialised already: call shutdown first"};
  }
  Result<EngineOptions> parsed = ParseOptions(text);
  if (!parsed.ok()) return parsed.status();
  EngineOptions options = std::move(parsed.value());
  options.timeline = &timeline_;
  TFR_RETURN_IF_ERROR(BeginJoining(&options));
  const Status status = Join(options);
  std::lock_guard<std::mutex> lock(mutex_);
  joining_.reset();
  return status;
}

Status Job::BeginJoining(EngineOptions* options) {
  auto interruption = Interruption::Make();
  if (!interruption.ok()) return interruption.status();
  const int64_t generation = options->generation;
  NumberRendezvous(options);
  std::lock_guard<std::mutex> lock(mutex_);
  TFR_RETURN_IF_ERROR(Interrupted(generation));
  joining_ = interruption.value();
  joining_generation_ = generation;
  options->interruption = joining_;
  return Status::Ok();
}

Status Job::Join(const EngineOptions& options) {
  std::unique_ptr<TcpStore> store;
  if (options.size > 1) {
    if (options.store_serve) TFR_RETURN_IF_ERROR(ServeStore(options));
    auto connected = TcpStore::Connect(options.store_host, options.store_port, options.secret,
                                       options.start_timeout, options.interruption);
    if (!connected.ok()) return connected.status();
    store = std::move(connected.value());
  }
  Result<std::unique_ptr<Engine>> created = Engine::Create(options, store.get(), counters_);
  if (!created.ok()) return created.status();
  std::lock_guard<std::mutex> lock(mutex_);
  TFR_RETURN_IF_ERROR(Interrupted(joining_generation_));
  engine_ = std::move(created.value());
  engine_generation_ = joining_generation_;
  return Status::Ok();
}

// Jobs that never change have generation 0.
Status Job::Interrupted(int64_t generation) const {
  if (generation < 1 || generation > interrupted_generation_) return Status::Ok();
  return {Code::kInterrupted,
          "generation " + std::to_string(generation) + " is over: " + interrupted_reason_};
}

void Job::Interrupt(int64_t generation, const std::string& reason) {
  std::shared_ptr<Engine> engine;
  Status why;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (generation > interrupted_generation_) {
      interrupted_generation_ = generation;
      interrupted_reason_ = reason;
    }
    if (joining_ != nullptr) {
      const Status joining = Interrupted(joining_generation_);
      if (!joining.ok()) joining_->Set(joining);
    }
    why = Interrupted(engine_generation_);
    engine = engine_;
  }
  if (engine != nullptr && !why.ok()) engine->Interrupt(why);
}

void Job::ShutDown() {
  std::lock_guard<std::mutex> one_at_a_time(init_mutex_);
  std::shared_ptr<Engine> engine;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    engine.swap(engine_);
  }
  if (engine != nullptr) engine->ShutDown();
  timeline_.Flush();
}

Status Job::ServeStore(const EngineOptions& options) {
  if (store_server_ != nullptr && store_port_ == options.store_port) return Status::Ok();
  store_server_.reset();
  auto started = StoreServer::Start("", options.store_port, options.secret);
  if (!started.ok()) return started.status();
  store_server_ = std::move(started.value());
  store_port_ = options.store_port;
  return Status::Ok();
}

// Every rank counts its inits of a generation, so that the second one after a shutdown
// does not find the addresses of the first in the store.
void Job::NumberRendezvous(EngineOptions* options) {
  if (options->generation != generation_) {
    generation_ = options->generation;
    inits_ = 0;
  }
  options->generation = generation_ * kInitsPerGeneration + inits_++;
}

}  // namespace tfring
