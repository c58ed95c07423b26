#include <limits>

#include <cotangent/ops/softmax/masked_softmax_internal.h>
#include <cotangent/ops/softmax/softmax_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using softmax_impl::Attrs;
using Masked = softmax_impl::masked::Attrs;
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Sample> samples(SampleMaker& make) {
  // Central differences of a sum over thousands of logarithms drown in its rounding: `smooth` leaves them
  // out.
  const auto sample = [&](const Shape& shape, std::int64_t axis, const char* label, bool smooth = true) {
    return Sample{{make.normal(shape)}, Attrs{axis}, label, smooth};
  };
  return {
      sample({5, 10}, -1, "short rows"),
      sample({3, 129}, 1, "odd rows"),
      sample({6, 64}, 1, "rows of whole vectors"),
      sample({2, 1500}, 1, "long odd rows", false),
      sample({2, 2048}, -1, "long rows of whole vectors", false),
      sample({7, 5}, 0, "first axis"),
      sample({2, 9, 33}, 1, "middle axis"),
      sample({2, 1, 3}, 1, "axis of size 1"),
      sample({4, 6, 1}, 1, "axis before one of size 1"),
      sample({}, 0, "scalar"),
      sample({3, 0}, 1, "empty axis"),
      sample({0, 4}, 1, "no rows"),
      {{make.values({2, 3}, {1000, 1001, 999, -500, -500, -502})}, Attrs{1}, "far from 0"},
      {{make.values({1, 3}, {-kInf, 0, 1})}, Attrs{1}, "minus infinity", false},
  };
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  return {{{make.normal({2, 3})}, Attrs{2}, "axis"},
          {{make.normal({2, 3})}, Attrs{-3}, "axis"},
          {{make.index({2, 3}, 5)}, Attrs{1}, "supported dtypes are f32"}};
}

std::vector<Sample> masked_samples(SampleMaker& make) {
  const Tensor hides = make.values({2, 1, 5}, {0, 1, -kInf, 2, 0.5, -kInf, -kInf, -kInf, -kInf, -kInf});
  return {
      {{make.normal({5, 10}), make.mask({5, 10})}, Masked{1}, "bool mask"},
      {{make.normal({2, 3, 4, 17}), make.mask({4, 17})}, Masked{0.3}, "bool mask of the last axes"},
      {{make.normal({2, 3, 4, 17}), make.mask({2, 1, 1, 17})}, Masked{2}, "bool mask of columns, per batch"},
      {{make.normal({2, 3, 64}), make.normal({2, 3, 64})},
       Masked{0.5},
       "additive mask, rows of whole vectors"},
      {{make.normal({2, 3, 4, 9}), make.normal({3, 1, 9})}, Masked{0.5}, "additive mask broadcast twice"},
      {{make.normal({3, 9}), make.normal({})}, Masked{-1}, "one number for a mask, negative scale"},
      {{make.normal({3, 9}), make.normal({3, 1})}, Masked{1}, "additive mask of rows"},
      {{make.normal({2, 3, 5}), hides}, Masked{1}, "rows that are hidden", false},
      {{make.normal({2, 700}), make.normal({700})}, Masked{0.7}, "long rows", false},
      {{make.normal({2, 1503}), make.mask({2, 1503})}, Masked{0.7}, "longer, odd rows", false},
      {{make.normal({3, 2048}), make.mask({3, 2048})}, Masked{0.7}, "long rows of whole vectors", false},
      {{make.normal({}), make.normal({})}, Masked{2}, "scalars"},
      {{make.normal({3, 0}), make.normal({3, 1})}, Masked{1}, "empty rows"},
      {{make.normal({0, 4}), make.mask({4})}, Masked{1}, "no rows"},
  };
}

std::vector<ErrorSample> masked_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.mask({2})}, Masked{1}, "the mask must broadcast to x"},
          {{make.normal({3}), make.mask({1, 3})}, Masked{1}, "the mask must broadcast to x"},
          {{make.normal({2, 3}), make.index({2, 3}, 2)}, Masked{1}, "bool (true: seen) or floating"},
          {{make.normal({2, 3}), make.mask({2, 3})}, Masked{kInf}, "it must be finite"},
          {{make.index({2, 3}, 5), make.mask({2, 3})}, Masked{1}, "supported dtypes are f32"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(softmax, {"softmax", samples, error_samples}, {"log_softmax", samples, error_samples},
            {"masked_softmax", masked_samples, masked_errors})
