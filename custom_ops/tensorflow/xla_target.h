// Operations inside a function that XLA compiles (jit_compile=True): one custom call each.
#pragma once

namespace tfring {

// The name under which tfring/xla.py calls the target.
constexpr char kXlaTarget[] = "TfringCollective";

// Makes the target known to XLA for the host. False when this TensorFlow has no registry.
bool RegisterXlaTarget();

}  // namespace tfring

// For tfring/xla.py (ctypes): 1 when compiled functions can call us in this TensorFlow.
extern "C" __attribute__((visibility("default"))) int tfring_tf_xla_ready(void);
