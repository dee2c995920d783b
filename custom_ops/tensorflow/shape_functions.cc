#include "shape_functions.h"

#include <cstdint>
#include <limits>

#include "tf_handles.h"

namespace tfring {
namespace {

// TensorFlow's own mark of a dimension that is not known yet.
constexpr size_t kUnknownDim = static_cast<size_t>(-1);

int CountInputs(TF_ShapeInferenceContext* context) {
  return static_cast<int>(TF_ShapeInferenceContextNumInputs(context));
}

void CopyShapes(TF_ShapeInferenceContext* context, int count, TF_Status* status) {
  const ShapePointer shape(TF_NewShapeHandle());
  for (int i = 0; i < count; ++i) {
    TF_ShapeInferenceContextGetInput(context, i, shape.get(), status);
    if (TF_GetCode(status) != TF_OK) return;
    TF_ShapeInferenceContextSetOutput(context, i, shape.get(), status);
    if (TF_GetCode(status) != TF_OK) return;
  }
}

void SetScalar(TF_ShapeInferenceContext* context, int index, TF_Status* status) {
  const ShapePointer scalar(TF_ShapeInferenceContextScalar(context));
  TF_ShapeInferenceContextSetOutput(context, index, scalar.get(), status);
}

void SetGatheredShape(TF_ShapeInferenceContext* context, int index, TF_Status* status) {
  const ShapePointer input(TF_NewShapeHandle());
  TF_ShapeInferenceContextGetInput(context, index, input.get(), status);
  if (TF_GetCode(status) != TF_OK) return;
  if (TF_ShapeInferenceContextRankKnown(context, input.get()) == 0) return;
  const ShapePointer first(TF_ShapeInferenceContextVectorFromSize(context, kUnknownDim));
  if (TF_ShapeInferenceContextRank(context, input.get()) <= 1) {
    TF_ShapeInferenceContextSetOutput(context, index, first.get(), status);
    return;
  }
  const ShapePointer rest(TF_NewShapeHandle());
  TF_ShapeInferenceContextSubshape(context, input.get(), 1, std::numeric_limits<int64_t>::max(),
                                   rest.get(), status);
  if (TF_GetCode(status) != TF_OK) return;
  const ShapePointer gathered(TF_NewShapeHandle());
  TF_ShapeInferenceContextConcatenateShapes(context, first.get(), rest.get(), gathered.get(),
                                            status);
  if (TF_GetCode(status) != TF_OK) return;
  TF_ShapeInferenceContextSetOutput(context, index, gathered.get(), status);
}

}  // namespace

void ReducedShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const int count = CountInputs(context) - 1;
  CopyShapes(context, count, status);
  if (TF_GetCode(status) == TF_OK) SetScalar(context, count, status);
}

void GradientShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  CopyShapes(context, CountInputs(context) - 2, status);
}

void GatheredShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  // Outputs whose input has no known rank keep this.
  TF_ShapeInferenceContextSetUnknownShape(context, status);
  const ShapePointer rows(TF_ShapeInferenceContextVectorFromSize(context, kUnknownDim));
  const int count = CountInputs(context) - 1;
  for (int i = 0; i < count && TF_GetCode(status) == TF_OK; ++i) {
    SetGatheredShape(context, i, status);
    if (TF_GetCode(status) != TF_OK) return;
    TF_ShapeInferenceContextSetOutput(context, count + i, rows.get(), status);
  }
  if (TF_GetCode(status) == TF_OK) SetScalar(context, 2 * count, status);
}

void ScalarShape(TF_ShapeInferenceContext* context, TF_Status* status) {
  SetScalar(context, 0, status);
}

void NoShapes(TF_ShapeInferenceContext* /*context*/, TF_Status* /*status*/) {}

}  // namespace tfring
