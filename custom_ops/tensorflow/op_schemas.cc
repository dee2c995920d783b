#include "op_schemas.h"

#include <cstdio>
#include <initializer_list>

#include "shape_functions.h"
#include "tf_handles.h"

namespace tfring {
namespace {

constexpr const char* kTypes =
    "T: {half, bfloat16, float, double, int8, uint8, int32, int64, bool}";

using ShapeFunction = void (*)(TF_ShapeInferenceContext*, TF_Status*);

// Every op is stateful: none may be merged, dropped or computed beforehand.
//
// The `order` input is a resource handle that kernels ignore. tf.function runs stateful ops
// one after another unless they name the resources they touch; those that touch different
// ones run at the same time. With one handle per operation name, different buckets overlap,
// while two executions of one name keep their program order, on all ranks alike. (The
// engine matches the n-th of a name here with the n-th elsewhere.)
void RegisterOp(const char* op, std::initializer_list<const char*> inputs,
                std::initializer_list<const char*> outputs,
                std::initializer_list<const char*> attributes, ShapeFunction shapes) {
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(op);
  for (const char* input : inputs) TF_OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : outputs) TF_OpDefinitionBuilderAddOutput(builder, output);
  for (const char* attribute : attributes) TF_OpDefinitionBuilderAddAttr(builder, attribute);
  TF_OpDefinitionBuilderSetIsStateful(builder, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, shapes);
  const StatusHolder status;
  TF_RegisterOpDefinition(builder, status);  // deletes the builder
  // We run while the library loads, with nobody to return an error to. Python looks for
  // every op afterwards and raises.
  if (!status.ok()) std::fprintf(stderr, "tfring: op %s: %s\n", op, TF_Message(status));
}

}  // namespace

void RegisterOps() {
  RegisterOp("TfringAllreduce", {"tensors: N * T", "order: resource"},
             {"reduced: N * T", "ticket: int64"},
             {"N: int >= 1", kTypes, "tensor_name: string", "process_set: int = 0",
              "reduce_op: int", "prescale: string = '1'", "postscale: string = '1'"},
             ReducedShapes);
  // Tickets: see tickets.h.
  RegisterOp("TfringAllreduceGradient", {"tensors: N * T", "ticket: int64", "order: resource"},
             {"reduced: N * T"},
             {"N: int >= 1", kTypes, "tensor_name: string", "process_set: int = 0",
              "reduce_op: int", "prescale: string = '1'", "postscale: string = '1'"},
             GradientShapes);
  RegisterOp(
      "TfringBroadcast", {"tensors: N * T", "order: resource"},
      {"received: N * T", "ticket: int64"},
      {"N: int >= 1", kTypes, "tensor_name: string", "process_set: int = 0", "root_rank: int"},
      ReducedShapes);
  RegisterOp("TfringAllgather", {"tensors: N * T", "order: resource"},
             {"gathered: N * T", "rows: N * int64", "ticket: int64"},
             {"N: int >= 1", kTypes, "tensor_name: string", "process_set: int = 0"},
             GatheredShapes);
  RegisterOp("TfringBarrier", {"order: resource"}, {},
             {"tensor_name: string", "process_set: int = 0"}, NoShapes);
  RegisterOp("TfringRank", {}, {"rank: int32"}, {}, ScalarShape);
  RegisterOp("TfringHealth", {"order: resource"}, {}, {}, NoShapes);
}

}  // namespace tfring
