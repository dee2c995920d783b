#include "collective/simulator.h"

#include <cstring>
#include <utility>

namespace tfring::test {

std::ostream& operator<<(std::ostream& out, Schedule schedule) {
  switch (schedule) {
    case Schedule::kRandom:
      return out << "random";
    case Schedule::kSendsLate:
      return out << "sends_late";
    case Schedule::kSendsEarly:
      return out << "sends_early";
    case Schedule::kSlowRank:
      return out << "slow_rank";
    case Schedule::kSlowLink:
      return out << "slow_link";
    case Schedule::kLastRankFirst:
      return out << "last_rank_first";
  }
  return out;
}

Simulator::Simulator(std::vector<Program> programs, const std::vector<Memory>& memories,
                     DType dtype, ReduceOp op, double factor) {
  const size_t size = programs.size();
  for (size_t r = 0; r < size; ++r) {
    Rank rank;
    rank.program = std::move(programs[r]);
    // In three pieces, as if tensors had been fused; their borders split elements of no type.
    const Memory& memory = memories[r];
    const size_t piece = memory.bytes / 3 / 8 * 8;
    for (size_t i = 0; i < 3; ++i) {
      const size_t bytes = i < 2 ? piece : memory.bytes - 2 * piece;
      rank.buffer.Append(memory.input + i * piece, memory.output + i * piece, bytes);
    }
    rank.reducer = Reducer(dtype, op, factor);
    rank.reducer.Prepare(rank.program);
    rank.lanes.resize(size);
    for (size_t i = 0; i < rank.program.sends.size(); ++i) {
      rank.lanes[rank.program.sends[i].peer].sends.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < rank.program.receives.size(); ++i) {
      rank.lanes[rank.program.receives[i].peer].receives.push_back(static_cast<int>(i));
    }
    rank.received.assign(rank.program.receives.size(), 0);
    rank.left.assign(rank.program.sends.size(), 0);
    ranks_.push_back(std::move(rank));
  }
}

bool Simulator::Enabled(const Event& event) {
  Rank& rank = ranks_[event.rank];
  const Lane& lane = rank.lanes[event.peer];
  if (event.is_send) {
    if (lane.next_send == lane.sends.size()) return false;
    const Send& send = rank.program.sends[lane.sends[lane.next_send]];
    return send.after < 0 || rank.received[send.after];
  }
  if (lane.next_receive == lane.receives.size()) return false;
  if (event.peer != event.rank && lane.arriving.empty()) return false;
  const Receive& receive = rank.program.receives[lane.receives[lane.next_receive]];
  if (receive.after >= 0 && !rank.received[receive.after]) return false;
  return rank.first_not_left >= static_cast<size_t>(receive.after_sends);
}

// Among the events that can happen, one of the least cost does.
int Simulator::Cost(const Event& event) const {
  switch (schedule_) {
    case Schedule::kRandom:
      return 0;
    case Schedule::kSendsLate:
      return event.is_send ? 1 : 0;
    case Schedule::kSendsEarly:
      return event.is_send ? 0 : 1;
    case Schedule::kSlowRank:
      return event.rank == slow_.rank ? 1 : 0;
    case Schedule::kSlowLink:
      return !event.is_send && event.rank == slow_.rank && event.peer == slow_.peer ? 1 : 0;
    case Schedule::kLastRankFirst:
      return static_cast<int>(ranks_.size()) - 1 - event.rank;
  }
  return 0;
}

void Simulator::Depart(const Event& event) {
  Rank& rank = ranks_[event.rank];
  Lane& lane = rank.lanes[event.peer];
  const int index = lane.sends[lane.next_send++];
  const Send& send = rank.program.sends[index];
  std::vector<uint8_t> data;
  rank.buffer.ForEach(send.offset, send.bytes, [&](const FlatBuffer::Piece& piece) {
    const uint8_t* from = send.from == Send::From::kInput ? piece.input : piece.output;
    data.insert(data.end(), from, from + piece.bytes);
  });
  ranks_[event.peer].lanes[event.rank].arriving.push_back(std::move(data));
  rank.left[index] = 1;
  while (rank.first_not_left < rank.left.size() && rank.left[rank.first_not_left]) {
    ++rank.first_not_left;
  }
}

std::string Simulator::Deliver(const Event& event) {
  Rank& rank = ranks_[event.rank];
  Lane& lane = rank.lanes[event.peer];
  const int index = lane.receives[lane.next_receive++];
  const Receive& receive = rank.program.receives[index];
  if (event.peer == event.rank) {
    size_t at = 0;
    rank.buffer.ForEach(receive.offset, receive.bytes, [&](const FlatBuffer::Piece& piece) {
      const uint8_t* own = receive.own_output ? piece.output : piece.input;
      rank.reducer.Apply(rank.buffer, receive, at, own, piece.bytes);
      at += piece.bytes;
    });
  } else {
    const std::vector<uint8_t> data = std::move(lane.arriving.front());
    lane.arriving.pop_front();
    if (data.size() != receive.bytes) {
      return "rank " + std::to_string(event.rank) + " expects " + std::to_string(receive.bytes) +
             " bytes from rank " + std::to_string(event.peer) + ", got " +
             std::to_string(data.size());
    }
    rank.reducer.Apply(rank.buffer, receive, 0, data.data(), data.size());
  }
  rank.received[index] = 1;
  return {};
}

bool Simulator::Done(int rank) const {
  for (const Lane& lane : ranks_[rank].lanes) {
    if (lane.next_send < lane.sends.size() || lane.next_receive < lane.receives.size()) {
      return false;
    }
  }
  return true;
}

std::string Simulator::Unfinished() {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (size_t p = 0; p < ranks_.size(); ++p) {
      const Lane& lane = ranks_[r].lanes[p];
      const std::string who = "rank " + std::to_string(r);
      const std::string peer = " rank " + std::to_string(p);
      if (lane.next_send < lane.sends.size()) {
        return who + " can't send number " + std::to_string(lane.next_send) + " to" + peer;
      }
      if (lane.next_receive < lane.receives.size()) {
        return who + " can't receive number " + std::to_string(lane.next_receive) + " from" + peer;
      }
      if (!lane.arriving.empty()) return who + " does not take all that it gets from" + peer;
    }
  }
  return {};
}

std::string Simulator::Run(Schedule schedule, uint32_t seed) {
  const int size = static_cast<int>(ranks_.size());
  std::mt19937 random(seed);
  schedule_ = schedule;
  slow_ = {static_cast<int>(random() % size), static_cast<int>(random() % size), false};
  std::vector<Event> events;
  for (int rank = 0; rank < size; ++rank) {
    for (int peer = 0; peer < size; ++peer) {
      if (!ranks_[rank].lanes[peer].sends.empty()) events.push_back({rank, peer, true});
      if (!ranks_[rank].lanes[peer].receives.empty()) events.push_back({rank, peer, false});
    }
  }
  while (true) {
    const Event* best = nullptr;
    const size_t start = events.empty() ? 0 : random() % events.size();
    for (size_t i = 0; i < events.size() && (best == nullptr || Cost(*best) > 0); ++i) {
      const Event& event = events[(start + i) % events.size()];
      if ((best == nullptr || Cost(event) < Cost(*best)) && Enabled(event)) best = &event;
    }
    if (best == nullptr) return Unfinished();
    if (best->is_send) {
      Depart(*best);
    } else if (const std::string wrong = Deliver(*best); !wrong.empty()) {
      return wrong;
    }
  }
}

}  // namespace tfring::test
