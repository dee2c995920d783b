#include "base/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>

namespace tfring {
namespace {

constexpr int kBacklog = 1024;
constexpr int kStream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                                &hints, &list);
  if (error == 0) return Addresses(list);
  if (error == EAI_SYSTEM) return ErrnoStatus("looking up the host");
  const bool unknown = error == EAI_NONAME || error == EAI_NODATA || error == EAI_FAMILY;
  return Status(unknown ? Code::kInvalidArgument : Code::kIo, gai_strerror(error));
}

Result<Fd> ListenAt(const addrinfo& address) {
  Fd fd(socket(address.ai_family, kStream, 0));
  if (!fd.valid()) return ErrnoStatus("socket");
  const int one = 1;
  const int zero = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (address.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
  }
  if (bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0) return ErrnoStatus("bind");
  if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus("listen");
  return fd;
}

Result<Fd> StartConnectAt(const addrinfo& address) {
  Fd fd(socket(address.ai_family, kStream, 0));
  if (!fd.valid()) return ErrnoStatus("socket");
  SetNoDelay(fd.get());
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    return ErrnoStatus("connect");
  }
  return fd;
}

bool IsConnectedToItself(int fd) {
  sockaddr_storage local{};
  sockaddr_storage remote{};
  socklen_t local_length = sizeof(local);
  socklen_t remote_length = sizeof(remote);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_length) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_length) == 0 &&
         local_length == remote_length && std::memcmp(&local, &remote, local_length) == 0;
}

Result<sockaddr_un> AbstractAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument, "unix socket name of " + std::to_string(name.size()) +
                                              " characters: expected 1 to " +
                                              std::to_string(sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

std::string AddressText(const std::string& host, int port) {
  const bool bracket = host.find(':') != std::string::npos;
  return (bracket ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Fd> ListenTcp(const std::string& host, int port) {
  const std::string context = "cannot listen on " + AddressText(host.empty() ? "*" : host, port);
  auto addresses = Resolve(host, port, AI_PASSIVE);
  if (!addresses.ok()) return addresses.status().Annotate(context);
  Status last;
  // For all interfaces an IPv6 socket comes first: it takes IPv4 as well.
  for (const int family : {host.empty() ? AF_INET6 : AF_UNSPEC, AF_UNSPEC}) {
    for (const addrinfo* a = addresses.value().get(); a != nullptr; a = a->ai_next) {
      if (family != AF_UNSPEC && a->ai_family != family) continue;
      auto fd = ListenAt(*a);
      if (fd.ok()) return fd;
      last = fd.status();
    }
  }
  return last.Annotate(context);
}

Result<int> LocalPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ErrnoStatus("getsockname");
  }
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

Result<std::string> LocalAddress(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ErrnoStatus("getsockname");
  }
  char text[NI_MAXHOST];
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text,
                                sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) return Status(Code::kIo, std::string("getnameinfo: ") + gai_strerror(error));
  // An IPv4 connection to a socket that takes both looks like ::ffff:10.0.0.1.
  const std::string literal = text;
  const std::string mapped = "::ffff:";
  return literal.rfind(mapped, 0) == 0 ? literal.substr(mapped.size()) : literal;
}

Result<Fd> StartConnectTcp(const std::string& host, int port) {
  auto addresses = Resolve(host, port, AI_ADDRCONFIG);
  if (!addresses.ok()) return addresses.status();
  return StartConnectAt(*addresses.value());
}

Status FinishConnect(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return ErrnoStatus("connect");
  // Where nobody listens on a port from the ephemeral range, the kernel may choose that
  // very port for this end, and the socket is connected to itself.
  if (error == 0 && !IsConnectedToItself(fd)) return Status::Ok();
  errno = error == 0 ? ECONNREFUSED : error;
  return ErrnoStatus("connect");
}

Result<Fd> ConnectTcp(const std::string& host, int port, const Deadline& deadline) {
  auto addresses = Resolve(host, port, 0);
  if (!addresses.ok()) return addresses.status();
  Status last;
  int left = 0;
  for (const addrinfo* a = addresses.value().get(); a != nullptr; a = a->ai_next) ++left;
  for (const addrinfo* a = addresses.value().get(); a != nullptr; a = a->ai_next, --left) {
    auto fd = StartConnectAt(*a);
    last = fd.status();
    // An address that swallows packets must leave time for the others.
    const Deadline until = deadline.Within(deadline.remaining() / left);
    if (last.ok()) last = WaitForEvent(fd.value().get(), POLLOUT, until);
    if (last.ok()) last = FinishConnect(fd.value().get());
    if (last.ok()) return fd;
  }
  return last;
}

bool IsLoopback(const std::string& literal) {
  return literal.rfind("127.", 0) == 0 || literal == "::1";
}

Result<Fd> ListenUnix(const std::string& name) {
  socklen_t length = 0;
  auto address = AbstractAddress(name, &length);
  if (!address.ok()) return address.status();
  Fd fd(socket(AF_UNIX, kStream, 0));
  if (!fd.valid()) return ErrnoStatus("unix socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.value()), length) != 0) {
    return ErrnoStatus("bind to unix socket @" + name);
  }
  if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus("listen");
  return fd;
}

Result<Fd> StartConnectUnix(const std::string& name) {
  socklen_t length = 0;
  auto address = AbstractAddress(name, &length);
  if (!address.ok()) return address.status();
  Fd fd(socket(AF_UNIX, kStream, 0));
  if (!fd.valid()) return ErrnoStatus("unix socket");
  // Either at once or, when the listener's queue is full (EAGAIN), not at all.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.value()), length) != 0) {
    return ErrnoStatus("connect");
  }
  return fd;
}

Result<Fd> Accept(int listener) {
  Fd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) return fd;
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return ErrnoStatus("accept");
    default:
      return Fd();  // he has gone again, or nobody is there
  }
}

void SetKeepAlive(int fd, std::chrono::seconds time) {
  constexpr int kProbes = 3;
  const int one = 1;
  const int interval = std::max(1, static_cast<int>(time.count()) / (kProbes + 1));
  const auto limit = static_cast<unsigned>(std::chrono::milliseconds(time).count());
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &interval, sizeof(interval));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  // The same for what has been sent and not been acknowledged.
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
}

void SetNoDelay(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

Status WaitForEvent(int fd, short events, const Deadline& deadline,
                    const Interruption* interruption) {
  pollfd entries[] = {{fd, events, 0}, {interruption ? interruption->fd() : -1, POLLIN, 0}};
  while (true) {
    constexpr std::chrono::milliseconds kLongest{3600 * 1000};
    const int timeout = static_cast<int>(std::min(deadline.remaining(), kLongest).count());
    const int ready = poll(entries, 2, timeout);
    if (ready > 0) return entries[1].revents != 0 ? interruption->why() : Status::Ok();
    if (ready < 0 && errno != EINTR) return ErrnoStatus("poll");
    if (ready == 0 && deadline.passed()) return {Code::kTimeout, "no answer in time"};
  }
}

}  // namespace tfring
