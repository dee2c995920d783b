// Barrier by dissemination: ceil(log2(size)) message delays.
//
// In round k every rank tells the one 2^k further on, and hears from the one 2^k before it,
// that all within reach have come. After the last round that is everyone.
//
// D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization (1988).
#pragma once

#include "collective/program.h"

namespace tfring {

// Size of the buffer that a barrier needs, input and output in one. Its bytes mean nothing:
// the first is sent, the one behind it is received in round 0, the next in round 1, ...
size_t BarrierScratchBytes(int size);

Program DisseminationBarrier(int self, int size);

}  // namespace tfring
