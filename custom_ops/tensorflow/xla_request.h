// What a custom call of a compiled function asks for, as written by tfring/xla.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "c_api.h"

namespace tfring {

struct XlaTensor {
  tfr_dtype dtype = TFR_FLOAT32;
  std::vector<int64_t> dims;
  std::vector<int64_t> result_dims;  // an allgather's; else as `dims`
};

struct XlaRequest {
  tfr_kind kind = TFR_ALLREDUCE;
  tfr_reduce_op reduce_op = TFR_SUM;
  int32_t root = 0;
  int64_t process_set = 0;
  double prescale = 1;
  double postscale = 1;
  std::vector<XlaTensor> tensors;
  std::string name;
};

// Reads the text, whose fields are separated by blanks:
//
//   kind reduce_op root process_set prescale postscale count
//   then for each tensor: dtype rank first_result_dim dim...
//   then the name, up to the end (it may contain blanks)
//
// False when it is something else, which is a bug of ours.
bool ParseXlaRequest(const std::string& text, XlaRequest* request);

}  // namespace tfring
