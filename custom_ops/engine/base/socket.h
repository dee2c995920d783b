// Stream sockets, TCP and abstract unix: all non-blocking and close-on-exec.
#pragma once

#include <chrono>
#include <string>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/interruption.h"
#include "base/status.h"

namespace tfring {

// "10.0.0.1:80", "[::1]:80".
std::string AddressText(const std::string& host, int port);

// host: IP literal or name; "" for all interfaces. port 0: any free one. kIo names the
// address.
Result<Fd> ListenTcp(const std::string& host, int port);
Result<int> LocalPort(int fd);
// The local end's address as an IP literal.
Result<std::string> LocalAddress(int fd);

// An IP literal that only its own host reaches.
bool IsLoopback(const std::string& literal);

// Starts connecting; the socket gets writable when FinishConnect can tell how it went.
// host: IP literal or name, of which the first address is taken.
Result<Fd> StartConnectTcp(const std::string& host, int port);
Status FinishConnect(int fd);

// Tries every address of the name. kInvalidArgument when there is no such host, kTimeout
// when no answer came, kIo otherwise; the message has no host and port.
Result<Fd> ConnectTcp(const std::string& host, int port, const Deadline& deadline);

// Abstract names live in the network namespace and vanish with the listener.
Result<Fd> ListenUnix(const std::string& name);
Result<Fd> StartConnectUnix(const std::string& name);

// An invalid Fd when nobody waits, or he has gone again; otherwise an error of this
// process, such as too many open files.
Result<Fd> Accept(int listener);

// Sends small messages at once.
void SetNoDelay(int fd);

// Has the system find out within this time that the other host can't be reached, also while
// there is nothing to send. A process there that just does not answer is none of that.
void SetKeepAlive(int fd, std::chrono::seconds time);

// Waits for POLLIN or POLLOUT; kTimeout, or why it was interrupted. Of fd -1 nothing comes.
Status WaitForEvent(int fd, short events, const Deadline& deadline,
                    const Interruption* interruption = nullptr);

}  // namespace tfring
