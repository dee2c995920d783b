#include "collective/cost.h"

#include <ostream>
#include <vector>

#include "collective/timed_simulator.h"
#include "test.h"

namespace tfring::test {
namespace {

using A = AllreduceAlgorithm;
constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

HostMap Hosts(int hosts, int ranks_each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * ranks_each; ++rank) host_of.push_back(rank / ranks_each);
  return HostMap(host_of);
}

struct Layout {
  int hosts;
  int per_host;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.hosts << "x" << layout.per_host;
}

std::vector<Layout> Layouts() {
  return {{1, 2}, {1, 4},  {1, 8},  {1, 16}, {2, 1}, {3, 1}, {4, 1}, {5, 1},
          {8, 1}, {16, 1}, {64, 1}, {2, 2},  {4, 2}, {2, 8}, {8, 4}, {8, 8}};
}

// A rank needs one part of kAlignment to take its share.
constexpr size_t kSizes[] = {4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB};

double Simulated(A algorithm, const AllreduceShape& shape, const CostParameters& costs) {
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.hosts.size(); ++rank) {
    programs.push_back(AllreduceProgram(algorithm, shape, rank));
  }
  return SimulateSeconds(programs, shape.hosts, ForBuffer(costs, static_cast<double>(shape.bytes)));
}

// The factor by which the two may differ. Beyond a power of two recursive doubling has extra steps,
// which partly overlap with others. In the simulation frames of the hierarchical algorithms wait
// behind others at the connections, the more the more streams there are.
double MostOff(A algorithm, int members) {
  switch (algorithm) {
    case A::kRecursiveDoubling:
    case A::kLeadersDoubling:
      return (members & (members - 1)) == 0 ? 1.3 : 1.5;
    case A::kHierarchicalDirect:
    case A::kHierarchicalRing:
      return 1.5;
    default:
      return 1.3;
  }
}

void ExpectAgreement(const Layout& layout, const CostParameters& costs, double slack) {
  const HostMap hosts = Hosts(layout.hosts, layout.per_host);
  const int members = layout.hosts == 1 ? layout.per_host : layout.hosts;
  for (size_t bytes : kSizes) {
    const AllreduceShape shape{DType::kFloat32, bytes, hosts};
    for (A algorithm : kAllreduceAlgorithms) {
      if (!CanRun(algorithm, shape)) continue;
      // Among 64 hosts an exchange of more is millions of frames, and never chosen.
      if (hosts.size() >= 64 && bytes > 64 * kKiB) continue;
      const double estimate = EstimateSeconds(algorithm, shape, costs);
      const double simulated = Simulated(algorithm, shape, costs);
      const double most = slack * MostOff(algorithm, members);
      EXPECT_LE(estimate, most * simulated)
          << bytes << " bytes, algorithm " << static_cast<int>(algorithm);
      EXPECT_LE(simulated, most * estimate)
          << bytes << " bytes, algorithm " << static_cast<int>(algorithm);
    }
  }
}

TEST_EACH(EstimatesAgreeWithSimulation, Layouts()) { ExpectAgreement(param, {}, 1); }

TEST_EACH(EstimatesAgreeOnASlowNetwork, Layouts()) {
  CostParameters costs;
  costs.wire_seconds_per_byte = 8.5e-9;
  costs.network.latency_s = 1e-3;
  ExpectAgreement(param, costs, 1);
}

TEST_EACH(EstimatesAgreeRoughlyOnCrowdedHosts, Layouts()) {
  CostParameters costs;
  costs.cores_per_host = 2;
  ExpectAgreement(param, costs, 1.25);
}

TEST_EACH(MoreBytesTakeLonger, Layouts()) {
  const HostMap hosts = Hosts(param.hosts, param.per_host);
  for (A algorithm : kAllreduceAlgorithms) {
    double before = 0;
    for (size_t bytes = 64 * kKiB; bytes <= 1024 * kMiB; bytes *= 2) {
      const AllreduceShape shape{DType::kFloat32, bytes, hosts};
      if (!CanRun(algorithm, shape)) continue;
      const double seconds = EstimateSeconds(algorithm, shape);
      EXPECT_GE(seconds, before) << bytes << " bytes, algorithm " << static_cast<int>(algorithm);
      before = seconds;
    }
  }
}

TEST(WhatCannotRunTakesForever) {
  const HostMap one = Hosts(1, 4);
  const HostMap four = Hosts(4, 1);
  const HostMap layered = Hosts(2, 2);
  EXPECT_EQ(EstimateSeconds(A::kRing, {DType::kFloat32, kMiB, one}), kNeverSeconds);
  EXPECT_EQ(EstimateSeconds(A::kDirect, {DType::kFloat32, kMiB, four}), kNeverSeconds);
  EXPECT_EQ(EstimateSeconds(A::kRing, {DType::kFloat16, kMiB, four}), kNeverSeconds);
  EXPECT_EQ(EstimateSeconds(A::kExchange, {DType::kFloat32, kMiB, layered}), kNeverSeconds);
  EXPECT_EQ(EstimateSeconds(A::kCopy, {DType::kFloat32, kMiB, one}), kNeverSeconds);
}

TEST(NothingTakesNoTime) {
  EXPECT_EQ(EstimateSeconds(A::kDirect, {DType::kFloat32, 0, Hosts(1, 4)}), 0.0);
}

// Nobody can simulate these; but they are what must not happen.
TEST(ThousandsOfRanksHavePlausibleEstimates) {
  for (int hosts : {512, 4096}) {
    const HostMap map = Hosts(hosts, 1);
    const double wire = 2.0 * 64 * kMiB * CostParameters().wire_seconds_per_byte;
    const double ring = EstimateSeconds(A::kRing, {DType::kFloat32, 64 * kMiB, map});
    EXPECT_GE(ring, wire * 0.99);
    const AllreduceShape small{DType::kFloat32, 4 * kKiB, map};
    EXPECT_LE(EstimateSeconds(A::kRecursiveDoubling, small), 13 * 100e-6);
    EXPECT_GE(EstimateSeconds(A::kRing, small), hosts * CostParameters().network.latency_s);
  }
}

}  // namespace
}  // namespace tfring::test
