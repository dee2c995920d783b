#include "transport/peer_address.h"

#include "base/wire.h"

namespace tfring {

std::string PeerAddress::Encode() const {
  return WireWriter().String(host_id).String(address).Number(port).String(unix_name).Take();
}

Result<PeerAddress> PeerAddress::Decode(const std::string& bytes) {
  WireReader reader(bytes);
  PeerAddress peer;
  peer.host_id = reader.String();
  peer.address = reader.String();
  peer.port = reader.Number<uint16_t>();
  peer.unix_name = reader.String();
  if (!reader.complete()) {
    return Status(Code::kIo, "the store holds a malformed address of " +
                                 std::to_string(bytes.size()) + " bytes");
  }
  return peer;
}

}  // namespace tfring
