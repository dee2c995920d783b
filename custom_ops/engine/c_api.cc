#include "c_api.h"

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
  return {Code::kNotInitialized, "tfring is not initialised: call tfring.init() first"};
}

template <class Value>
int FromEngine(Value value) {
  const std::shared_ptr<Engine> engine = Job::Get().engine();
  return engine == nullptr ? -1 : engine->options().*value;
}

Status Submit(const tfr_request* request, std::function<void(const Status&)> done) {
  const std::shared_ptr<Engine> engine = Job::Get().engine();
  if (engine == nullptr) return NotInitialized();
  Result<Request> copy = CopyRequest(request);
  if (!copy.ok()) return copy.status();
  copy.value().done = std::move(done);
  return engine->Submit(std::move(copy.value()));
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

// Waited for by one thread, finished by the engine's; both hold it.
struct tfr_operation {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  Status status;
  std::shared_ptr<tfr_operation> self;  // the caller's share, until tfr_wait ends it

  void Finish(const Status& outcome) {
    std::lock_guard<std::mutex> lock(mutex);
    status = outcome;
    done = true;
    finished.notify_all();
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
  return Report(tfring::Submit(request, [done, arg](const Status& status) {
    done(arg, static_cast<tfr_code>(status.code()), status.message().c_str());
  }));
}

tfr_code tfr_start(const tfr_request* request, tfr_operation** operation) {
  if (operation == nullptr) {
    return Report({Code::kInvalidArgument, "tfr_start: operation is null"});
  }
  auto started = std::make_shared<tfr_operation>();
  const Status status =
      tfring::Submit(request, [started](const Status& outcome) { started->Finish(outcome); });
  if (!status.ok()) return Report(status);
  started->self = started;
  *operation = started.get();
  return TFR_OK;
}

tfr_code tfr_wait(tfr_operation* operation, double timeout_s) {
  if (operation == nullptr) return Report({Code::kInvalidArgument, "tfr_wait: operation is null"});
  std::shared_ptr<tfr_operation> share;
  {
    std::unique_lock<std::mutex> lock(operation->mutex);
    const auto finished = [operation] { return operation->done; };
    if (timeout_s < 0) {
      operation->finished.wait(lock, finished);
    } else if (!operation->finished.wait_for(lock, std::chrono::duration<double>(timeout_s),
                                             finished)) {
      return Report({Code::kTimeout, "the operation is still running"});
    }
    share.swap(operation->self);
  }
  return Report(share->status);
}

tfr_code tfr_run(const tfr_request* request) {
  tfr_operation* operation = nullptr;
  const tfr_code code = tfr_start(request, &operation);
  return code == TFR_OK ? tfr_wait(operation, -1) : code;
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
