// Control frames as the core sends them: the length is the payload's. A text too long for a
// frame (a message that quotes a very long name) is cut.
#pragma once

#include <string>

#include "transport/link.h"

namespace tfring {

inline void SendControlFrame(Link& link, FrameType type, FrameHeader header,
                             const std::string& payload = "") {
  if (payload.size() > kMaxFrameBytes) {
    return SendControlFrame(link, type, header, payload.substr(0, kMaxFrameBytes));
  }
  header.type = static_cast<uint8_t>(type);
  header.bytes = static_cast<uint32_t>(payload.size());
  link.SendControl(header, payload);
}

}  // namespace tfring
