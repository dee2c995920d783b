// Allreduce of small buffers among many ranks: about log2(size) message delays.
//
// In round k, ranks whose numbers differ in bit k alone exchange what they have and reduce
// it: after it, groups of 2^(k+1) ranks hold the same. The operand of the lower rank is the
// left one on both sides, so that both get the same bits. If size is no power of two, the
// first 2 * (size - 2^floor) ranks go in pairs: the even one hands its input to the odd one
// and receives the result at the end.
//
// Rounds to the type of the buffer at every step: not for half types.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of Collective Communication Operations
// in MPICH (2005), section 4.5.
#pragma once

#include "collective/program.h"

namespace tfring {

// size >= 2.
Program RecursiveDoublingAllreduce(int self, int size, size_t bytes);

}  // namespace tfring
