#include <cotangent/ops/indexing/index.h>

#include <algorithm>
#include <optional>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/index_error.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/indexing/index_internal.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/indexing/masks.h>
#include <cotangent/ops/view/view.h>

// Numbers, slices, None and Ellipsis are views. Tensors of indices name one list of places along one axis: index_select() and
// index_copy() do the rest.

namespace ct {
CT_KERNEL_TABLES(index)
namespace {

// ---- flat_index: several indices as one ---------------------------------------------------------------------

void infer(Infer& in) {
  for (int k = 1; k < in.input_count(); ++k)
    CT_CHECK(in.in(k).shape() == in.in(0).shape(), ShapeError, "flat_index", "indices ", k, " are ",
             describe(in.in(k)), ", the first ", describe(in.in(0)), "; all shapes must be equal");
  CT_CHECK(in.attrs<indexing_impl::flat::Attrs>().sizes.size() == in.input_count(), ValueError, "flat_index",
           "got ", in.input_count(), " indices for sizes ", in.attrs<indexing_impl::flat::Attrs>().sizes,
           "; there must be one for each");
  in.output(in.in(0).shape(), DType::i64);
}

constexpr InputDef kInputs[] = {{.name = "indices", .gradient = false, .contiguous = true, .rest = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(indexing_impl::flat::Attrs, sizes)};

constexpr OpDef k_flat_index = checked({
    .name = "flat_index",
    .formula = "y = (.. i_0 n_1 + i_1) n_2 + .., i_k + n_k for i_k < 0",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::index,
    .dtypes = dtype_bit(DType::i64),
});

// ---- what indices name ------------------------------------------------------------------------------------

// A view, and the tensors that index neighbouring axes of it from `axis` on.
struct Named {
  Tensor view;
  int axis = 0;
  std::vector<Tensor> tensors;

  bool advanced() const { return !tensors.empty(); }
};

// Numbers of i64 on x's device for each axis that a tensor names: one, or one for each axis of a mask.
std::vector<Tensor> lists_of(const Tensor& x, int axis, const Tensor& index) {
  if (index.dtype() == DType::boolean) {
    for (int k = 0; k < index.dim(); ++k)
      CT_CHECK(index.shape()[k] == x.shape()[axis + k], IndexError, "index", "the mask is ", describe(index),
               " and axis ", k, " of it is to choose from ", x.shape()[axis + k],
               " elements; a mask has the sizes of the axes it takes");
    return where(index.to(x.device()));
  }
  CT_CHECK(index.dtype() == DType::i64 || index.dtype() == DType::i32, DTypeError, "index", "an index is ",
           describe(index), "; it must be i64, i32 or bool: convert with .to(i64)");
  return {index.to(x.device(), DType::i64)};
}

using Kind = TensorIndex::Kind;

// The axes that an index takes.
int axes_of(const TensorIndex& index) {
  if (index.kind() == Kind::tensor)
    return index.tensor().dtype() == DType::boolean ? index.tensor().dim() : 1;
  return index.kind() == Kind::number || index.kind() == Kind::slice;
}

// Selecting index: a number, or a tensor of integers of rank 0, which waits for the device.
std::optional<std::int64_t> number_of(const TensorIndex& index) {
  if (index.kind() == Kind::number) return index.number();
  if (index.kind() != Kind::tensor) return {};
  const Tensor& t = index.tensor();
  if (t.dim() == 0 && (t.dtype() == DType::i64 || t.dtype() == DType::i32)) return t.item<std::int64_t>();
  return {};
}

Named resolve(const Tensor& x, TensorIndices indices) {
  int taken = 0, dots = 0;
  for (const TensorIndex& index : indices) {
    taken += axes_of(index);
    dots += index.kind() == Kind::ellipsis;
  }
  CT_CHECK(taken <= x.dim(), IndexError, "index", "got indices for ", taken, " axes of ", describe(x),
           "; there must be at most one for each");
  CT_CHECK(dots <= 1, IndexError, "index", "got ", dots, " times Ellipsis; there can be one");

  Named named{x, 0, {}};
  Tensor& t = named.view;
  std::vector<int> axes;  // those that tensors index
  int axis = 0;
  for (const TensorIndex& index : indices) {
    if (const std::optional<std::int64_t> number = number_of(index)) {
      const std::int64_t n = t.shape()[axis];
      if (*number < -n || *number >= n) throw_index_error("index", IndexKind::index, *number, n);
      t = t.select(axis, *number);
    } else if (index.kind() == Kind::slice) {
      const Slice& slice = index.slice();
      t = t.slice(axis, slice.start.value_or(0), slice.stop.value_or(INT64_MAX), slice.step);
      ++axis;
    } else if (index.kind() == Kind::none) {
      t = t.unsqueeze(axis++);
    } else if (index.kind() == Kind::ellipsis) {
      axis += x.dim() - taken;
    } else {
      if (axes_of(index) == 0) t = t.unsqueeze(axis);  // a mask of rank 0 chooses the whole or nothing
      for (Tensor& list : lists_of(t, axis, index.tensor())) {
        named.tensors.push_back(std::move(list));
        axes.push_back(axis++);
      }
    }
  }
  if (!named.advanced()) return named;
  named.axis = axes.front();
  if (axes.back() - axes.front() + 1 == static_cast<int>(axes.size())) return named;
  // Not neighbours: to the front.
  named.axis = 0;
  Dims order;
  for (const int a : axes) order.push_back(a);
  for (int a = 0; a < t.dim(); ++a)
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) order.push_back(a);
  t = t.permute(order);
  return named;
}

// The places that the tensors name along their axes, those taken as one; and the shape that they have together.
struct Places {
  Tensor flat;
  Shape shape;

  explicit Places(const Named& named) {
    for (const Tensor& list : named.tensors) shape = broadcast_shapes("index", shape, list.shape());
    Tensors lists;
    std::vector<TensorRef> refs;
    indexing_impl::flat::Attrs attrs;
    for (const Tensor& list : named.tensors) {
      attrs.sizes.push_back(named.view.shape()[named.axis + static_cast<int>(lists.size())]);
      lists.push_back(list.expand(shape));
    }
    for (const Tensor& list : lists) refs.push_back(&list);
    dispatch(k_flat_index, refs, attrs, std::span<Tensor>(&flat, 1));
    flat = flat.reshape({flat.numel()});
  }

 private:
  using Tensors = std::vector<Tensor>;
};

// `shape` with `by` in the place of `count` axes from `axis` on.
Shape replaced(const Shape& shape, int axis, int count, const Shape& by) {
  CT_CHECK(shape.size() - count + by.size() <= kMaxRank, ShapeError, "index", "the result would have ",
           shape.size() - count + by.size(), " axes; at most ", kMaxRank, " are supported");
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(shape[i]);
  for (const std::int64_t n : by) result.push_back(n);
  for (int i = axis + count; i < shape.size(); ++i) result.push_back(shape[i]);
  return result;
}

int count_of(const Named& named) { return static_cast<int>(named.tensors.size()); }

// Writes without the tape, in the memory that the indices name; false if no view of x has their axes as one.
bool put(const Named& named, const Tensor& values, bool accumulate) {
  Tensor t = named.view;
  if (!named.advanced()) {
    accumulate ? t.add_(values) : t.copy_(values);
    return true;
  }
  std::int64_t size = 1;
  for (int k = 0; k < count_of(named); ++k) size *= t.shape()[named.axis + k];
  const Shape joined = replaced(t.shape(), named.axis, count_of(named), {size});
  Strides strides;
  if (!view_strides(t.shape(), t.strides(), joined, &strides)) return false;
  const Places places(named);
  const Shape result = replaced(t.shape(), named.axis, count_of(named), places.shape);
  const Tensor source = values.expand(result).reshape(replaced(joined, named.axis, 1, {places.flat.numel()}));
  t = t.view(joined);
  accumulate ? index_add_(t, named.axis, places.flat, source)
             : index_copy_(t, named.axis, places.flat, source);
  return true;
}

Tensor value_like(const Tensor& x, const Scalar& value) {
  check_fits("index_put_", value, x.dtype());
  return full({}, value, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

CT_ROOM(index, &k_flat_index)

Tensor Tensor::index(const TensorIndices& indices) const {
  const Named named = resolve(*this, indices);
  // x[...] is a view as any other: a hook on it is not one on x.
  if (!named.advanced()) return named.view.is_same(*this) ? view(shape()) : named.view;
  const Places places(named);
  const int count = count_of(named);
  const Tensor joined = named.view.flatten(named.axis, named.axis + count - 1);
  return ct::index_select(joined, named.axis, places.flat)
      .view(replaced(named.view.shape(), named.axis, count, places.shape));
}

Tensor Tensor::operator[](const Tensor& at) const { return index({at}); }

// On the tape: a number for every element of x, of which the indices choose those to write.
Tensor index_put(const Tensor& x, const TensorIndices& indices, const Tensor& values, Flag accumulate) {
  const Tensor numbers = arange(x.numel(), {.dtype = DType::i64, .device = x.device()}).view(x.shape());
  const Tensor chosen = numbers.index(indices);
  const Tensor places = chosen.reshape({chosen.numel()}), flat = x.reshape({x.numel()});
  const Tensor source = values.to(x.device(), x.dtype()).expand(chosen.shape()).reshape({chosen.numel()});
  return (accumulate ? index_add(flat, 0, places, source) : index_copy(flat, 0, places, source))
      .view(x.shape());
}

Tensor& Tensor::index_put_(const TensorIndices& indices, const Tensor& values, Flag accumulate) {
  const Tensor source = values.to(device(), dtype());
  if (!grad_enabled() || !(requires_grad() || source.requires_grad())) {
    const NoGrad guard;
    if (put(resolve(*this, indices), source, accumulate)) return *this;
  }
  return copy_(index_put(*this, indices, source, accumulate));
}
Tensor& Tensor::index_put_(const TensorIndices& indices, const Scalar& value, Flag accumulate) {
  return index_put_(indices, value_like(*this, value), accumulate);
}

}  // namespace ct
