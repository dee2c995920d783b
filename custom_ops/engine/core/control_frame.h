// Control frames as the core sends them: the length is the payload's.
#pragma once

#include <string>

#include "transport/link.h"

namespace tfring {

inline void SendControlFrame(Link& link, FrameType type, FrameHeader header,
                             const std::string& payload = "") {
  header.type = static_cast<uint8_t>(type);
  header.bytes = static_cast<uint32_t>(payload.size());
  link.SendControl(header, payload);
}

}  // namespace tfring
