#include "collective/cost.h"

#include <algorithm>

#include "collective/direct.h"
#include "collective/topology.h"
#include "transport/frame.h"

namespace tfring {
namespace {

// Of one message: its times on the way when nothing else is.
struct Message {
  double send = 0;     // on a core of the sender
  double wire = 0;     // on the hosts' connections
  double receive = 0;  // on a core of the receiver
  double latency = 0;
  double crowding = 1;  // ranks that share a core, all with such messages
  double streams = 1;   // ranks that share a host's connection, likewise

  double path() const { return send + wire + receive + latency; }
  double slowest() const { return std::max({send, wire, receive}); }
  // What each rank's message takes of what it shares: the pace of many.
  double core() const { return crowding * (send + receive); }
  double connection() const { return streams * wire; }
};

// Every rank sends `count` messages and receives as many, which do not wait for each other.
double Round(double count, const Message& message) {
  if (count == 0) return 0;
  return std::max({message.path() + (count - 1) * message.slowest(), count * message.core(),
                   message.path() - message.wire + count * message.connection()});
}

// The messages of a buffer that is sent as a whole.
struct Cut {
  double frames;
  double bytes;  // of each
};
Cut IntoFrames(size_t bytes) {
  const auto frames = static_cast<double>(std::max<size_t>(1, CeilDiv(bytes, kMaxFrameBytes)));
  return {frames, static_cast<double>(bytes) / frames};
}

enum class Use { kCopy, kReduce };

class Estimator {
 public:
  Estimator(const AllreduceShape& shape, const CostParameters& costs)
      : costs_(ForBuffer(costs, static_cast<double>(shape.bytes))),
        bytes_(shape.bytes),
        ranks_(shape.hosts.size()),
        hosts_(shape.hosts.hosts()),
        per_host_(shape.hosts.most()),
        columns_(shape.hosts.fewest()) {}

  double Copy() const { return Call() + Bytes() * costs_.memory.seconds_per_byte; }

  double Exchange() const {
    return Call() + ExchangeAmong(ranks_, flat_link(), Crowding(per_host_));
  }

  double Doubling() const {
    return Call() + DoublingAmong(ranks_, flat_link(), Crowding(per_host_));
  }

  // Core time is what counts; but the first segment has to come, and to go back.
  double Direct() const {
    const size_t part = LargestPart(bytes_, ranks_);
    const size_t segment = SegmentBytes(part, kDirectSegmentBytes);
    const double segments = static_cast<double>(CeilDiv(part, segment));
    const double peers = ranks_ - 1;
    const double bytes = static_cast<double>(part) / segments;
    const double crowding = Crowding(per_host_);
    const Message input = Over(costs_.memory, bytes, Use::kReduce, crowding, 1, 1);
    const Message result = Over(costs_.memory, bytes, Use::kCopy, crowding, 1, 1);
    const double first = Round(peers, input) + Round(peers, result);
    return Call() + first +
           (segments - 1) * peers *
               std::max(input.core() + result.core(), input.connection() + result.connection());
  }

  // In each step a part goes to the next rank, whose first segment need not wait for its last.
  double Ring() const {
    const Cut part = IntoFrames(LargestPart(bytes_, ranks_));
    return Call() + Steps(ranks_, part, flat_link(), Crowding(per_host_), 1);
  }

  double Leaders(bool doubling) const {
    const LinkCost& network = costs_.network;
    const double among =
        doubling ? DoublingAmong(hosts_, network, 1) : ExchangeAmong(hosts_, network, 1);
    return Call() + ToLeader() + among + FromLeader();
  }

  double Hierarchical(bool ring) const {
    const size_t column = LargestPart(bytes_, columns_);
    const size_t segment = SegmentBytes(LargestPart(column, hosts_), kMaxFrameBytes);
    const auto segments = static_cast<double>(CeilDiv(column, segment));
    const double in_part = std::max(1.0, segments / hosts_);
    const double bytes = static_cast<double>(column) / segments;
    const double locals = per_host_ - 1;
    const double others = (hosts_ - 1) * in_part;
    const double crowding = Crowding(per_host_);
    const double incast = ring ? 1 : Incast(hosts_);

    const Message input = Over(costs_.memory, bytes, Use::kReduce, crowding, 1, 1);
    const Message result = Over(costs_.memory, bytes, Use::kCopy, crowding, 1, 1);
    const Message to_owner = Over(costs_.network, bytes, Use::kReduce, crowding, columns_, incast);
    const Message from_owner = Over(costs_.network, bytes, Use::kCopy, crowding, columns_, incast);

    const double across = ring ? Steps(hosts_, {in_part, bytes}, costs_.network, crowding, columns_)
                               : Round(others, to_owner) + Round(others, from_owner);
    const double path = Round(locals * in_part, input) + across + Round(locals * in_part, result);
    const double latencies = locals > 0 ? input.latency + result.latency + 2 * to_owner.latency : 0;
    const double core = locals * segments * (input.core() + result.core()) +
                        others * (to_owner.core() + from_owner.core());
    // On a crowded host others use the cores meanwhile.
    return Call() + std::max(path, latencies / crowding + core);
  }

 private:
  double Bytes() const { return static_cast<double>(bytes_); }

  // Only one rank a host, or one host.
  const LinkCost& flat_link() const { return hosts_ == 1 ? costs_.memory : costs_.network; }

  // How much longer everything takes that `busy` ranks of a host do at the same time.
  double Crowding(double busy) const {
    return costs_.cores_per_host == 0 ? 1 : std::max(1.0, busy / costs_.cores_per_host);
  }
  double Call() const { return costs_.call_s * Crowding(per_host_); }

  // Of messages to a host from all others among so many.
  double Incast(int senders_and_receiver) const {
    return senders_and_receiver > 2 ? 1 + costs_.incast_share : 1;
  }

  Message Over(const LinkCost& link, double bytes, Use use, double crowding, double streams,
               double incast) const {
    Message message;
    message.send = link.seconds_per_frame + bytes * link.seconds_per_byte;
    message.receive =
        message.send + (use == Use::kReduce ? bytes * costs_.reduce_seconds_per_byte : 0);
    message.wire = &link == &costs_.network ? incast * bytes * costs_.wire_seconds_per_byte : 0;
    message.latency = link.latency_s + (Crowding(per_host_) > 1 ? costs_.wake_s : 0);
    message.crowding = crowding;
    message.streams = streams;
    return message;
  }

  // More than the eager window waits for the receiver's word, which is a latency away.
  double Ready(double bytes, const Message& message, double peers) const {
    if (bytes <= static_cast<double>(kEagerBytes)) return 0;
    const double eager_share = static_cast<double>(kEagerBytes) / bytes;
    return std::max(0.0, message.latency - eager_share * peers * message.slowest());
  }

  double ExchangeAmong(int members, const LinkCost& link, double crowding) const {
    const Cut cut = IntoFrames(bytes_);
    const Message message = Over(link, cut.bytes, Use::kReduce, crowding, 1, Incast(members));
    const double peers = members - 1;
    const double count = peers * cut.frames;
    const double own = members > 2 ? crowding * Bytes() * costs_.reduce_seconds_per_byte : 0;
    // Operands are reduced in rank order, and the first may be the last to come.
    const double in_order =
        message.path() + (count - 1) * (std::max(message.send, message.wire) + message.receive);
    return own + std::max(members > 2 ? in_order : 0, Round(count, message)) +
           Ready(Bytes(), message, peers);
  }

  double DoublingAmong(int members, const LinkCost& link, double crowding) const {
    const Cut cut = IntoFrames(bytes_);
    const Message message = Over(link, cut.bytes, Use::kReduce, crowding, 1, 1);
    const int rounds = CeilLog2(members + 1) - 1;
    double seconds = rounds * Round(cut.frames, message) + Ready(Bytes(), message, 1);
    if ((1 << rounds) < members) {
      // Some ranks hand their operands to others first, and get the results from them.
      seconds += Round(cut.frames, message) +
                 Round(cut.frames, Over(link, cut.bytes, Use::kCopy, crowding, 1, 1));
    }
    return seconds;
  }

  double Steps(int members, const Cut& part, const LinkCost& link, double crowding,
               double streams) const {
    double seconds = 0;
    for (Use use : {Use::kReduce, Use::kCopy}) {
      const Message message = Over(link, part.bytes, use, crowding, streams, 1);
      seconds +=
          (members - 1) *
          std::max(message.path(), part.frames * std::max(message.core(), message.connection()));
    }
    const Message message = Over(link, part.bytes, Use::kReduce, crowding, streams, 1);
    return seconds + Ready(part.frames * part.bytes, message, 1);
  }

  // All others of the host send at once; the leader takes one after the other.
  double ToLeader() const {
    const double others = per_host_ - 1;
    if (others == 0) return 0;
    const Message message = Over(costs_.memory, Bytes(), Use::kReduce, 1, 1, 1);
    return message.send * Crowding(others) + message.latency + others * message.receive +
           Bytes() * costs_.reduce_seconds_per_byte;
  }
  double FromLeader() const {
    const double others = per_host_ - 1;
    if (others == 0) return 0;
    const Message message = Over(costs_.memory, Bytes(), Use::kCopy, 1, 1, 1);
    return others * message.send + message.latency + message.receive;
  }

  const CostParameters costs_;
  const size_t bytes_;
  const int ranks_;
  const int hosts_;
  const int per_host_;  // ranks of the host that has most
  const int columns_;   // of the one that has fewest
};

}  // namespace

double EstimateSeconds(AllreduceAlgorithm algorithm, const AllreduceShape& shape,
                       const CostParameters& costs) {
  if (!CanRun(algorithm, shape)) return kNeverSeconds;
  if (shape.bytes == 0) return 0;
  const Estimator estimator(shape, costs);
  switch (algorithm) {
    case AllreduceAlgorithm::kCopy:
      return estimator.Copy();
    case AllreduceAlgorithm::kExchange:
      return estimator.Exchange();
    case AllreduceAlgorithm::kRecursiveDoubling:
      return estimator.Doubling();
    case AllreduceAlgorithm::kDirect:
      return estimator.Direct();
    case AllreduceAlgorithm::kRing:
      return estimator.Ring();
    case AllreduceAlgorithm::kLeadersExchange:
      return estimator.Leaders(/*doubling=*/false);
    case AllreduceAlgorithm::kLeadersDoubling:
      return estimator.Leaders(/*doubling=*/true);
    case AllreduceAlgorithm::kHierarchicalDirect:
      return estimator.Hierarchical(/*ring=*/false);
    case AllreduceAlgorithm::kHierarchicalRing:
      return estimator.Hierarchical(/*ring=*/true);
  }
  return kNeverSeconds;
}

}  // namespace tfring
