// What a node of the graph fixes about its operation.
#pragma once

#include <cstdint>
#include <string>

#include "c_api.h"
#include "tf_c_api.h"

namespace tfring {

struct OpAttributes {
  std::string name;  // the ranks match operations by it
  int64_t process_set = 0;
  tfr_reduce_op reduce_op = TFR_SUM;
  int32_t root = 0;
  double prescale = 1;
  double postscale = 1;
};

// Reads those that ops of `kind` have. On failure marks `construction` as failed.
bool ReadAttributes(TF_OpKernelConstruction* construction, tfr_kind kind, OpAttributes* attributes);

// Reads a floating point number with '.' as decimal point, whatever the locale.
bool ParseDouble(const std::string& text, double* value);

}  // namespace tfring
