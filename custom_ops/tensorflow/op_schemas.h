// The ops' signatures as TensorFlow's graphs and Python see them.
#pragma once

namespace tfring {

// Registers all of them with TensorFlow.
void RegisterOps();

}  // namespace tfring
