#include "core/cluster.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace tfring::test {

ClusterOptions OnOneHost(int size) {
  ClusterOptions options;
  options.size = size;
  return options;
}

ClusterOptions OnHosts(int size) {
  ClusterOptions options;
  options.size = size;
  options.shared_memory = false;
  return options;
}

Cluster::Cluster(const ClusterOptions& options) : options_(options), engines_(options.size) {
  for (int rank = 0; rank < options.size; ++rank) {
    counters_.push_back(std::make_unique<Counters>());
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([this, rank] {
      const int per_host = options_.ranks_per_host > 0 ? options_.ranks_per_host
                           : options_.shared_memory    ? options_.size
                                                       : 1;
      EngineOptions engine;
      engine.rank = rank;
      engine.size = options_.size;
      engine.host_id = "host" + std::to_string(rank / per_host);
      engine.secret = "secret";
      engine.log_level = LogLevel::kError;
      engine.local_size = per_host;
      if (options_.adjust) options_.adjust(engine);
      auto created = Engine::Create(engine, &store_, *counters_[rank]);
      if (!created.ok()) {
        std::fprintf(stderr, "rank %d: %s\n", rank, created.status().message().c_str());
        std::abort();
      }
      engines_[rank] = std::move(created.value());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Cluster::Run(const std::function<void(Engine&, int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options_.size; ++rank) {
    threads.emplace_back([&, rank] { body(*engines_[rank], rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Pending::State {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  Status status;

  void Finish(const Status& outcome) {
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
    status = outcome;
    ended.notify_all();
  }
};

Pending::Pending(Engine& engine, Request request) : state_(std::make_shared<State>()) {
  request.done = [state = state_](const Status& outcome) { state->Finish(outcome); };
  const Status status = engine.Submit(std::move(request));
  if (!status.ok()) state_->Finish(status);
}

Status Pending::Wait() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->ended.wait(lock, [this] { return state_->done; });
  return state_->status;
}

bool Pending::WaitFor(Duration timeout) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->ended.wait_for(lock, timeout, [this] { return state_->done; });
}

Status RunRequest(Engine& engine, Request request) {
  return Pending(engine, std::move(request)).Wait();
}

namespace {

Request RequestOf(Kind kind, const std::string& name, DType dtype, const void* input, void* output,
                  const std::vector<int64_t>& dims) {
  Request request;
  request.kind = kind;
  request.name = name;
  request.dtype = dtype;
  request.tensors.push_back(
      {static_cast<const uint8_t*>(input), static_cast<uint8_t*>(output), dims});
  return request;
}

}  // namespace

Request AllreduceRequest(const std::string& name, DType dtype, ReduceOp op, const void* input,
                         void* output, int64_t elements) {
  Request request = RequestOf(Kind::kAllreduce, name, dtype, input, output, {elements});
  request.reduce_op = op;
  return request;
}

Request BroadcastRequest(const std::string& name, DType dtype, int root, const void* input,
                         void* output, int64_t elements) {
  Request request = RequestOf(Kind::kBroadcast, name, dtype, input, output, {elements});
  request.root = root;
  return request;
}

Request BarrierRequest(const std::string& name) {
  Request request;
  request.kind = Kind::kBarrier;
  request.name = name;
  return request;
}

Request AllgatherRequest(const std::string& name, DType dtype, const void* input,
                         const std::vector<int64_t>& dims, std::vector<uint8_t>* output,
                         std::vector<int64_t>* first_dims) {
  Request request = RequestOf(Kind::kAllgather, name, dtype, input, nullptr, dims);
  request.allocate = [=](int, const std::vector<int64_t>& sizes) -> void* {
    size_t bytes = SizeOf(dtype);
    for (size_t i = 1; i < dims.size(); ++i) bytes *= static_cast<size_t>(dims[i]);
    int64_t rows = 0;
    for (int64_t size : sizes) rows += size;
    *first_dims = sizes;
    output->resize(bytes * static_cast<size_t>(rows));
    return output->data();
  };
  return request;
}

}  // namespace tfring::test
