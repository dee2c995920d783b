// What Conversations tell the timeline, and how it learns the time of rank 0: each rank asks
// it now and then, and of each answer keeps when it asked, what rank 0's clock said, and when
// it heard. The answers that came quickest tell the most.
#include <cstring>

#include "base/log.h"
#include "core/control_frame.h"
#include "core/conversations.h"

namespace tfring {
namespace {

constexpr std::chrono::seconds kClockInterval{1};
constexpr int kFirstClockQuestions = 16;
constexpr int kClockQuestions = 4;

}  // namespace

void Conversations::RecordLife(RecordType type) {
  if (!Recording()) return;
  TimelineRecord record;
  record.type = static_cast<uint8_t>(type);
  record.rank = mesh_.rank();
  record.bytes = mesh_.size();
  record.begin = record.end = Nanoseconds(Clock::now());
  options_.timeline->Add(record);
}

void Conversations::RecordMessage(LogLevel level, const std::string& text) {
  Log(level, text);
  if (Recording()) options_.timeline->AddInstant(static_cast<int>(level), text);
}

void Conversations::RecordBegin(Operation& operation) {
  OperationTimes& times = operation.Measure();
  times.taken = Clock::now();
  times.name_id = operation.name_id();
  if (options_.timeline->detail()) times.detail = options_.timeline;
}

void Conversations::RecordArrival(Operation& operation, int rank, const FrameHeader& header,
                                  bool first) {
  OperationTimes& times = *operation.times();
  if (first) times.last_to_start = rank;
  if (poll_mark_ == TimePoint{}) return;
  times.Add(PieceKind::kReceive, poll_mark_, last_heard_[rank], header.bytes);
}

void Conversations::RecordEnd(const Operation& operation, const Status& status, TimePoint now) {
  const Request& request = operation.request();
  const OperationTimes& times = *operation.times();
  TimelineRecord record;
  record.type = static_cast<uint8_t>(RecordType::kOperation);
  record.kind = static_cast<uint8_t>(request.kind);
  record.code = static_cast<uint8_t>(status.code());
  record.rank = times.last_to_start < 0 ? mesh_.rank() : times.last_to_start;
  record.begin = Nanoseconds(operation.submitted());
  record.end = Nanoseconds(now);
  record.name_id = operation.name_id();
  record.process_set = request.process_set;
  record.occurrence = operation.occurrence();
  record.tensors = static_cast<int32_t>(request.tensors.size());
  record.bytes = operation.bytes();
  record.taken = Nanoseconds(times.taken);
  record.started = Nanoseconds(operation.all_started());
  std::memcpy(record.work, times.work, sizeof(record.work));
  std::memcpy(record.early, times.early, sizeof(record.early));
  record.link_wait = times.link_wait;
  SetText(&record, request.name);
  options_.timeline->Add(record);
}

// ---- Rank 0's clock --------------------------------------------------------------------

void Conversations::AskClock(TimePoint now) {
  if (!Recording() || mesh_.rank() == 0 || departed_[0] || now < next_clock_question_) return;
  clock_questions_ = next_clock_question_ == TimePoint{} ? kFirstClockQuestions : kClockQuestions;
  next_clock_question_ = now + kClockInterval;
  SendClockQuestion();
}

void Conversations::SendClockQuestion() {
  const int64_t now = Nanoseconds(Clock::now());
  const std::string payload(reinterpret_cast<const char*>(&now), sizeof(now));
  SendControlFrame(mesh_.link(0), FrameType::kClock, FrameHeader(), payload);
}

void Conversations::OnClock(int rank, const FrameHeader& header, const uint8_t* payload) {
  int64_t times[2] = {};  // the asking rank's, rank 0's
  if ((header.flags & kAnswerFlag) == 0) {
    if (header.bytes != sizeof(times[0])) return;
    std::memcpy(times, payload, sizeof(times[0]));
    times[1] = Nanoseconds(last_heard_[rank]);
    FrameHeader answer;
    answer.flags = kAnswerFlag;
    const std::string both(reinterpret_cast<const char*>(times), sizeof(times));
    SendControlFrame(mesh_.link(rank), FrameType::kClock, answer, both);
    return;
  }
  if (!Recording() || header.bytes != sizeof(times)) return;
  std::memcpy(times, payload, sizeof(times));
  TimelineRecord record;
  record.type = static_cast<uint8_t>(RecordType::kClock);
  record.begin = times[0];
  record.taken = times[1];
  record.end = Nanoseconds(last_heard_[rank]);
  options_.timeline->Add(record);
  if (--clock_questions_ > 0) SendClockQuestion();
}

}  // namespace tfring
