// What one rank does in one collective, as data: which bytes it sends to whom, what it
// does with the bytes it receives, and what has to come first.
//
// An algorithm is a pure function from (rank, size, bytes) to a Program; one executor
// (core/operation.h) runs any program over any transport. So algorithms are tested
// without I/O, by simulating all ranks, and their cost can be computed for any size.
//
// Offsets are in bytes of a flat buffer: the tensors of the operation one after the
// other. Between two ranks the sends of one match the receives of the other one by one,
// in list order, with equal bytes.
#pragma once

#include <cstddef>
#include <vector>

namespace tfring {

struct Send {
  enum class From { kInput, kOutput };
  int peer = 0;
  From from = From::kInput;
  size_t offset = 0;
  size_t bytes = 0;
  int after = -1;  // index of the receive that must be complete first; -1: none
};

// A receive from the rank itself takes its own input, or output: it fixes where the own
// operand stands in the order of a reduction.
struct Receive {
  enum class Action {
    kCopy,         // output = data
    kReduceFirst,  // output = own input op data
    kReduce,       // output = output op data
    kAccumulate,   // accumulator = data, when `first`; else accumulator op data
  };
  int peer = 0;
  Action action = Action::kCopy;
  size_t offset = 0;
  size_t bytes = 0;
  bool first = false;       // kAccumulate only: starts the accumulator
  bool last = false;        // a reduction's last operand: scale, and write to the output
  bool partial = false;     // kAccumulate, with `last`: not the result yet, does not scale
  bool own_output = false;  // from the rank itself: its output
  bool data_left = false;   // kReduceFirst, kReduce: the data is the left operand
  int after = -1;           // index of the receive that must be complete first; -1: none
  int after_sends = 0;      // so many of the first sends must have left (they read what this
                            // receive overwrites)
};

struct Program {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  // Where accumulators are (kAccumulate): that of the byte at `offset` of the buffer is the
  // one at (offset - accumulator_offset) % accumulator_bytes. So a few serve a long part of
  // the buffer by turns; no receive crosses their end. They are float32 for half types and
  // of the operation's type otherwise.
  size_t accumulator_offset = 0;
  size_t accumulator_bytes = 0;
};

}  // namespace tfring
