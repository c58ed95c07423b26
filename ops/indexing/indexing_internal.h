#pragma once

#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/op/op_def.h>

namespace ct::indexing_impl {

struct Attrs {
  std::int64_t axis;
  bool include_self = true;  // reductions alone
};

/// One list of indices for all other axes, or an index for each element.
enum class Kind { slices, elements };

// Shared by the ops that change x, whose inputs are x, index and source.

/// Declares y, of x's shape; throws where index or source does not fit.
void put_infer(Kind kind, Infer& in);

/// Calls change(y, index, source) with y contiguous and equal to x, and none of them in the memory of another; y is
/// the result.
void put(const Forward& f, FunctionRef<void(const Tensor&, const Tensor&, const Tensor&)> change);

/// The part of `source` that has the shape of `index`; `source` itself where there is none, for the op to refuse.
Tensor part(const Tensor& source, const Tensor& index);

}  // namespace ct::indexing_impl
