// Every operation that this rank knows of, and what the others say about them.
//
// There is no coordinator. An operation is a conversation named by its process set, its
// name, and how many of that name came before. A rank starts its part when it submits and
// sends at once; what comes for an operation not submitted here yet waits in `early`.
//
// Ranks agree in passing: each frame carries a digest of what the sender asked for. When a
// name is new here, or its description changed, the operation is announced to all members
// and completes only when all of them have announced the same (core/agreement.h). A step of
// training thus pays for agreement once, and never waits for it again.
//
// All of it runs on the thread that drives.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "core/clock.h"
#include "core/counters.h"
#include "core/operation.h"
#include "core/options.h"
#include "core/timeline.h"
#include "transport/mesh.h"

namespace tfring {

class Conversations : public FrameSink {
 public:
  // `on_broken` hears why nothing can be done any more before any operation fails for it.
  Conversations(const EngineOptions& options, Mesh& mesh, Counters& counters,
                std::function<void(const Status&)> on_broken);

  // Starts a valid request.
  void Begin(Request&& request, std::shared_ptr<const ProcessSet> set, TimePoint submitted);

  // Moves operations that wait for a link; true when one moved.
  bool Advance();

  // Conflicts to close, stalls to report. Call it now and then; cheap.
  void CheckTime(TimePoint now);

  // This rank can't go on: `rank` is gone. Ends everything pending and tells the others.
  void Lose(int rank, const std::string& reason);

  // This rank can't go on, since the job's membership changes. Likewise.
  void Interrupt(const Status& why);

  // Ends everything pending with kShutDown, and says goodbye.
  void ShutDown();

  // Mesh::Poll comes next; for the timeline.
  // A round of work begins. What comes in it counts as heard now, unless a timeline wants to
  // know better.
  void BeginRound(TimePoint now) { now_ = now; }
  void BeginPoll() { poll_mark_ = Recording() ? Clock::now() : TimePoint{}; }

  bool pending() const { return !pending_.empty(); }
  const Status& broken() const { return broken_; }

  // A sign of life to those who look after this rank.
  void SendHeartbeats();
  // Loses a rank that this one looks after and has not heard of for `timeout`.
  void CheckSilence(TimePoint now, Duration timeout);
  // Silence so far is nobody's fault.
  void ForgiveSilence(TimePoint now) { last_heard_.assign(last_heard_.size(), now); }

  void OnFrame(int rank, const FrameHeader& header, const uint8_t* payload) override;
  void OnCrowded(int rank) override;
  void OnClosed(int rank, const Status& why) override;

 private:
  // What a rank sent for an operation that has not been submitted here.
  struct EarlyPeer {
    std::deque<Bytes> data;
    size_t bytes = 0;
    bool ready = false;
    bool announced = false;
    bool digest_known = false;
    uint32_t digest = 0;
    std::string statement;  // its description, when it found a conflict
  };
  struct Early {
    std::map<int, EarlyPeer> peers;  // by rank
    Status aborted;
  };
  struct Name {
    std::string name;
    uint32_t next = 0;             // occurrence of the next submission here
    uint32_t digest = 0;           // of the latest submission
    AllreducePlan plan;            // likewise
    uint32_t finished_digest = 0;  // of the latest that ended here
    std::string finished_text;
    std::unique_ptr<Operation> active;
    std::unique_ptr<Operation> spare;  // to be used again
    // Of operations that have ended here and others have not agreed on yet, by occurrence.
    std::map<uint32_t, Agreement> agreements;
    std::shared_ptr<const ProcessSet> set;  // of the latest that ended here
    std::map<uint32_t, Early> early;        // by occurrence
  };

  // incoming.cc
  void OnOperationFrame(int rank, const FrameHeader& header, const uint8_t* payload);
  void OnActiveFrame(Name& name, int rank, const FrameHeader& header, const uint8_t* payload);
  void OnEarlyFrame(Name& name, int rank, const FrameHeader& header, const uint8_t* payload);
  void OnFinishedFrame(Name& name, int rank, const FrameHeader& header);
  void OnLost(int reporter, const FrameHeader& header, const uint8_t* payload);
  void OnBye(int rank, const FrameHeader& header, const uint8_t* payload);
  void OnAnnounceOfFinished(Name& name, int rank, const FrameHeader& header);

  void TakeEarly(Name& name, Operation& operation, const Early& early);
  void StepOrFinish(Name& name);
  void Fail(Name& name, const Status& status, bool tell_others);
  void Finish(Name& name, const Status& status);
  void FailAll(const Status& status);
  void RefuseDuplicate(Name& name, const Request& request, const ProcessSet& set,
                       uint32_t occurrence);
  Status MissingPeer(Operation& operation) const;

  // departure.cc
  void Depart(int rank);
  void SpreadDepartures();
  void CheckLeaving();

  // conflict.cc
  void StartConflict(Name& name);
  void AddStatement(Name& name, int member, const std::string& text);
  void CloseConflict(Name& name);

  // stall.cc
  void CheckStall(Name& name, TimePoint now);
  void OnAnswer(Name& name, int rank, bool submitted);
  std::string MissingRanks(const Operation& operation) const;

  // To all that there is a connection with: the others hear it from them.
  void SendToConnected(FrameType type, const std::string& payload);
  // recording.cc: for the timeline
  bool Recording() const { return options_.timeline != nullptr && options_.timeline->recording(); }
  void RecordLife(RecordType type);
  void RecordMessage(LogLevel level, const std::string& text);  // and logs it
  void RecordBegin(Operation& operation);
  void RecordArrival(Operation& operation, int rank, const FrameHeader& header, bool first);
  void RecordEnd(const Operation& operation, const Status& status, TimePoint now);
  void AskClock(TimePoint now);
  void SendClockQuestion();
  void OnClock(int rank, const FrameHeader& header, const uint8_t* payload);

  Name& NameOfOperation(const Operation& operation) { return names_[operation.name_id()]; }
  void CountAllreduce(const Operation& operation, TimePoint now, CounterValues& values);

  const EngineOptions& options_;
  Mesh& mesh_;
  Counters& counters_;
  const std::function<void(const Status&)> on_broken_;
  std::unordered_map<uint64_t, Name> names_;
  std::list<Operation*> pending_;
  Status broken_;
  std::vector<char> departed_;
  std::vector<int> leaving_;     // have left, by others' word; their own may be under way
  std::vector<int> departures_;  // to be passed on
  std::vector<char> watched_;    // sends heartbeats
  std::vector<TimePoint> last_heard_;
  TimePoint next_check_{};
  int pending_allreduces_ = 0;
  TimePoint busy_since_{};
  TimePoint last_allreduce_submitted_{};
  TimePoint now_{};        // when the round of work began
  TimePoint poll_mark_{};  // the last poll, or the last frame of it
  TimePoint next_clock_question_{};
  int clock_questions_ = 0;
};

}  // namespace tfring
