// Which rank is on which host.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

namespace tfring {

class HostMap {
 public:
  HostMap() = default;

  // By rank: anything that tells its host from others. Hosts are numbered as they first appear.
  explicit HostMap(const std::vector<int>& host_of_rank) {
    std::map<int, int> numbers;
    for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
      const auto added = numbers.emplace(host_of_rank[rank], static_cast<int>(numbers.size()));
      if (added.second) ranks_.emplace_back();
      host_of_.push_back(added.first->second);
      ranks_[added.first->second].push_back(static_cast<int>(rank));
    }
    fewest_ = size();
    for (const std::vector<int>& ranks : ranks_) {
      fewest_ = std::min(fewest_, static_cast<int>(ranks.size()));
      most_ = std::max(most_, static_cast<int>(ranks.size()));
    }
  }

  static HostMap OneHost(int size) { return HostMap(std::vector<int>(size, 0)); }
  static HostMap OneRankEach(int size) {
    std::vector<int> hosts(size);
    for (int rank = 0; rank < size; ++rank) hosts[rank] = rank;
    return HostMap(hosts);
  }

  int size() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  int host_of(int rank) const { return host_of_[rank]; }
  // Increasing.
  const std::vector<int>& ranks_on(int host) const { return ranks_[host]; }

  // Ranks of the host that has fewest, and of the one that has most.
  int fewest() const { return fewest_; }
  int most() const { return most_; }

  // Several hosts, one of which has several ranks.
  bool layered() const { return hosts() > 1 && hosts() < size(); }

  // All ranks, host by host: a ring in this order crosses each host's connection once each way.
  std::vector<int> HostByHost() const {
    std::vector<int> order;
    for (const std::vector<int>& ranks : ranks_) {
      order.insert(order.end(), ranks.begin(), ranks.end());
    }
    return order;
  }

 private:
  std::vector<int> host_of_;             // by rank
  std::vector<std::vector<int>> ranks_;  // by host
  int fewest_ = 0;
  int most_ = 0;
};

}  // namespace tfring
