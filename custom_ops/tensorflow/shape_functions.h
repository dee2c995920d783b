// Static shape inference of the ops.
#pragma once

#include "tf_c_api.h"

namespace tfring {

// Output i has the shape of input i; the last input is the `order` handle.
void SameShapes(TF_ShapeInferenceContext* context, TF_Status* status);

// Allgather of N tensors: outputs [unknown, input's other dimensions], then N vectors of
// unknown size.
void GatheredShapes(TF_ShapeInferenceContext* context, TF_Status* status);

void ScalarShape(TF_ShapeInferenceContext* context, TF_Status* status);
void NoShapes(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace tfring
