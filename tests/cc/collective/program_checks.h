// What can be said of programs without running them, and so for buffers of any size.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collective/program.h"

namespace tfring::test {

// "" when the programs of all ranks fit together: every send has its receive of equal bytes
// in the same place of the order between the two ranks, offsets are within the buffer,
// nothing waits for something that does not come before it, and no receive crosses the end
// of the accumulators. Else what is wrong.
std::string CheckPrograms(const std::vector<Program>& programs, size_t buffer_bytes);

// "" when each byte of [0, bytes) is written exactly once as a result (by a copy or a last
// operand) on a rank with this program, but for `except`, which is not written at all.
std::string CheckResultsCover(const Program& program, size_t bytes, size_t except_offset = 0,
                              size_t except_bytes = 0);

size_t SentBytes(const Program& program);

}  // namespace tfring::test
