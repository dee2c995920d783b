// One operation on this rank, from submission to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collective/choose.h"
#include "core/agreement.h"
#include "core/clock.h"
#include "core/executor.h"
#include "core/plan.h"
#include "core/process_set.h"
#include "core/request.h"
#include "core/timeline_times.h"
#include "transport/mesh.h"

namespace tfring {

class Operation {
 public:
  Operation(std::shared_ptr<const ProcessSet> set, Mesh& mesh, const AlgorithmOptions& algorithms);

  // Becomes another operation of the same process set; the one before it has ended. So one
  // that is repeated need not allocate all that belongs to it again.
  void Renew(Request&& request, uint32_t occurrence, TimePoint submitted);

  // Ends: hands over what the request waits with, and keeps nothing of it.
  std::function<void(const Status&)> TakeDone();

  // Plans the work; its first frames go with the first Step. An error fails the operation.
  // `plan`: of the operation of this name before it; kept up to date.
  Status Begin(AllreducePlan& plan);

  // Moves on as far as it goes now.
  Status Step();

  // The work is done (whether the others agree is the caller's to know).
  bool done() const { return done_; }

  // A control frame of this operation to one member, or to all others.
  void SendControl(FrameType type, int member, const std::string& payload = "");
  void SendControlToAll(FrameType type, const std::string& payload = "");
  // The announcements that are due now.
  void Announce();

  const Request& request() const { return request_; }
  const ProcessSet& set() const { return *set_; }
  const std::shared_ptr<const ProcessSet>& shared_set() const { return set_; }
  Executor& executor() { return executor_; }
  uint64_t name_id() const { return header_.name_id; }
  uint32_t occurrence() const { return header_.occurrence; }
  uint32_t digest() const { return header_.digest; }
  TimePoint submitted() const { return submitted_; }
  TimePoint all_started() const { return all_started_; }

  // Measures from now on; null otherwise.
  OperationTimes& Measure();
  const OperationTimes* times() const { return times_.get(); }
  OperationTimes* times() { return times_.get(); }

  // "allreduce "gradients" on rank 2", to begin a message.
  std::string Title() const;

  int64_t bytes() const;

  // ---- What the other members have shown of this operation, by member index ----
  std::vector<char> heard;  // any frame came
  Agreement agreement;
  bool needs_agreement = false;           // before it may complete
  std::map<int, std::string> statements;  // conflicting descriptions, own included
  TimePoint conflict_since{};
  // ---- Stall reports ----
  TimePoint next_stall_report{};
  bool queried = false;
  TimePoint stall_answers_due{};

  std::list<Operation*>::iterator position;  // in the list of pending operations

 private:
  void BeginAllreduce(AllreducePlan& plan);
  void BeginBroadcast();
  void BeginAllgather();
  void BeginBarrier();
  Status GatherTensors();
  void Start(Program program, Reducer reducer);
  void Start(std::shared_ptr<const Plan> plan, Reducer reducer);

  Request request_;
  const std::shared_ptr<const ProcessSet> set_;
  Mesh& mesh_;
  const AlgorithmOptions& algorithms_;
  TimePoint submitted_{};
  TimePoint all_started_{};
  FrameHeader header_;
  FlatBuffer buffer_;
  Executor executor_;
  std::unique_ptr<OperationTimes> times_;
  bool done_ = false;
  bool gathering_sizes_ = false;
  std::vector<int64_t> own_sizes_;       // allgather: first dimension of each tensor
  std::vector<int64_t> gathered_sizes_;  // the same of every member
  std::vector<uint8_t> scratch_;         // barrier
};

}  // namespace tfring
