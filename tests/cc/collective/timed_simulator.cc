#include "collective/timed_simulator.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <utility>

#include "transport/frame.h"

namespace tfring::test {
namespace {

class TimedSimulator {
 public:
  TimedSimulator(const std::vector<Program>& programs, const HostMap& hosts,
                 const CostParameters& costs)
      : programs_(programs), hosts_(hosts), costs_(costs) {
    ranks_.resize(programs.size());
    for (size_t r = 0; r < programs.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.lanes.resize(programs.size());
      for (size_t i = 0; i < programs[r].sends.size(); ++i) {
        rank.lanes[programs[r].sends[i].peer].sends.push_back(static_cast<int>(i));
      }
      for (size_t i = 0; i < programs[r].receives.size(); ++i) {
        rank.lanes[programs[r].receives[i].peer].receives.push_back(static_cast<int>(i));
      }
      rank.received.assign(programs[r].receives.size(), 0);
      rank.left.assign(programs[r].sends.size(), 0);
    }
    for (int host = 0; host < hosts.hosts(); ++host) {
      const int ranks = static_cast<int>(hosts.ranks_on(host).size());
      const double cores = costs.cores_per_host == 0 ? ranks : costs.cores_per_host;
      hosts_state_.push_back({std::max(1, static_cast<int>(cores)), ranks > cores, 0, 0, -1, 0});
    }
  }

  double Run() {
    for (Rank& rank : ranks_) rank.task = {Task::Kind::kCall, 0, 0, costs_.call_s};
    for (int host = 0; host < hosts_.hosts(); ++host) StartTasks(host);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == Event::Kind::kDone) Finish(event.rank);
      if (event.kind == Event::Kind::kArrival) {
        Lane& lane = ranks_[event.rank].lanes[event.peer];
        lane.arrived.push_back({now_, event.bytes});
      }
      if (event.kind == Event::Kind::kReady) ranks_[event.rank].lanes[event.peer].ready = true;
      StartTasks(hosts_.host_of(event.rank));
    }
    return Finished() ? now_ : std::numeric_limits<double>::infinity();
  }

 private:
  struct Task {
    enum class Kind { kCall, kSend, kReceive };
    Kind kind = Kind::kCall;
    int peer = 0;
    size_t bytes = 0;
    double seconds = 0;
  };
  struct Frame {
    double since;
    size_t bytes;
  };
  struct Lane {
    std::vector<int> sends;
    std::vector<int> receives;
    size_t next_send = 0;
    size_t send_at = 0;
    size_t next_receive = 0;
    size_t receive_at = 0;
    size_t sent = 0;
    bool ready = false;
    std::deque<Frame> arrived;
  };
  struct Rank {
    std::vector<Lane> lanes;
    std::vector<char> received;
    std::vector<char> left;
    size_t first_not_left = 0;
    bool called = false;
    bool busy = false;
    Task task;
  };
  struct HostState {
    int cores;
    bool crowded;
    double sends_until;
    double receives_until;
    int last_source;
    int turn;  // which rank gets a free core next
  };
  struct Event {
    enum class Kind { kDone, kArrival, kReady };
    double time;
    long number;
    Kind kind;
    int rank;
    int peer;
    size_t bytes;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  int Size() const { return static_cast<int>(ranks_.size()); }
  bool SameHost(int a, int b) const { return hosts_.host_of(a) == hosts_.host_of(b); }
  const LinkCost& LinkOf(int a, int b) const {
    return SameHost(a, b) ? costs_.memory : costs_.network;
  }
  double Latency(int from, int to) const {
    const bool wakes = hosts_state_[hosts_.host_of(to)].crowded;
    return LinkOf(from, to).latency_s + (wakes ? costs_.wake_s : 0);
  }

  void Add(double time, Event::Kind kind, int rank, int peer = 0, size_t bytes = 0) {
    events_.push({time, events_made_++, kind, rank, peer, bytes});
  }

  // Gives the host's free cores to those of its ranks that have something to do.
  void StartTasks(int host) {
    HostState& state = hosts_state_[host];
    const std::vector<int>& locals = hosts_.ranks_on(host);
    const int count = static_cast<int>(locals.size());
    for (int i = 0; i < count && state.cores > 0; ++i) {
      const int number = locals[(state.turn + i) % count];
      Rank& rank = ranks_[number];
      if (rank.busy || (rank.called && !FindTask(number))) continue;
      rank.busy = true;
      --state.cores;
      Add(now_ + rank.task.seconds, Event::Kind::kDone, number);
    }
    state.turn = (state.turn + 1) % count;
  }

  bool FindTask(int number) { return FindSend(number) || FindReceive(number); }

  bool FindSend(int number) {
    Rank& rank = ranks_[number];
    for (int i = 0; i < Size(); ++i) {
      // Each begins with another one: between hosts the kernel sends on all connections by turns.
      const int peer = (number - 1 - i + 2 * Size()) % Size();
      const Lane& lane = rank.lanes[peer];
      if (lane.next_send == lane.sends.size()) continue;
      const Send& send = programs_[number].sends[lane.sends[lane.next_send]];
      if (send.after >= 0 && !rank.received[send.after]) continue;
      size_t bytes = std::min(send.bytes - lane.send_at, kMaxFrameBytes);
      if (!lane.ready) bytes = std::min(bytes, kEagerBytes - std::min(kEagerBytes, lane.sent));
      if (bytes == 0) continue;
      const LinkCost& link = LinkOf(number, peer);
      rank.task = {Task::Kind::kSend, peer, bytes,
                   link.seconds_per_frame + static_cast<double>(bytes) * link.seconds_per_byte};
      return true;
    }
    return false;
  }

  bool FindReceive(int number) {
    Rank& rank = ranks_[number];
    double oldest = std::numeric_limits<double>::infinity();
    for (int peer = 0; peer < Size(); ++peer) {
      const Lane& lane = rank.lanes[peer];
      if (lane.next_receive == lane.receives.size()) continue;
      const Receive& receive = programs_[number].receives[lane.receives[lane.next_receive]];
      if (receive.after >= 0 && !rank.received[receive.after]) continue;
      if (rank.first_not_left < static_cast<size_t>(receive.after_sends)) continue;
      const bool own = peer == number;
      if (!own && (lane.arrived.empty() || lane.arrived.front().since >= oldest)) continue;
      oldest = own ? -1 : lane.arrived.front().since;
      const size_t bytes = own ? receive.bytes : lane.arrived.front().bytes;
      const LinkCost& link = LinkOf(number, peer);
      const auto count = static_cast<double>(bytes);
      double seconds = own ? 0 : link.seconds_per_frame + count * link.seconds_per_byte;
      if (receive.action != Receive::Action::kCopy) {
        seconds += count * costs_.reduce_seconds_per_byte;
      }
      rank.task = {Task::Kind::kReceive, peer, bytes, seconds};
    }
    return oldest < std::numeric_limits<double>::infinity();
  }

  void Finish(int number) {
    Rank& rank = ranks_[number];
    rank.busy = false;
    ++hosts_state_[hosts_.host_of(number)].cores;
    const Task& task = rank.task;
    if (task.kind == Task::Kind::kCall) {
      rank.called = true;
      for (int peer = 0; peer < Size(); ++peer) {
        if (rank.lanes[peer].receives.empty() || peer == number) continue;
        Add(now_ + Latency(number, peer), Event::Kind::kReady, peer, number);
      }
    }
    if (task.kind == Task::Kind::kSend) FinishSend(number, task.peer, task.bytes);
    if (task.kind == Task::Kind::kReceive) FinishReceive(number, task.peer, task.bytes);
  }

  void FinishSend(int number, int peer, size_t bytes) {
    Rank& rank = ranks_[number];
    Lane& lane = rank.lanes[peer];
    const int index = lane.sends[lane.next_send];
    lane.send_at += bytes;
    lane.sent += bytes;
    if (lane.send_at == programs_[number].sends[index].bytes) {
      rank.left[index] = 1;
      ++lane.next_send;
      lane.send_at = 0;
    }
    while (rank.first_not_left < rank.left.size() && rank.left[rank.first_not_left]) {
      ++rank.first_not_left;
    }
    const double there = SameHost(number, peer) ? now_ : Cross(number, peer, bytes);
    Add(there + Latency(number, peer), Event::Kind::kArrival, peer, number, bytes);
  }

  // When a frame that leaves now has passed the connections of both hosts.
  double Cross(int from, int to, size_t bytes) {
    HostState& source = hosts_state_[hosts_.host_of(from)];
    HostState& target = hosts_state_[hosts_.host_of(to)];
    const double seconds = static_cast<double>(bytes) * costs_.wire_seconds_per_byte;
    const double begin = std::max(now_, source.sends_until);
    source.sends_until = begin + seconds;
    const bool meets_others =
        target.receives_until > begin && target.last_source != hosts_.host_of(from);
    target.last_source = hosts_.host_of(from);
    target.receives_until = std::max(begin, target.receives_until) +
                            seconds * (meets_others ? 1 + costs_.incast_share : 1);
    return target.receives_until;
  }

  void FinishReceive(int number, int peer, size_t bytes) {
    Rank& rank = ranks_[number];
    Lane& lane = rank.lanes[peer];
    if (peer != number) lane.arrived.pop_front();
    const int index = lane.receives[lane.next_receive];
    lane.receive_at += bytes;
    if (lane.receive_at < programs_[number].receives[index].bytes) return;
    rank.received[index] = 1;
    ++lane.next_receive;
    lane.receive_at = 0;
  }

  bool Finished() const {
    for (const Rank& rank : ranks_) {
      for (const Lane& lane : rank.lanes) {
        if (lane.next_send < lane.sends.size() || lane.next_receive < lane.receives.size()) {
          return false;
        }
      }
    }
    return true;
  }

  const std::vector<Program>& programs_;
  const HostMap& hosts_;
  const CostParameters& costs_;
  std::vector<Rank> ranks_;
  std::vector<HostState> hosts_state_;
  std::priority_queue<Event> events_;
  long events_made_ = 0;
  double now_ = 0;
};

}  // namespace

double SimulateSeconds(const std::vector<Program>& programs, const HostMap& hosts,
                       const CostParameters& costs) {
  return TimedSimulator(programs, hosts, costs).Run();
}

}  // namespace tfring::test
