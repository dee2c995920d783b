#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

namespace tfring {

Result<std::string> RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  size_t at = 0;
  while (at < size) {
    const ssize_t got = getrandom(bytes.data() + at, size - at, 0);
    if (got < 0 && errno != EINTR) return ErrnoStatus("getrandom");
    if (got > 0) at += static_cast<size_t>(got);
  }
  return bytes;
}

Result<std::string> RandomHex(size_t bytes) {
  auto random = RandomBytes(bytes);
  if (!random.ok()) return random;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : random.value()) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace tfring
