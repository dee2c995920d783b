#include "collective/leaders.h"

#include <vector>

#include "collective/exchange.h"
#include "collective/recursive_doubling.h"

namespace tfring {
namespace {

// Appends a program of the leaders in which each starts from what it has in its output: an
// algorithm that works in place does not mind.
void Append(Program* program, Program among, const HostMap& hosts, bool from_output) {
  const int receives = static_cast<int>(program->receives.size());
  const int sends = static_cast<int>(program->sends.size());
  const auto moved = [&](int after) { return after < 0 ? receives - 1 : after + receives; };
  for (Send& send : among.sends) {
    send.peer = hosts.ranks_on(send.peer)[0];
    send.after = moved(send.after);
    if (from_output) send.from = Send::From::kOutput;
    program->sends.push_back(send);
  }
  for (Receive& receive : among.receives) {
    receive.peer = hosts.ranks_on(receive.peer)[0];
    receive.after = moved(receive.after);
    if (receive.after_sends > 0) receive.after_sends += sends;
    if (from_output) {
      receive.own_output = true;
      if (receive.action == Receive::Action::kReduceFirst) {
        receive.action = Receive::Action::kReduce;
      }
    }
    program->receives.push_back(receive);
  }
}

}  // namespace

Program LeadersAllreduce(int self, const HostMap& hosts, size_t bytes, AmongLeaders algorithm) {
  Program program;
  if (bytes == 0) return program;
  const int host = hosts.host_of(self);
  const std::vector<int>& locals = hosts.ranks_on(host);
  Receive receive;
  receive.bytes = bytes;
  if (self != locals[0]) {
    program.sends.push_back({locals[0], Send::From::kInput, 0, bytes, -1});
    receive.peer = locals[0];
    program.receives.push_back(receive);
    return program;
  }
  program.accumulator_bytes = bytes;
  for (size_t i = 0; i < locals.size() && locals.size() > 1; ++i) {
    receive.peer = locals[i];
    receive.action = Receive::Action::kAccumulate;
    receive.first = i == 0;
    receive.last = receive.partial = i + 1 == locals.size();
    receive.after = static_cast<int>(i) - 1;
    program.receives.push_back(receive);
  }
  Append(&program,
         algorithm == AmongLeaders::kExchange
             ? ExchangeAllreduce(host, hosts.hosts(), bytes)
             : RecursiveDoublingAllreduce(host, hosts.hosts(), bytes),
         hosts, /*from_output=*/locals.size() > 1);
  const int done = static_cast<int>(program.receives.size()) - 1;
  for (size_t i = 1; i < locals.size(); ++i) {
    program.sends.push_back({locals[i], Send::From::kOutput, 0, bytes, done});
  }
  return program;
}

}  // namespace tfring
