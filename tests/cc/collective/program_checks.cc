#include "collective/program_checks.h"

#include <algorithm>
#include <utility>

namespace tfring::test {
namespace {

std::string Where(const char* what, size_t rank, size_t index) {
  return std::string(what) + " " + std::to_string(index) + " of rank " + std::to_string(rank);
}

std::string CheckProgram(const Program& program, size_t rank, size_t size, size_t buffer_bytes) {
  for (size_t i = 0; i < program.sends.size(); ++i) {
    const Send& send = program.sends[i];
    const std::string where = Where("send", rank, i);
    if (send.peer < 0 || static_cast<size_t>(send.peer) >= size ||
        static_cast<size_t>(send.peer) == rank) {
      return where + " goes to rank " + std::to_string(send.peer);
    }
    if (send.bytes == 0) return where + " is empty";
    if (send.offset > buffer_bytes || send.bytes > buffer_bytes - send.offset) {
      return where + " ends beyond the buffer";
    }
    if (send.after >= static_cast<int>(program.receives.size())) {
      return where + " waits for no receive";
    }
  }
  for (size_t i = 0; i < program.receives.size(); ++i) {
    const Receive& receive = program.receives[i];
    const std::string where = Where("receive", rank, i);
    if (receive.peer < 0 || static_cast<size_t>(receive.peer) >= size) {
      return where + " comes from rank " + std::to_string(receive.peer);
    }
    if (receive.bytes == 0) return where + " is empty";
    if (receive.offset > buffer_bytes || receive.bytes > buffer_bytes - receive.offset) {
      return where + " ends beyond the buffer";
    }
    if (receive.after >= static_cast<int>(i)) return where + " waits for itself or a later one";
    if (receive.after_sends > static_cast<int>(program.sends.size())) {
      return where + " waits for more sends than there are";
    }
    if (receive.action != Receive::Action::kAccumulate) continue;
    const size_t at = (receive.offset - program.accumulator_offset) % program.accumulator_bytes;
    if (receive.offset < program.accumulator_offset ||
        at + receive.bytes > program.accumulator_bytes) {
      return where + " crosses the end of the accumulators";
    }
  }
  return {};
}

// The bytes of the messages from one rank to another, in order.
std::vector<size_t> SentTo(const Program& program, size_t peer) {
  std::vector<size_t> sizes;
  for (const Send& send : program.sends) {
    if (static_cast<size_t>(send.peer) == peer) sizes.push_back(send.bytes);
  }
  return sizes;
}

std::vector<size_t> ReceivedFrom(const Program& program, size_t peer) {
  std::vector<size_t> sizes;
  for (const Receive& receive : program.receives) {
    if (static_cast<size_t>(receive.peer) == peer) sizes.push_back(receive.bytes);
  }
  return sizes;
}

}  // namespace

std::string CheckPrograms(const std::vector<Program>& programs, size_t buffer_bytes) {
  const size_t size = programs.size();
  for (size_t rank = 0; rank < size; ++rank) {
    std::string wrong = CheckProgram(programs[rank], rank, size, buffer_bytes);
    if (!wrong.empty()) return wrong;
    for (size_t peer = 0; peer < size; ++peer) {
      if (peer == rank || SentTo(programs[rank], peer) == ReceivedFrom(programs[peer], rank)) {
        continue;
      }
      return "what rank " + std::to_string(rank) + " sends to rank " + std::to_string(peer) +
             " is not what that expects";
    }
  }
  return {};
}

std::string CheckResultsCover(const Program& program, size_t bytes, size_t except_offset,
                              size_t except_bytes) {
  std::vector<std::pair<size_t, size_t>> results;  // offset, bytes
  if (except_bytes > 0) results.emplace_back(except_offset, except_bytes);
  for (const Receive& receive : program.receives) {
    if ((receive.last && !receive.partial) || receive.action == Receive::Action::kCopy) {
      results.emplace_back(receive.offset, receive.bytes);
    }
  }
  std::sort(results.begin(), results.end());
  size_t end = 0;
  for (const auto& result : results) {
    if (result.first > end) return "no result at " + std::to_string(end);
    if (result.first < end) return "two results at " + std::to_string(result.first);
    end += result.second;
  }
  return end == bytes ? "" : "results end at " + std::to_string(end);
}

size_t SentBytes(const Program& program) {
  size_t bytes = 0;
  for (const Send& send : program.sends) bytes += send.bytes;
  return bytes;
}

}  // namespace tfring::test
