#include "rendezvous/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <thread>
#include <utility>

#include "base/socket.h"
#include "rendezvous/gathering.h"
#include "rendezvous/handshake.h"
#include "rendezvous/table.h"

namespace tfring {
namespace {

// For a request and its response, beyond what the request itself waits for.
constexpr Duration kRoundTrip{30000};
// One attempt to connect and shake hands.
constexpr Duration kAttempt{10000};
// A store whose host can't be reached is given up after so long.
constexpr std::chrono::seconds kUnreachable{12};
// In a crowd of strangers a client may be taken for one of them, but hardly so often.
constexpr int kMostRefusals = 3;
// A name that does not resolve may be about to be published; a misspelt one never is.
constexpr Duration kUnknownHostPatience{3000};

Result<Fd> ConnectOnce(const std::string& host, int port, const std::string& secret,
                       const Deadline& deadline, const Interruption* interruption) {
  auto fd = ConnectTcp(host, port, deadline);
  if (!fd.ok()) return fd;
  auto handshake = Handshake::Initiate(Purpose::kStore, secret, Identity());
  if (!handshake.ok()) return handshake.status();
  while (true) {
    TFR_RETURN_IF_ERROR(handshake.value().Advance(fd.value().get()));
    if (handshake.value().done()) return fd;
    const short events = handshake.value().wants_to_write() ? POLLOUT : POLLIN;
    TFR_RETURN_IF_ERROR(WaitForEvent(fd.value().get(), events, deadline, interruption));
  }
}

Result<Fd> ConnectWithRetries(const std::string& host, int port, const std::string& secret,
                              Duration timeout, const Interruption* interruption) {
  const Deadline deadline(timeout);
  const Deadline known_by = deadline.Within(kUnknownHostPatience);
  Duration pause{10};
  int refusals = 0;
  while (true) {
    auto fd = ConnectOnce(host, port, secret, deadline.Within(kAttempt), interruption);
    if (fd.ok() || fd.status().code() == Code::kInterrupted) return fd;
    if (fd.status().code() == Code::kUnauthenticated && ++refusals >= kMostRefusals) return fd;
    if (fd.status().code() == Code::kInvalidArgument && known_by.passed()) {
      return Status(Code::kIo, fd.status().message());
    }
    if (deadline.passed()) {
      const Code code = fd.status().code();
      return Status(code == Code::kInvalidArgument ? Code::kIo : code,
                    "no connection within " + std::to_string(timeout.count()) +
                        " ms: " + fd.status().message());
    }
    const Status waited = WaitForEvent(-1, 0, deadline.Within(pause), interruption);
    if (waited.code() == Code::kInterrupted) return waited;
    pause = std::min(pause * 2, Duration(500));
  }
}

// kTimeout if the store may be there still.
Status ConnectionLost() {
  const bool unreachable = errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH;
  const Status lost = ErrnoStatus("the connection was lost");
  return unreachable ? Status(Code::kTimeout, lost.message()) : lost;
}

}  // namespace

TcpStore::TcpStore(Fd fd, std::string address, std::string local_address,
                   std::shared_ptr<const Interruption> interruption)
    : fd_(std::move(fd)),
      address_(std::move(address)),
      local_address_(std::move(local_address)),
      interruption_(std::move(interruption)) {}

Result<std::unique_ptr<TcpStore>> TcpStore::Connect(
    const std::string& host, int port, const std::string& secret, Duration timeout,
    std::shared_ptr<const Interruption> interruption) {
  const std::string address = AddressText(host, port);
  auto fd = ConnectWithRetries(host, port, secret, timeout, interruption.get());
  if (!fd.ok()) return fd.status().Annotate("store at " + address);
  SetKeepAlive(fd.value().get(), kUnreachable);
  auto local = LocalAddress(fd.value().get());
  if (!local.ok()) return local.status().Annotate("store at " + address);
  return std::unique_ptr<TcpStore>(new TcpStore(std::move(fd.value()), address,
                                                std::move(local.value()), std::move(interruption)));
}

Status TcpStore::Set(const std::string& key, const std::string& value) {
  TFR_RETURN_IF_ERROR(CheckValue(key, value.size()));
  StoreRequest request;
  request.operation = StoreRequest::kSet;
  request.number = static_cast<int64_t>(value.size());
  return Call(request, key, value, Duration(0)).status();
}

Result<std::string> TcpStore::Get(const std::string& key, Duration timeout) {
  StoreRequest request;
  request.operation = StoreRequest::kGet;
  request.number = std::max<int64_t>(0, timeout.count());
  return Call(request, key, "", timeout);
}

Result<int64_t> TcpStore::Add(const std::string& key, int64_t delta) {
  StoreRequest request;
  request.operation = StoreRequest::kAdd;
  request.number = delta;
  auto response = Call(request, key, "", Duration(0));
  if (!response.ok()) return response.status();
  const std::string& text = response.value();
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return Status(Code::kIo,
                  "store at " + address_ + ": expected a counter, received \"" + text + "\"");
  }
  return value;
}

Status TcpStore::Delete(const std::string& key) {
  StoreRequest request;
  request.operation = StoreRequest::kDelete;
  return Call(request, key, "", Duration(0)).status();
}

Result<std::vector<std::string>> TcpStore::Gather(const std::string& key, int rank, int size,
                                                  const std::string& value, Duration timeout) {
  GatherValue gather;
  gather.rank = rank;
  gather.size = size;
  gather.timeout_ms = std::max<int64_t>(0, timeout.count());
  gather.bytes = value;
  const std::string bytes = gather.Encode();
  TFR_RETURN_IF_ERROR(CheckValue(key, bytes.size()));
  StoreRequest request;
  request.operation = StoreRequest::kGather;
  request.number = static_cast<int64_t>(bytes.size());
  auto response = Call(request, key, bytes, timeout);
  if (!response.ok()) return response.status();
  return DecodeGathered(response.value(), size);
}

Result<std::string> TcpStore::Call(StoreRequest request, const std::string& key,
                                   const std::string& value, Duration timeout) {
  TFR_RETURN_IF_ERROR(CheckKey(key));
  request.key_bytes = static_cast<uint32_t>(key.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!broken_.ok()) return broken_;
  auto response = Exchange(request.Encode() + key + value, Deadline(timeout + kRoundTrip));
  if (!response.ok()) {
    broken_ = response.status().Annotate("store at " + address_);
    fd_.Reset();
    return broken_;
  }
  const auto code = static_cast<Code>(response.value().front());
  std::string payload = response.value().substr(1);
  if (code != Code::kOk) return Status(code, std::move(payload));
  return payload;
}

// Gives the response's code in the first byte and its payload behind.
Result<std::string> TcpStore::Exchange(const std::string& request, const Deadline& deadline) {
  TFR_RETURN_IF_ERROR(SendAll(request, deadline));
  auto header = ReceiveExactly(StoreResponse::kBytes, deadline);
  if (!header.ok()) return header;
  const StoreResponse response = StoreResponse::Decode(header.value().data());
  TFR_RETURN_IF_ERROR(response.Check());
  auto payload = ReceiveExactly(response.bytes, deadline);
  if (!payload.ok()) return payload;
  return static_cast<char>(response.code) + payload.value();
}

Status TcpStore::SendAll(const std::string& bytes, const Deadline& deadline) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t sent = send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TFR_RETURN_IF_ERROR(WaitForEvent(fd_.get(), POLLOUT, deadline, interruption_.get()));
    } else if (errno != EINTR) {
      return ConnectionLost();
    }
  }
  return Status::Ok();
}

Result<std::string> TcpStore::ReceiveExactly(size_t size, const Deadline& deadline) {
  std::string bytes(size, '\0');
  size_t at = 0;
  while (at < size) {
    const ssize_t got = recv(fd_.get(), bytes.data() + at, size - at, 0);
    if (got > 0) {
      at += static_cast<size_t>(got);
    } else if (got == 0) {
      return Status(Code::kIo, "the connection was closed by the store");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TFR_RETURN_IF_ERROR(WaitForEvent(fd_.get(), POLLIN, deadline, interruption_.get()));
    } else if (errno != EINTR) {
      return ConnectionLost();
    }
  }
  return bytes;
}

}  // namespace tfring
