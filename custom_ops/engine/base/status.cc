#include "base/status.h"

#include <cerrno>
#include <system_error>

namespace tfring {

Status ErrnoStatus(const std::string& what) {
  const int error = errno;
  return {Code::kIo, what + ": " + std::generic_category().message(error)};
}

}  // namespace tfring
