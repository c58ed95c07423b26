#include <cotangent/ops/sorting/sort.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/indexing/masks.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/reduce/scans.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/sorting/topk_internal.h>

// sort is topk of all elements; the other functions are made of it.

namespace ct {
CT_KERNEL_TABLES(topk)

void sorting::rule(const Backward& b) { rules::found_at(b, b.attrs<Attrs>().axis); }

namespace {

using sorting::Attrs;

void infer(Infer& in) {
  const Tensor& x = in.in(0);
  wrap_axis("sort", in.attrs<Attrs>().axis, x.dim());
  in.output(x.shape(), x.dtype());
  in.output(x.shape(), DType::i64);
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "indices", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "values", .contiguous = true},
                                  {.name = "indices", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axis), CT_ATTRIBUTE(Attrs, descending)};

constexpr OpDef k_sort = checked({
    .name = "sort",
    .formula = "y_j = the j-th smallest x_i",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::topk,
    .rule = sorting::rule,
    .dtypes = kAllTypes,
});

// x where `place` says along the axis, which has size 1 there.
ValuesIndices taken(const Tensor& x, const Tensor& place, std::int64_t axis, bool keepdim) {
  const Tensor values = gather(x, axis, place);
  if (keepdim || x.dim() == 0) return {values, place};
  return {values.squeeze(axis), place.squeeze(axis)};
}

std::int64_t length_of(const Tensor& x, int axis) { return x.dim() == 0 ? 1 : x.shape()[axis]; }

// Runs of equal elements of a list, or of equal slices: where they start, and the number of its run for each.
struct Runs {
  Tensor starts, numbers;

  explicit Runs(const Tensor& list) {
    const std::int64_t n = list.size(0), rest = n > 0 ? n - 1 : 0;
    const TensorOptions flags{.dtype = DType::boolean, .device = list.device()};
    Tensor differs = ne(list.narrow(0, n - rest, rest), list.narrow(0, 0, rest));
    if (differs.dim() > 1) differs = any(differs.flatten(1), {1});
    const Tensor first = concat({ones({n - rest}, flags), differs}, 0);
    starts = nonzero(first).select(1, 0);
    numbers = cumsum(first, 0) - 1;
  }
  Tensor counts(std::int64_t n) const {
    const Tensor end = full({1}, n, {.dtype = DType::i64, .device = starts.device()});
    const Tensor ends = concat({starts, end}, 0);
    return ends.narrow(0, 1, starts.numel()) - starts;
  }
};

// Items that are listed along axis 0: the slices of x across an axis, or all elements.
Tensor list_of(const char* op, const Tensor& x, std::optional<std::int64_t> axis) {
  if (!axis || x.dim() < 2) {
    wrap_axis(op, axis.value_or(0), x.dim());
    return x.detach().flatten();
  }
  return x.detach().movedim(wrap_axis(op, *axis, x.dim()), 0);
}

// Slices in the order of their elements, of which those that come last are sorted by first: sorting is stable.
ValuesIndices sorted_slices(const Tensor& list) {
  if (list.dim() == 1) return sort(list, 0);
  Tensor order = arange(list.size(0), {.dtype = DType::i64, .device = list.device()});
  const Tensor columns = list.numel() > 0 ? list.flatten(1).t().contiguous() : zeros({0, 1});
  for (std::int64_t k = columns.size(0); k-- > 0;)
    order = index_select(order, 0, argsort(index_select(columns[k], 0, order)));
  return {index_select(list, 0, order), order};
}

Unique unique_of(const Tensor& list, const Tensor& order, const Tensor& x, std::optional<std::int64_t> axis,
                 bool inverse, bool counts) {
  const Runs runs(list);
  Unique result;
  result.values = index_select(list, 0, runs.starts);
  if (axis) result.values = result.values.movedim(0, *axis);
  if (inverse) {
    result.inverse = order.defined() ? index_copy(zeros_like(order), 0, order, runs.numbers) : runs.numbers;
    if (!axis) result.inverse = result.inverse.reshape(x.shape());
  }
  if (counts) result.counts = runs.counts(list.size(0));
  return result;
}

}  // namespace

CT_ROOM(sort, &k_sort)

ValuesIndices sort(const Tensor& x, Integer axis, Flag descending, Flag) {
  auto [values, indices] = dispatch_n<2>(k_sort, {x}, Attrs{0, axis, descending});
  return {std::move(values), std::move(indices)};
}
Tensor argsort(const Tensor& x, Integer axis, Flag descending, Flag) {
  return sort(x.detach(), axis, descending).indices;
}

ValuesIndices kthvalue(const Tensor& x, Integer k, Integer axis, Flag keepdim) {
  const int a = wrap_axis("kthvalue", axis, x.dim());
  const std::int64_t n = length_of(x, a);
  CT_CHECK(k >= 1 && k <= n, ShapeError, "kthvalue", "k is ", std::int64_t{k}, ", x is ", describe(x),
           "; k must lie in [1, ", n, "], the size along axis ", std::int64_t{axis});
  const Tensor order = argsort(x, a);
  return taken(x, x.dim() == 0 ? order : order.narrow(a, k - 1, 1), a, keepdim);
}

ValuesIndices median(const Tensor& x, Integer axis, Flag keepdim) {
  const int a = wrap_axis("median", axis, x.dim());
  const std::int64_t n = length_of(x, a);
  CT_CHECK(n > 0, ShapeError, "median", "x is ", describe(x), ", axis ", std::int64_t{axis},
           " has no elements; the median of none is not defined");
  const auto [sorted, order] = sort(x.detach(), a);
  Tensor middle = full(x.dim() == 0 ? Shape{} : order.narrow(a, 0, 1).shape(), (n - 1) / 2,
                       {.dtype = DType::i64, .device = x.device()});
  if (is_floating(x.dtype())) {  // NaN are last: the first of them, if there are any
    const Tensor numbers =
        x.dim() == 0 ? logical_not(isnan(sorted)).to(DType::i64) : sum(logical_not(isnan(sorted)), {a}, true);
    middle = where(eq(numbers, n), middle, numbers);
  }
  return taken(x, gather(order, a, middle), a, keepdim);
}
Tensor median(const Tensor& x) {
  if (x.numel() == 0 && is_floating(x.dtype()))
    return full({}, std::numeric_limits<double>::quiet_NaN(), {.dtype = x.dtype(), .device = x.device()});
  return median(x.flatten(), 0).values;
}

Unique unique(const Tensor& x, Flag, Flag return_inverse, Flag return_counts,
              std::optional<std::int64_t> axis) {
  const auto [list, order] = sorted_slices(list_of("unique", x, axis));
  return unique_of(list, order, x, axis, return_inverse, return_counts);
}
Unique unique_consecutive(const Tensor& x, Flag return_inverse, Flag return_counts,
                          std::optional<std::int64_t> axis) {
  return unique_of(list_of("unique_consecutive", x, axis), {}, x, axis, return_inverse, return_counts);
}

Tensor bincount(const Tensor& x, const std::optional<Tensor>& weights, Integer minlength) {
  CT_CHECK(!is_floating(x.dtype()) && x.dtype() != DType::boolean, DTypeError, "bincount", "x is ",
           describe(x), "; it must be of integers: convert with .to(i64)");
  CT_CHECK(x.dim() == 1, ShapeError, "bincount", "x is ", describe(x),
           "; it must have rank 1: x.flatten() makes it so");
  CT_CHECK(minlength >= 0, ValueError, "bincount", "minlength is ", std::int64_t{minlength},
           "; it must be >= 0");
  CT_CHECK(!weights || weights->shape() == x.shape(), ShapeError, "bincount", "weights are ",
           weights ? describe(*weights) : "", ", x is ", describe(x), "; they must have x's shape");
  std::int64_t length = minlength;
  if (x.numel() > 0) {
    const std::vector<std::int64_t> ends = stack({amin(x), amax(x)}).to_vector<std::int64_t>();  // one wait
    CT_CHECK(ends[0] >= 0, ValueError, "bincount", "x has an element ", ends[0], "; all must be >= 0");
    length = std::max(length, ends[1] + 1);
  }
  Tensor each = weights ? *weights : ones({x.numel()}, {.dtype = DType::i64, .device = x.device()});
  if (weights && !is_floating(each.dtype())) each = each.to(DType::f64);
  return index_add(zeros({length}, {.dtype = each.dtype(), .device = x.device()}), 0, x.to(DType::i64), each);
}

CT_MEMBER(ValuesIndices, sort, (Integer axis, Flag descending) const, axis, descending)
CT_MEMBER(Tensor, argsort, (Integer axis, Flag descending) const, axis, descending)
CT_MEMBER(Tensor, median, () const)
CT_MEMBER(ValuesIndices, median, (Integer axis, Flag keepdim) const, axis, keepdim)

}  // namespace ct
