// The ops' kernels: check, submit to the engine, return.
#pragma once

namespace tfring {

// Registers all of them, for the CPU. On a machine with other devices TensorFlow copies
// tensors to and from the host by itself.
void RegisterKernels();

}  // namespace tfring
