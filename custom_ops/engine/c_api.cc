#include "c_api.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "c_api_error.h"
#include "c_api_request.h"
#include "core/counters.h"
#include "core/engine.h"
#include "core/job.h"

namespace tfring {
namespace {

thread_local std::string last_error;

Status NotInitialized() {
  return {Code::kNotInitialized,
          "tfring is not initialised: call tfring.init() first (in an elastic job: "
          "tfring.elastic.run)"};
}

template <class Value>
int FromEngine(Value value) {
  const std::shared_ptr<Engine> engine = Job::Get().engine();
  return engine == nullptr ? -1 : engine->options().*value;
}

// Up to here a caller that has better things to do carries its operation out at once: handing
// it over would take longer.
constexpr size_t kAtOnceBytes = 64 * 1024;

enum class Urgency { kLeave, kDrive };

Status Submit(Request&& request, Urgency urgency, const std::atomic<bool>& done) {
  const std::shared_ptr<Engine> engine = Job::Get().engine();
  if (engine == nullptr) return NotInitialized();
  if (urgency == Urgency::kLeave) return engine->Submit(std::move(request));
  return engine->SubmitAndDrive(std::move(request), done);
}

}  // namespace

tfr_code Report(const Status& status) {
  last_error = status.message();
  return static_cast<tfr_code>(status.code());
}

}  // namespace tfring

using tfring::Code;
using tfring::Report;
using tfring::Status;

// Waited for by one thread, finished by another; both hold it.
struct tfr_operation {
  std::mutex mutex;
  std::condition_variable finished;
  std::atomic<bool> done{false};
  Status status;
  std::shared_ptr<tfr_operation> self;  // the caller's share, until its wait ends

  void Finish(const Status& outcome) {
    std::lock_guard<std::mutex> lock(mutex);
    status = outcome;
    done = true;
    finished.notify_all();
  }

  // False when the time was up.
  bool Wait(double timeout_s) {
    std::unique_lock<std::mutex> lock(mutex);
    const auto is_done = [this] { return done.load(); };
    if (timeout_s >= 0) {
      return finished.wait_for(lock, std::chrono::duration<double>(timeout_s), is_done);
    }
    finished.wait(lock, is_done);
    return true;
  }

  static Status Start(const tfr_request* request, tfring::Urgency urgency,
                      std::shared_ptr<tfr_operation>* operation) {
    tfring::Result<tfring::Request> copy = tfring::CopyRequest(request);
    if (!copy.ok()) return copy.status();
    auto started = std::make_shared<tfr_operation>();
    copy.value().done = [started](const Status& outcome) { started->Finish(outcome); };
    *operation = started;
    return tfring::Submit(std::move(copy.value()), urgency, started->done);
  }
};

extern "C" {

int tfr_abi_version(void) { return TFR_ABI_VERSION; }

const char* tfr_last_error(void) { return tfring::last_error.c_str(); }

tfr_code tfr_init(const char* options) {
  if (options == nullptr) return Report({Code::kInvalidArgument, "tfr_init: options is null"});
  return Report(tfring::Job::Get().Init(options));
}

tfr_code tfr_shutdown(void) {
  tfring::Job::Get().ShutDown();
  return TFR_OK;
}

void tfr_interrupt(int64_t generation, const char* reason) {
  tfring::Job::Get().Interrupt(generation, reason == nullptr ? "" : reason);
}

int tfr_is_initialized(void) { return tfring::Job::Get().engine() != nullptr ? 1 : 0; }

int tfr_rank(void) { return tfring::FromEngine(&tfring::EngineOptions::rank); }
int tfr_size(void) { return tfring::FromEngine(&tfring::EngineOptions::size); }
int tfr_local_rank(void) { return tfring::FromEngine(&tfring::EngineOptions::local_rank); }
int tfr_local_size(void) { return tfring::FromEngine(&tfring::EngineOptions::local_size); }
int tfr_cross_rank(void) { return tfring::FromEngine(&tfring::EngineOptions::cross_rank); }
int tfr_cross_size(void) { return tfring::FromEngine(&tfring::EngineOptions::cross_size); }

int64_t tfr_generation(void) {
  const auto engine = tfring::Job::Get().engine();
  return engine == nullptr ? -1 : engine->options().generation;
}

tfr_code tfr_health(void) {
  const auto engine = tfring::Job::Get().engine();
  return Report(engine == nullptr ? tfring::NotInitialized() : engine->health());
}

tfr_code tfr_add_process_set(const int* ranks, int count, int64_t* id) {
  const auto engine = tfring::Job::Get().engine();
  if (engine == nullptr) return Report(tfring::NotInitialized());
  if (count < 0 || (count > 0 && ranks == nullptr) || id == nullptr) {
    return Report({Code::kInvalidArgument, "tfr_add_process_set: null or negative argument"});
  }
  const auto added = engine->AddProcessSet(std::vector<int>(ranks, ranks + count));
  if (added.ok()) *id = added.value();
  return Report(added.ok() ? Status::Ok() : added.status());
}

tfr_code tfr_remove_process_set(int64_t id) {
  const auto engine = tfring::Job::Get().engine();
  return Report(engine == nullptr ? tfring::NotInitialized() : engine->RemoveProcessSet(id));
}

tfr_code tfr_submit(const tfr_request* request, tfr_done_fn done, void* arg) {
  if (done == nullptr) return Report({Code::kInvalidArgument, "tfr_submit: done is null"});
  auto copy = tfring::CopyRequest(request);
  if (!copy.ok()) return Report(copy.status());
  const bool small = tfring::BytesOf(copy.value()) <= tfring::kAtOnceBytes;
  const auto finished = std::make_shared<std::atomic<bool>>(false);
  copy.value().done = [done, arg, finished](const Status& status) {
    done(arg, static_cast<tfr_code>(status.code()), status.message().c_str());
    *finished = true;
  };
  const auto urgency = small ? tfring::Urgency::kDrive : tfring::Urgency::kLeave;
  return Report(tfring::Submit(std::move(copy.value()), urgency, *finished));
}

tfr_code tfr_start(const tfr_request* request, tfr_operation** operation) {
  if (operation == nullptr) {
    return Report({Code::kInvalidArgument, "tfr_start: operation is null"});
  }
  std::shared_ptr<tfr_operation> started;
  const Status status = tfr_operation::Start(request, tfring::Urgency::kLeave, &started);
  if (!status.ok()) return Report(status);
  started->self = started;
  *operation = started.get();
  return TFR_OK;
}

tfr_code tfr_wait(tfr_operation* operation, double timeout_s) {
  if (operation == nullptr) return Report({Code::kInvalidArgument, "tfr_wait: operation is null"});
  if (!operation->done) {
    if (const auto engine = tfring::Job::Get().engine()) engine->Drive(operation->done);
  }
  if (!operation->Wait(timeout_s)) {
    return Report({Code::kTimeout, "the operation is still running"});
  }
  const std::shared_ptr<tfr_operation> share = std::move(operation->self);
  return Report(share->status);
}

tfr_code tfr_run(const tfr_request* request) {
  std::shared_ptr<tfr_operation> operation;
  const Status status = tfr_operation::Start(request, tfring::Urgency::kDrive, &operation);
  if (!status.ok()) return Report(status);
  operation->Wait(-1);
  return Report(operation->status);
}

tfr_code tfr_run_for(const tfr_request* request, double timeout_s, tfr_operation** operation) {
  if (operation == nullptr) {
    return Report({Code::kInvalidArgument, "tfr_run_for: operation is null"});
  }
  *operation = nullptr;
  std::shared_ptr<tfr_operation> running;
  const Status status = tfr_operation::Start(request, tfring::Urgency::kDrive, &running);
  if (!status.ok()) return Report(status);
  if (running->Wait(timeout_s)) return Report(running->status);
  running->self = running;
  *operation = running.get();
  return Report({Code::kTimeout, "the operation is still running"});
}

tfr_code tfr_get_counters(tfr_counters* counters) {
  if (counters == nullptr || counters->struct_size < sizeof(size_t) ||
      counters->struct_size > sizeof(tfr_counters)) {
    return Report({Code::kInvalidArgument,
                   "tfr_get_counters: struct_size is larger than this library's tfr_counters"});
  }
  const tfring::CounterValues values = tfring::Job::Get().counters().Get();
  tfr_counters all{};
  all.struct_size = counters->struct_size;
  all.operations = values.operations;
  all.failures = values.failures;
  all.allreduce_operations = values.allreduce_operations;
  all.allreduce_bytes = values.allreduce_bytes;
  all.allreduce_seconds = values.allreduce_seconds;
  all.allreduce_busy_seconds = values.allreduce_busy_seconds;
  all.wait_seconds = values.wait_seconds;
  all.sent_bytes = values.sent_bytes;
  all.received_bytes = values.received_bytes;
  all.allreduce_tail_seconds = values.allreduce_tail_seconds;
  std::memcpy(counters, &all, counters->struct_size);
  return TFR_OK;
}

void tfr_free(void* memory) { std::free(memory); }

}  // extern "C"
