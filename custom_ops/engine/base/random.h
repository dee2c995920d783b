// Random bytes from the kernel, fit for nonces and names nobody can guess.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace tfring {

Result<std::string> RandomBytes(size_t size);

// Twice as many characters as bytes.
Result<std::string> RandomHex(size_t bytes);

}  // namespace tfring
