// A whole job in one process: each rank is an engine, driven by a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/engine.h"
#include "rendezvous/hash_store.h"

namespace tfring::test {

struct ClusterOptions {
  int size = 2;
  bool shared_memory = true;  // all on one host; else each rank on its own
  int ranks_per_host = 0;     // overrides shared_memory when not 0
  std::function<void(EngineOptions&)> adjust;
};

ClusterOptions OnOneHost(int size);
ClusterOptions OnHosts(int size);  // each rank on a host of its own

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);

  // Runs `body` on every rank at once and waits for all of them.
  void Run(const std::function<void(Engine& engine, int rank)>& body);

  Engine& engine(int rank) { return *engines_[rank]; }
  int size() const { return options_.size; }

  // As if the process ended in good order.
  void ShutDown(int rank) { engines_[rank]->ShutDown(); }

 private:
  ClusterOptions options_;
  HashStore store_;
  std::vector<std::unique_ptr<Counters>> counters_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// Submits and waits for the end.
Status RunRequest(Engine& engine, Request request);

// Starts an operation; Wait gives its outcome.
class Pending {
 public:
  Pending(Engine& engine, Request request);
  Status Wait();
  bool WaitFor(Duration timeout);  // whether it has ended

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Requests over memory of the caller's.
Request AllreduceRequest(const std::string& name, DType dtype, ReduceOp op, const void* input,
                         void* output, int64_t elements);
Request BroadcastRequest(const std::string& name, DType dtype, int root, const void* input,
                         void* output, int64_t elements);
Request BarrierRequest(const std::string& name);
// The gathered bytes and first dimensions go to *output and *first_dims.
Request AllgatherRequest(const std::string& name, DType dtype, const void* input,
                         const std::vector<int64_t>& dims, std::vector<uint8_t>* output,
                         std::vector<int64_t>* first_dims);

}  // namespace tfring::test
