// Allreduce of small buffers among few ranks: one message delay.
//
// Every rank sends its whole input to every other and reduces all `size` operands itself,
// in rank order, so that all get the same bits. Sends (size - 1) times the buffer.
#pragma once

#include "collective/program.h"

namespace tfring {

Program ExchangeAllreduce(int self, int size, size_t bytes);

}  // namespace tfring
