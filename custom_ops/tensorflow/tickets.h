// Which execution of an operation a gradient belongs to.
//
// The engine matches the n-th operation of a name on one rank with the n-th on the others,
// so the operations of one name must run in one order everywhere. For the forward pass
// TensorFlow sees to that (see op_schemas.cc). It does not where it differentiates a function
// that calls another one twice: those two gradients may run in any order, on each rank in
// another one, and would be summed crosswise. So a forward operation gives out a ticket,
// how many of its name have run before, and its gradient carries the ticket in its name.
#pragma once

#include <cstdint>
#include <string>

namespace tfring {

// Takes the next ticket of a name; they begin at 0 with every rendezvous.
int64_t NextTicket(int64_t process_set, const std::string& name);

// The name of an operation that carries a ticket. Names repeat after a while, since the
// engine remembers every name; no gradients that far apart are pending at once.
std::string NameWithTicket(const std::string& name, int64_t ticket);

}  // namespace tfring
