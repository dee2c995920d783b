// How long the programs of all ranks take by the cost model's account of cores, connections and
// latencies (collective/cost_parameters.h): event by event, where EstimateSeconds has a formula.
//
// A rank does one thing at a time, on one of its host's cores: it sends a frame when one may
// leave, else it takes the frame that has waited longest of those that it can use. Frames between
// hosts pass the two hosts' connections in the order in which they come.
#pragma once

#include <vector>

#include "collective/cost_parameters.h"
#include "collective/host_map.h"
#include "collective/program.h"

namespace tfring::test {

// Seconds from the submission on all ranks to the end of the last one. Programs that wait for
// each other forever: infinity.
double SimulateSeconds(const std::vector<Program>& programs, const HostMap& hosts,
                       const CostParameters& costs);

}  // namespace tfring::test
