#include "collective/exchange.h"

#include "collective/topology.h"

namespace tfring {
namespace {

// With two operands the result needs no accumulator.
Program ExchangeWithOne(int self, size_t bytes) {
  Program program;
  program.sends.push_back({1 - self, Send::From::kInput, 0, bytes, /*after=*/-1});
  Receive receive;
  receive.peer = 1 - self;
  receive.action = Receive::Action::kReduceFirst;
  receive.bytes = bytes;
  receive.last = true;
  receive.data_left = self == 1;
  // The output may be the input, which the send reads.
  receive.after_sends = 1;
  program.receives.push_back(receive);
  return program;
}

}  // namespace

Program ExchangeAllreduce(int self, int size, size_t bytes) {
  Program program;
  if (bytes == 0) return program;
  if (size == 2) return ExchangeWithOne(self, bytes);
  program.accumulator_bytes = bytes;
  for (int distance = 1; distance < size; ++distance) {
    program.sends.push_back(
        {Wrap(self + distance, size), Send::From::kInput, 0, bytes, /*after=*/-1});
  }
  for (int rank = 0; rank < size; ++rank) {
    Receive receive;
    receive.peer = rank;
    receive.action = Receive::Action::kAccumulate;
    receive.bytes = bytes;
    receive.first = rank == 0;
    receive.last = rank == size - 1;
    receive.after = rank - 1;
    // The output may be the input, which the sends read.
    if (receive.last) receive.after_sends = size - 1;
    program.receives.push_back(receive);
  }
  return program;
}

}  // namespace tfring
