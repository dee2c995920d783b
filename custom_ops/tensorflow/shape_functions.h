// Static shape inference of the ops.
#pragma once

#include "tf_c_api.h"

namespace tfring {

// The last input of all but TfringRank is the `order` handle.

// Allreduce and broadcast of N tensors: output i has the shape of input i; then a scalar.
void ReducedShapes(TF_ShapeInferenceContext* context, TF_Status* status);

// The gradient of the same: N tensors and a scalar come in, N go out.
void GradientShapes(TF_ShapeInferenceContext* context, TF_Status* status);

// Allgather of N tensors: outputs [unknown, input's other dimensions], N vectors of unknown
// size, and a scalar.
void GatheredShapes(TF_ShapeInferenceContext* context, TF_Status* status);

void ScalarShape(TF_ShapeInferenceContext* context, TF_Status* status);
void NoShapes(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace tfring
