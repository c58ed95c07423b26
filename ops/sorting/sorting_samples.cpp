#include <limits>

#include <cotangent/ops/sorting/searchsorted_internal.h>
#include <cotangent/ops/sorting/topk_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using sorting::Attrs;

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, std::int64_t k, std::int64_t axis, const char* label,
                          bool largest = true) {
    return Sample{{make.normal(shape)}, Attrs{k, axis, largest}, label};
  };
  return {
      sample({7}, 3, 0, "a vector"),
      sample({5, 9}, 1, -1, "the largest"),
      sample({5, 9}, 9, -1, "all of a row"),
      sample({5, 9}, 0, -1, "none"),
      sample({9, 5}, 4, 0, "along the first axis"),
      sample({2, 11, 3}, 5, 1, "along an inner axis"),
      sample({2, 1}, 1, -1, "rows of one"),
      sample({0, 4}, 2, -1, "no rows"),
      sample({3, 1500}, 40, -1, "long rows"),
      sample({2, 5000}, 4097, -1, "many of long rows"),
      sample({4, 9}, 3, -1, "the smallest", false),
      sample({2, 5000}, 2100, -1, "the smallest of long rows", false),
      {{make.values({2, 6}, {1, 3, 3, -2, 3, 1, 0, 0, 0, 0, 0, 0})}, Attrs{4, -1, true}, "equal ones", false},
      {{make.values({2, 6}, {1, 3, 3, -2, 3, 1, 0, 0, 0, 0, 0, 0})},
       Attrs{2, -1, false},
       "equal small ones",
       false}};
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  return {{{make.normal({3, 4})}, Attrs{5, -1, true}, "k is 5"},
          {{make.normal({3, 4})}, Attrs{-1, -1, true}, "must lie in [0, 4]"},
          {{make.normal({})}, Attrs{1, -1, true}, "no axis to choose along"},
          {{make.normal({3, 4})}, Attrs{1, 2, true}, "axis 2"},
          {{make.mask({3})}, Attrs{1, -1, true}, "supported dtypes"}};
}

std::vector<Sample> sort_samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, std::int64_t axis, bool descending, const char* label) {
    return Sample{{make.normal(shape)}, Attrs{0, axis, descending}, label};
  };
  const double inf = std::numeric_limits<double>::infinity();
  return {
      sample({7}, 0, false, "a vector"),
      sample({5, 9}, -1, true, "descending"),
      sample({9, 5}, 0, false, "along the first axis"),
      sample({2, 11, 3}, 1, true, "along an inner axis"),
      sample({}, -1, false, "a scalar"),
      sample({2, 1}, 1, false, "rows of one"),
      sample({0, 4}, 1, false, "no rows"),
      sample({4, 0}, 1, false, "rows of none"),
      sample({2, 3000}, -1, false, "long rows"),
      {{make.values({2, 6}, {1, 3, 3, -2, 3, 1, 0, -0., 0, 0, -0., 0})},
       Attrs{0, -1, false},
       "equal ones",
       false},
      {{make.values({2, 4}, {1, inf, -inf, 2, inf, inf, -inf, 0})}, Attrs{0, -1, true}, "infinities", false}};
}
std::vector<ErrorSample> sort_errors(SampleMaker& make) {
  return {{{make.normal({3, 4})}, Attrs{0, 2, false}, "axis 2"},
          {{make.normal({3, 4})}, Attrs{0, -3, false}, "axis -3"},
          {{make.normal({})}, Attrs{0, 1, false}, "axis 1"}};
}

std::vector<Sample> searchsorted_samples(SampleMaker& make) {
  const Tensor steps = make.values({5}, {1, 3, 3, 4, 7});
  const Tensor rows = make.values({2, 3}, {1, 2, 4, 0, 0, 0});
  std::vector<Sample> all;
  for (const bool right : {false, true}) {
    const sorting::searched::Attrs attrs{right};
    all.push_back({{steps, make.values({2, 4}, {0, 1, 3, 2, 4, 5, 7, 9})}, attrs, "one list for all"});
    all.push_back({{steps, make.values({}, {3})}, attrs, "a scalar"});
    all.push_back({{rows, make.values({2, 2}, {2, 3, 1, 0})}, attrs, "a list for each row"});
    all.push_back({{make.normal({0}), make.normal({3})}, attrs, "an empty list"});
    all.push_back({{steps, make.normal({3, 0})}, attrs, "no values"});
    all.push_back({{steps, make.normal({70000})}, attrs, "more than a chunk"});
  }
  return all;
}
std::vector<ErrorSample> searchsorted_errors(SampleMaker& make) {
  const sorting::searched::Attrs attrs{false};
  return {{{make.normal({}), make.normal({2})}, attrs, "at least rank 1"},
          {{make.normal({2, 3}), make.normal({3, 3})}, attrs, "all axes but the last"},
          {{make.normal({2, 3}), make.normal({3})}, attrs, "all axes but the last"},
          {{make.mask({3}), make.mask({3})}, attrs, "supported dtypes"}};
}
// Number of elements of its list that are less than a value, or not larger.
std::vector<Tensor> searchsorted_reference(std::span<const Tensor> in, AttrsView attrs) {
  const bool right = static_cast<const sorting::searched::Attrs*>(attrs.data)->right;
  const Tensor &list = in[0], &values = in[1];
  return {testing::by_index(values.shape(), [&](const Dims& at) {
    Dims place = list.dim() == 1 ? Dims{0} : at;
    const double value = testing::at(values, at);
    double count = 0;
    for (std::int64_t j = 0; j < list.shape().back(); ++j) {
      place[place.size() - 1] = j;
      const double x = testing::at(list, place);
      count += right ? x <= value : x < value;
    }
    return count;
  })};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(sorting, {"topk", samples, errors}, {"sort", sort_samples, sort_errors},
            {"searchsorted", searchsorted_samples, searchsorted_errors, searchsorted_reference})
