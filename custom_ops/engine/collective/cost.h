// What an allreduce takes, in closed form: from a few constants of the machine that are fitted to
// measurements (benchmarks/cost_model.py), for any number of ranks.
//
// A message of b bytes occupies a core of its sender for seconds_per_frame + b seconds_per_byte,
// then, between hosts, the connections of both hosts for b wire_seconds_per_byte. A latency
// later it occupies a core of its receiver as long as the sender's, and for a reduction b
// reduce_seconds_per_byte more. A rank does one thing at a time. docs/cost_model.md has each
// algorithm's formula.
#pragma once

#include "collective/choose.h"

namespace tfring {

// The estimate for an algorithm that can't run on that shape: greater than any other.
constexpr double kNeverSeconds = 1e30;

// From the moment that the last rank submits to the moment that the last one is done. The same
// bits on every rank.
double EstimateSeconds(AllreduceAlgorithm algorithm, const AllreduceShape& shape,
                       const CostParameters& costs = {});

}  // namespace tfring
