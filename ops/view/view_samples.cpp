#include <algorithm>

#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>
#include <cotangent/ops/view/view_defs_internal.h>

namespace ct {
namespace {

using namespace view;

template <class A>
const A& as(AttrsView attrs) {
  return *static_cast<const A*>(attrs.data);
}

// y[index] = x[from(index)]
template <class From>
std::vector<Tensor> gather(const Tensor& x, const Shape& shape, From&& from) {
  return {testing::by_index(shape, [&](const Dims& index) { return testing::at(x, from(index)); })};
}

// The elements in row-major order, under another shape.
std::vector<Tensor> same_order(const Tensor& x, const Shape& shape) {
  const Tensor flat = testing::by_index(x.shape(), [&](const Dims& index) { return testing::at(x, index); });
  return {Tensor::from_storage(flat.impl()->storage, shape, contiguous_strides(shape), 0, f64)};
}

std::vector<Tensor> reshape_reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape = as<ShapeAttrs>(attrs).shape;
  std::int64_t known = 1;
  for (const std::int64_t s : shape) known *= s < 0 ? 1 : s;
  for (std::int64_t& s : shape)
    if (s < 0) s = in[0].numel() / known;
  return same_order(in[0], shape);
}

std::vector<Tensor> squeeze_reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape;
  for (int i = 0; i < in[0].dim(); ++i)
    if (in[0].shape()[i] != 1 || !(as<SqueezeAttrs>(attrs).mask >> i & 1u)) shape.push_back(in[0].shape()[i]);
  return same_order(in[0], shape);
}

std::vector<Tensor> unsqueeze_reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape = in[0].shape();
  shape.insert(wrap_axis("reference", as<UnsqueezeAttrs>(attrs).axis, shape.size() + 1), 1);
  return same_order(in[0], shape);
}

std::vector<Tensor> permute_reference(std::span<const Tensor> in, AttrsView attrs) {
  const int rank = in[0].dim();
  Dims axes = as<PermuteAttrs>(attrs).axes;
  Shape shape = axes;
  for (int k = 0; k < rank; ++k) {
    axes[k] = (axes[k] + rank) % rank;
    shape[k] = in[0].shape()[static_cast<int>(axes[k])];
  }
  return gather(in[0], shape, [&](const Dims& index) {
    Dims source = index;
    for (int k = 0; k < rank; ++k) source[static_cast<int>(axes[k])] = index[k];
    return source;
  });
}

std::vector<Tensor> slice_reference(std::span<const Tensor> in, AttrsView attrs) {
  const SliceAttrs& a = as<SliceAttrs>(attrs);
  const int axis = wrap_axis("reference", a.axis, in[0].dim());
  const std::int64_t n = in[0].shape()[axis];
  std::vector<std::int64_t> taken;  // the elements of Python's x[start:stop:step]
  const std::int64_t start = std::max<std::int64_t>(0, a.start < 0 ? a.start + n : a.start);
  const std::int64_t stop = std::min(n, a.stop < 0 ? a.stop + n : a.stop);
  for (std::int64_t i = start; i < stop; i += a.step) taken.push_back(i);
  Shape shape = in[0].shape();
  shape[axis] = static_cast<std::int64_t>(taken.size());
  return gather(in[0], shape, [&](Dims index) {
    index[axis] = taken[static_cast<std::size_t>(index[axis])];
    return index;
  });
}

std::vector<Tensor> select_reference(std::span<const Tensor> in, AttrsView attrs) {
  const SelectAttrs& a = as<SelectAttrs>(attrs);
  const int axis = wrap_axis("reference", a.axis, in[0].dim());
  Shape shape = in[0].shape();
  const std::int64_t at = a.index < 0 ? a.index + shape[axis] : a.index;
  shape.erase(axis);
  return gather(in[0], shape, [&](Dims index) {
    index.insert(axis, at);
    return index;
  });
}

std::vector<Tensor> unbind_reference(std::span<const Tensor> in, AttrsView attrs) {
  const std::int64_t axis = as<UnbindAttrs>(attrs).axis;
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < in[0].size(axis); ++k)
    parts.push_back(select_reference(in, AnyAttrs(SelectAttrs{axis, k}).view())[0]);
  return parts;
}

std::vector<Tensor> expand_reference(std::span<const Tensor> in, AttrsView attrs) {
  const Tensor& x = in[0];
  Shape shape = as<ShapeAttrs>(attrs).shape;
  const int added = shape.size() - x.dim();
  for (int k = added; k < shape.size(); ++k)
    if (shape[k] < 0) shape[k] = x.shape()[k - added];
  return gather(x, shape, [](const Dims& index) { return index; });
}

// Views of any layout exist for single axes only, so that the suite may pass strided inputs everywhere.
std::vector<Sample> view_samples(SampleMaker& make) {
  return {
      {{make.normal({})}, ShapeAttrs{{1, 1}}, "scalar to matrix"},
      {{make.normal({1})}, ShapeAttrs{{}}, "to a scalar"},
      {{make.normal({12})}, ShapeAttrs{{3, 4}}, "split an axis"},
      {{make.normal({30})}, ShapeAttrs{{2, -1, 5}}, "inferred size"},
      {{make.normal({6, 5})}, ShapeAttrs{{6, 1, 5}}, "axis of size 1"},
      {{make.normal({6, 4})}, ShapeAttrs{{2, 3, 4}}, "split the first of two"},
      {{make.normal({0, 3})}, ShapeAttrs{{3, 0, 2}}, "empty"},
      {{make.normal({1, 2, 1})}, ShapeAttrs{{2}}, "drop ones"},
  };
}

std::vector<ErrorSample> view_errors(SampleMaker& make) {
  return {{{make.normal({2, 3})}, ShapeAttrs{{4}}, "has 4 elements, the tensor 6"},
          {{make.normal({2, 3})}, ShapeAttrs{{4, -1}}, "does not divide the 6 elements"},
          {{make.normal({2, 3})}, ShapeAttrs{{-1, -1}}, "more than one -1"},
          {{make.normal({2, 3})}, ShapeAttrs{{-2, -3}}, "negative size"},
          {{make.normal({0, 3})}, ShapeAttrs{{0, -1}}, "could be any size"},
          {{make.normal({2, 3}).permute({1, 0})}, ShapeAttrs{{6}}, "use reshape()"}};
}

std::vector<Sample> permute_samples(SampleMaker& make) {
  return {{{make.normal({})}, PermuteAttrs{{}}, "scalar"},
          {{make.normal({5})}, PermuteAttrs{{0}}, "vector"},
          {{make.normal({5, 3})}, PermuteAttrs{{1, 0}}, "matrix"},
          {{make.normal({2, 3, 5})}, PermuteAttrs{{2, 0, 1}}, "a cycle"},
          {{make.normal({2, 3, 5})}, PermuteAttrs{{-1, -3, 1}}, "negative axes"},
          {{make.normal({2, 0, 3})}, PermuteAttrs{{1, 2, 0}}, "empty"},
          {{make.normal({2, 1, 3, 1, 2, 1, 1, 2})}, PermuteAttrs{{7, 2, 5, 0, 1, 6, 3, 4}}, "rank 8"}};
}

std::vector<ErrorSample> permute_errors(SampleMaker& make) {
  return {{{make.normal({2, 3})}, PermuteAttrs{{0}}, "every axis must be named once"},
          {{make.normal({2, 3})}, PermuteAttrs{{1, -1}}, "comes twice"},
          {{make.normal({2, 3})}, PermuteAttrs{{0, 2}}, "axis 2 is out of range"}};
}

std::vector<Sample> slice_samples(SampleMaker& make) {
  return {{{make.normal({7})}, SliceAttrs{0, 2, 5, 1}, "middle"},
          {{make.normal({7})}, SliceAttrs{0, 0, INT64_MAX, 3}, "every third"},
          {{make.normal({3, 8})}, SliceAttrs{-1, 1, -1, 2}, "steps along the last axis"},
          {{make.normal({5, 3})}, SliceAttrs{0, -2, INT64_MAX, 1}, "from the end"},
          {{make.normal({5, 3})}, SliceAttrs{0, 0, 5, 1}, "everything"},
          {{make.normal({5, 3})}, SliceAttrs{1, 2, 1, 1}, "nothing"},
          {{make.normal({5, 3})}, SliceAttrs{0, -100, 100, 7}, "clamped, one left"},
          {{make.normal({0, 3})}, SliceAttrs{0, 0, 2, 1}, "empty"},
          {{make.normal({2, 5, 3})}, SliceAttrs{1, 1, 4, 2}, "inner axis"}};
}

std::vector<ErrorSample> slice_errors(SampleMaker& make) {
  return {{{make.normal({3})}, SliceAttrs{0, 0, 3, 0}, "step is 0"},
          {{make.normal({3})}, SliceAttrs{1, 0, 3, 1}, "axis 1 is out of range"},
          {{make.normal({})}, SliceAttrs{0, 0, 1, 1}, "a scalar has no axis"}};
}

std::vector<Sample> select_samples(SampleMaker& make) {
  return {{{make.normal({7})}, SelectAttrs{0, 3}, "element"},
          {{make.normal({3, 5})}, SelectAttrs{0, -1}, "last row"},
          {{make.normal({3, 5})}, SelectAttrs{-1, 0}, "first column"},
          {{make.normal({2, 3, 4})}, SelectAttrs{1, 2}, "inner axis"},
          {{make.normal({1, 0})}, SelectAttrs{0, 0}, "empty"},
          {{make.normal({1})}, SelectAttrs{0, 0}, "single"}};
}

std::vector<ErrorSample> select_errors(SampleMaker& make) {
  return {{{make.normal({3})}, SelectAttrs{0, 3}, "index 3"},
          {{make.normal({3})}, SelectAttrs{0, -4}, "index -4"},
          {{make.normal({3})}, SelectAttrs{1, 0}, "axis 1 is out of range"},
          {{make.normal({})}, SelectAttrs{0, 0}, "a scalar has no axis"}};
}

std::vector<Sample> unbind_samples(SampleMaker& make) {
  return {{{make.normal({4})}, UnbindAttrs{0}, "elements"},
          {{make.normal({3, 5})}, UnbindAttrs{0}, "rows"},
          {{make.normal({5, 2})}, UnbindAttrs{-1}, "columns"},
          {{make.normal({2, 5, 3, 2, 4})}, UnbindAttrs{2}, "inner axis"},
          {{make.normal({2, 1, 3})}, UnbindAttrs{1}, "single"},
          {{make.normal({0, 3})}, UnbindAttrs{-1}, "empty"}};
}

std::vector<ErrorSample> unbind_errors(SampleMaker& make) {
  return {{{make.normal({2, 5})}, UnbindAttrs{1}, "has size 5; the op has 1 to 4 outputs"},
          {{make.normal({2, 0})}, UnbindAttrs{1}, "has size 0"},
          {{make.normal({3})}, UnbindAttrs{1}, "axis 1 is out of range"},
          {{make.normal({})}, UnbindAttrs{0}, "a scalar has no axis"}};
}

std::vector<Sample> expand_samples(SampleMaker& make) {
  return {{{make.normal({})}, ShapeAttrs{{2, 3}}, "scalar"},
          {{make.normal({1})}, ShapeAttrs{{5}}, "single"},
          {{make.normal({3})}, ShapeAttrs{{2, 3}}, "new axis"},
          {{make.normal({3, 1})}, ShapeAttrs{{3, 4}}, "column"},
          {{make.normal({3, 1, 2})}, ShapeAttrs{{2, -1, 5, -1}}, "kept sizes"},
          {{make.normal({1, 3})}, ShapeAttrs{{0, 3}}, "to nothing"},
          {{make.normal({2, 3})}, ShapeAttrs{{2, 3}}, "unchanged"},
          {{make.normal({1, 4, 1, 3})}, ShapeAttrs{{3, 4, 2, 3}}, "two axes"}};
}

std::vector<ErrorSample> expand_errors(SampleMaker& make) {
  return {{{make.normal({2, 3})}, ShapeAttrs{{3}}, "lower rank"},
          {{make.normal({2, 3})}, ShapeAttrs{{4, 3}}, "only axes of size 1"},
          {{make.normal({3})}, ShapeAttrs{{-1, 3}}, "has no size to keep"}};
}

std::vector<Sample> squeeze_samples(SampleMaker& make) {
  return {{{make.normal({})}, SqueezeAttrs{~0u}, "scalar"},
          {{make.normal({1, 3, 1, 2})}, SqueezeAttrs{~0u}, "all"},
          {{make.normal({1, 3, 1})}, SqueezeAttrs{4}, "one axis"},
          {{make.normal({2, 3})}, SqueezeAttrs{2}, "nothing to do"},
          {{make.normal({1, 0})}, SqueezeAttrs{1}, "empty"}};
}

std::vector<Sample> unsqueeze_samples(SampleMaker& make) {
  return {{{make.normal({})}, UnsqueezeAttrs{0}, "scalar"},
          {{make.normal({3})}, UnsqueezeAttrs{-1}, "at the end"},
          {{make.normal({3, 2})}, UnsqueezeAttrs{1}, "in the middle"},
          {{make.normal({0, 2})}, UnsqueezeAttrs{0}, "empty"}};
}

std::vector<ErrorSample> unsqueeze_errors(SampleMaker& make) {
  return {{{make.normal({3})}, UnsqueezeAttrs{2}, "axis 2 is out of range"},
          {{make.normal({1, 1, 1, 1, 1, 1, 1, 1})},
           UnsqueezeAttrs{0},
           "the result has one axis more, and at most 8 are supported"}};
}

std::vector<Tensor> diagonal_reference(std::span<const Tensor> in, AttrsView attrs) {
  const DiagonalAttrs& a = as<DiagonalAttrs>(attrs);
  Shape shape = in[0].shape();
  const int row = wrap_axis("reference", a.axis1, shape.size()),
            column = wrap_axis("reference", a.axis2, shape.size());
  std::int64_t length = 0;
  for (std::int64_t i = 0; i < shape[row]; ++i) length += i + a.offset >= 0 && i + a.offset < shape[column];
  shape.erase(std::max(row, column));
  shape.erase(std::min(row, column));
  shape.push_back(length);
  return gather(in[0], shape, [&](Dims index) {
    const std::int64_t i = index.back() + std::max<std::int64_t>(0, -a.offset);
    index.erase(index.size() - 1);
    index.insert(std::min(row, column), row < column ? i : i + a.offset);
    index.insert(std::max(row, column), row < column ? i + a.offset : i);
    return index;
  });
}
std::vector<Sample> diagonal_samples(SampleMaker& make) {
  return {{{make.normal({4, 4})}, DiagonalAttrs{0, 0, 1}, "square"},
          {{make.normal({3, 5})}, DiagonalAttrs{2, 0, 1}, "above"},
          {{make.normal({5, 3})}, DiagonalAttrs{-1, 0, 1}, "below"},
          {{make.normal({2, 3, 4})}, DiagonalAttrs{1, -1, 0}, "axes apart, exchanged"},
          {{make.normal({2, 3, 4})}, DiagonalAttrs{-2, 1, 2}, "the last axes"},
          {{make.normal({3, 3})}, DiagonalAttrs{3, 0, 1}, "outside"},
          {{make.normal({0, 3})}, DiagonalAttrs{0, 0, 1}, "empty"}};
}
std::vector<ErrorSample> diagonal_errors(SampleMaker& make) {
  return {{{make.normal({3})}, DiagonalAttrs{0, 0, 1}, "two axes or more"},
          {{make.normal({3, 3})}, DiagonalAttrs{0, 1, -1}, "they must be two"},
          {{make.normal({3, 3})}, DiagonalAttrs{0, 0, 2}, "axis 2 is out of range"}};
}

std::vector<Tensor> unfold_reference(std::span<const Tensor> in, AttrsView attrs) {
  const UnfoldAttrs& a = as<UnfoldAttrs>(attrs);
  Shape shape = in[0].shape();
  const int axis = wrap_axis("reference", a.axis, shape.size());
  std::int64_t windows = 0;
  while (windows * a.step + a.size <= shape[axis]) ++windows;
  shape[axis] = windows;
  shape.push_back(a.size);
  return gather(in[0], shape, [&](Dims index) {
    index[axis] = index[axis] * a.step + index.back();
    index.erase(index.size() - 1);
    return index;
  });
}
std::vector<Sample> unfold_samples(SampleMaker& make) {
  return {{{make.normal({7})}, UnfoldAttrs{0, 3, 1}, "overlapping"},
          {{make.normal({2, 8})}, UnfoldAttrs{-1, 3, 2}, "the last axis"},
          {{make.normal({9, 2})}, UnfoldAttrs{0, 2, 4}, "with gaps"},
          {{make.normal({2, 5, 3})}, UnfoldAttrs{1, 5, 7}, "one window"},
          {{make.normal({4})}, UnfoldAttrs{0, 0, 1}, "windows of nothing"},
          {{make.normal({0, 3})}, UnfoldAttrs{1, 2, 1}, "empty"}};
}
std::vector<ErrorSample> unfold_errors(SampleMaker& make) {
  return {{{make.normal({3})}, UnfoldAttrs{0, 4, 1}, "it must lie in [0, 3]"},
          {{make.normal({3})}, UnfoldAttrs{0, 2, 0}, "step is 0"},
          {{make.normal({1, 1, 1, 1, 1, 1, 1, 1})}, UnfoldAttrs{0, 1, 1}, "at most 8 are supported"},
          {{make.normal({})}, UnfoldAttrs{0, 1, 1}, "no axis 0"},
          {{make.normal({3})}, UnfoldAttrs{1, 1, 1}, "axis 1 is out of range"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(view, {"view", view_samples, view_errors, reshape_reference},
            {"permute", permute_samples, permute_errors, permute_reference},
            {"slice", slice_samples, slice_errors, slice_reference},
            {"select", select_samples, select_errors, select_reference},
            {"unbind", unbind_samples, unbind_errors, unbind_reference},
            {"expand", expand_samples, expand_errors, expand_reference},
            {"squeeze", squeeze_samples, nullptr, squeeze_reference},
            {"unsqueeze", unsqueeze_samples, unsqueeze_errors, unsqueeze_reference},
            {"diagonal", diagonal_samples, diagonal_errors, diagonal_reference},
            {"unfold", unfold_samples, unfold_errors, unfold_reference})
