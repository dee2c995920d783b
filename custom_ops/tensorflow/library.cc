// What happens when TensorFlow loads libtfring_tf.so.
#include "kernels.h"
#include "op_schemas.h"
#include "xla_target.h"

namespace tfring {
namespace {

__attribute__((constructor)) void Load() {
  RegisterOps();
  RegisterKernels();
  RegisterXlaTarget();
}

}  // namespace
}  // namespace tfring
