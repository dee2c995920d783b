// Allgather with a block of any size from each rank, by direct sends: one message delay.
// ring.h has the other one.
//
// `blocks` is the bytes of each rank's block, by rank. In the output they stand one after
// the other. A rank's own block is in its place there before the program starts: nothing
// is sent from the input.
#pragma once

#include <vector>

#include "collective/program.h"

namespace tfring {

Program DirectAllgather(int self, const std::vector<size_t>& blocks);

}  // namespace tfring
