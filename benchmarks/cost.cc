// Predictions of the cost model as JSON, for benchmarks/cost_model.py.
//
//   cmake --build BUILD --target tfring_cost
//   BUILD/tests/tfring_cost NAME=VALUE... < QUERIES
//
// The arguments are constants of the model (collective/cost_parameters.h; the names are in FieldOf
// below); simulate=1 adds simulations. Each line of standard input is a query:
//
//   HOSTS RANKS_PER_HOST BYTES WIRE_SECONDS_PER_BYTE CORES_PER_HOST
//
// The answer is a line of JSON: which algorithm is chosen, and for each that can run the estimate
// and, up to 64 ranks, what the simulation of its programs takes; in seconds.
#include "collective/cost.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "collective/timed_simulator.h"

namespace {

using tfring::AllreduceAlgorithm;
using tfring::CostParameters;

constexpr int kMostSimulated = 64;
constexpr double kMostSimulatedFrames = 2e6;

const char* NameOf(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::kCopy:
      return "copy";
    case AllreduceAlgorithm::kExchange:
      return "exchange";
    case AllreduceAlgorithm::kRecursiveDoubling:
      return "doubling";
    case AllreduceAlgorithm::kDirect:
      return "direct";
    case AllreduceAlgorithm::kRing:
      return "ring";
    case AllreduceAlgorithm::kLeadersExchange:
      return "leaders exchange";
    case AllreduceAlgorithm::kLeadersDoubling:
      return "leaders doubling";
    case AllreduceAlgorithm::kHierarchicalDirect:
      return "hierarchical direct";
    case AllreduceAlgorithm::kHierarchicalRing:
      return "hierarchical ring";
  }
  return "";
}

// Null when there is no constant of that name.
double* FieldOf(CostParameters& costs, const std::string& name) {
  const struct {
    const char* name;
    double* value;
  } fields[] = {
      {"memory_latency_s", &costs.memory.latency_s},
      {"memory_seconds_per_frame", &costs.memory.seconds_per_frame},
      {"memory_seconds_per_byte", &costs.memory.seconds_per_byte},
      {"network_latency_s", &costs.network.latency_s},
      {"network_seconds_per_frame", &costs.network.seconds_per_frame},
      {"network_seconds_per_byte", &costs.network.seconds_per_byte},
      {"call_s", &costs.call_s},
      {"reduce_seconds_per_byte", &costs.reduce_seconds_per_byte},
      {"beyond_cache_share", &costs.beyond_cache_share},
      {"incast_share", &costs.incast_share},
      {"wake_s", &costs.wake_s},
  };
  for (const auto& field : fields) {
    if (name == field.name) return field.value;
  }
  return nullptr;
}

bool Read(const char* argument, CostParameters& costs, bool& simulate) {
  const char* const equals = std::strchr(argument, '=');
  if (equals == nullptr) return false;
  const std::string name(argument, equals);
  const double value = std::atof(equals + 1);
  if (name == "simulate") {
    simulate = value != 0;
    return true;
  }
  double* const field = FieldOf(costs, name);
  if (field != nullptr) *field = value;
  return field != nullptr;
}

// Negative: too large to simulate.
double Simulated(AllreduceAlgorithm algorithm, const tfring::AllreduceShape& shape,
                 const CostParameters& costs) {
  if (shape.hosts.size() > kMostSimulated) return -1;
  std::vector<tfring::Program> programs;
  double frames = 0;
  for (int rank = 0; rank < shape.hosts.size(); ++rank) {
    programs.push_back(AllreduceProgram(algorithm, shape, rank));
    frames += static_cast<double>(programs.back().sends.size()) * shape.hosts.size();
    if (frames > kMostSimulatedFrames) return -1;
  }
  return tfring::test::SimulateSeconds(programs, shape.hosts,
                                       ForBuffer(costs, static_cast<double>(shape.bytes)));
}

void Answer(int hosts, int per_host, size_t bytes, const CostParameters& costs, bool simulate) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * per_host; ++rank) host_of.push_back(rank / per_host);
  const tfring::HostMap map(host_of);
  const tfring::AllreduceShape shape{tfring::DType::kFloat32, bytes, map};
  tfring::AlgorithmOptions options;
  options.costs = costs;
  std::printf("{\"hosts\": %d, \"per_host\": %d, \"bytes\": %zu, \"chosen\": \"%s\"", hosts,
              per_host, bytes, NameOf(ChooseAllreduceAlgorithm(shape, options)));
  std::string estimates;
  std::string simulated;
  for (AllreduceAlgorithm algorithm : tfring::kAllreduceAlgorithms) {
    if (!CanRun(algorithm, shape)) continue;
    const auto add = [&](std::string& to, double seconds) {
      char text[100];
      std::snprintf(text, sizeof(text), "%s\"%s\": %.9g", to.empty() ? "" : ", ", NameOf(algorithm),
                    seconds);
      to += text;
    };
    add(estimates, EstimateSeconds(algorithm, shape, costs));
    const double seconds = !simulate ? -1 : Simulated(algorithm, shape, costs);
    if (seconds >= 0) add(simulated, seconds);
  }
  std::printf(", \"estimates\": {%s}, \"simulated\": {%s}}\n", estimates.c_str(),
              simulated.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  CostParameters costs;
  bool simulate = false;
  for (int i = 1; i < count; ++i) {
    if (!Read(arguments[i], costs, simulate)) {
      std::fprintf(stderr, "expected NAME=VALUE of a constant, received %s\n", arguments[i]);
      return 1;
    }
  }
  int hosts = 0;
  int per_host = 0;
  size_t bytes = 0;
  while (std::cin >> hosts >> per_host >> bytes >> costs.wire_seconds_per_byte >>
         costs.cores_per_host) {
    Answer(hosts, per_host, bytes, costs, simulate);
  }
  return 0;
}
