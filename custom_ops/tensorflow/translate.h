// The engine's codes and data types in TensorFlow's terms.
#pragma once

#include "c_api.h"
#include "tf_c_api.h"

namespace tfring {

// The code under which Python sees an engine error: tf.errors.AbortedError for a lost
// peer, and so on. docs/errors.md has the table.
TF_Code ToTensorFlow(tfr_code code);

// False when the engine has no such type; the op schemas let none of those through.
bool FromTensorFlow(TF_DataType type, tfr_dtype* dtype);

}  // namespace tfring
