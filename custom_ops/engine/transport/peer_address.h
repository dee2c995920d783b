// Where a rank can be reached, as it tells the others in the store.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace tfring {

struct PeerAddress {
  std::string host_id;
  std::string address;  // IP literal
  uint16_t port = 0;
  std::string unix_name;  // abstract, on its host

  std::string Encode() const;
  static Result<PeerAddress> Decode(const std::string& bytes);
};

}  // namespace tfring
