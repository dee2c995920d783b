// One submitted operation, as the engine keeps it: c_api.h's tfr_request, copied.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "collective/choose.h"

namespace tfring {

enum class Kind : int { kAllreduce = 0, kBroadcast = 1, kAllgather = 2, kBarrier = 3 };
constexpr int kKindCount = 4;

constexpr const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kAllreduce:
      return "allreduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllgather:
      return "allgather";
    case Kind::kBarrier:
      return "barrier";
  }
  return "unknown";
}

struct Tensor {
  const uint8_t* input = nullptr;
  uint8_t* output = nullptr;
  std::vector<int64_t> dims;
};

struct Request {
  std::string name;
  int64_t process_set = 0;
  Kind kind = Kind::kBarrier;
  DType dtype = DType::kUInt8;
  ReduceOp reduce_op = ReduceOp::kSum;
  int root = 0;
  double prescale = 1;
  double postscale = 1;
  // Of an allreduce: what this rank's options ask for.
  AllreduceFamily algorithm = AllreduceFamily::kAny;
  std::vector<Tensor> tensors;
  // Memory for a gathered tensor; see tfr_allocate_fn.
  std::function<void*(int index, const std::vector<int64_t>& first_dims)> allocate;
  std::function<void(const Status&)> done;
};

// Elements of a tensor; -1 when that does not fit, or a dimension is negative.
int64_t ElementsOf(const std::vector<int64_t>& dims);

// Bytes of all tensors; those with impossible dimensions count nothing.
size_t BytesOf(const Request& request);

// Whether the request makes sense by itself, whatever the other ranks say.
Status Validate(const Request& request);

// What all ranks must agree on, for people: "float32 [3, 4], sum".
std::string Describe(const Request& request);

// The same as a number: equal for requests that match, different (but for chance) for
// others. The first dimensions of an allgather are not part of it.
uint32_t DigestOf(const Request& request);

// Number of the conversation's name within its process set.
uint64_t NameIdOf(int64_t process_set, const std::string& name);

}  // namespace tfring
