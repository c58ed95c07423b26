#pragma once

#include <cotangent/core/op/op_def.h>

// The ops of this room, shared by its two source files.

namespace ct::view {

struct ShapeAttrs {  // view, expand
  Shape shape;
};
struct PermuteAttrs {
  Dims axes;
};
struct SliceAttrs {
  std::int64_t axis, start, stop, step;
};
struct SelectAttrs {
  std::int64_t axis, index;
};
struct UnbindAttrs {
  std::int64_t axis;
};
struct SqueezeAttrs {
  unsigned mask;  // bit i: drop axis i if its size is 1
};
struct UnsqueezeAttrs {
  std::int64_t axis;
};
struct DiagonalAttrs {
  std::int64_t offset, axis1, axis2;
};
struct UnfoldAttrs {
  std::int64_t axis, size, step;
};

void reshape_infer(Infer&);
void permute_infer(Infer&);
void slice_infer(Infer&);
void select_infer(Infer&);
void unbind_infer(Infer&);
void expand_infer(Infer&);
void squeeze_infer(Infer&);
void unsqueeze_infer(Infer&);
void diagonal_infer(Infer&);
void unfold_infer(Infer&);

extern const OpDef k_view;
extern const OpDef k_permute;
extern const OpDef k_slice;
extern const OpDef k_select;
extern const OpDef k_unbind;
extern const OpDef k_expand;
extern const OpDef k_squeeze;
extern const OpDef k_unsqueeze;
extern const OpDef k_diagonal;
extern const OpDef k_unfold;

}  // namespace ct::view
