// The little of XLA that running our operations inside a compiled function takes.
//
// XLA has no C API for this in every TensorFlow we serve (2.16 and later), so these are three
// declarations of its C++ one. The registry's functions are weak: where a TensorFlow lacks
// them, the library still loads and XLA is refused with a clear message (tfring/xla.py).
#pragma once

#include <optional>
#include <string>

// xla/service/custom_call_status_internal.h. A message means that the call failed. (The
// functions to set it are not exported by TensorFlow's libraries.)
struct XlaCustomCallStatus_ {
  std::optional<std::string> message;
};

namespace xla {

// xla/service/custom_call_target_registry.h
class CustomCallTargetRegistry {
 public:
  __attribute__((weak)) static CustomCallTargetRegistry* Global();
  __attribute__((weak)) void Register(const std::string& symbol, void* address,
                                      const std::string& platform);
};

}  // namespace xla
