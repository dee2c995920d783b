// Copies to memory that another core reads next.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tfring {

// As memcpy, but past the caches, where the processor has a way to do that.
//
// An ordinary copy leaves the bytes in this core's cache, and the reader must fetch them from
// there, line by line: where two cores share no cache that is several times slower than
// memory, which it can read ahead. Where they do share one, this costs about a third more.
// What is stored so is visible to others once a later store with release order is.
void StreamCopy(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace tfring
