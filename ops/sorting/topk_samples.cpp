#include <cotangent/ops/sorting/topk_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using topk_kernels::Attrs;

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, std::int64_t k, std::int64_t axis, const char* label) {
    return Sample{{make.normal(shape)}, Attrs{k, axis}, label};
  };
  return {sample({7}, 3, 0, "a vector"),
          sample({5, 9}, 1, -1, "the largest"),
          sample({5, 9}, 9, -1, "all of a row"),
          sample({5, 9}, 0, -1, "none"),
          sample({9, 5}, 4, 0, "along the first axis"),
          sample({2, 11, 3}, 5, 1, "along an inner axis"),
          sample({2, 1}, 1, -1, "rows of one"),
          sample({0, 4}, 2, -1, "no rows"),
          sample({3, 1500}, 40, -1, "long rows"),
          sample({2, 5000}, 4097, -1, "many of long rows"),
          {{make.values({2, 6}, {1, 3, 3, -2, 3, 1, 0, 0, 0, 0, 0, 0})}, Attrs{4, -1}, "equal ones", false}};
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  return {{{make.normal({3, 4})}, Attrs{5, -1}, "k is 5"},
          {{make.normal({3, 4})}, Attrs{-1, -1}, "must lie in [0, 4]"},
          {{make.normal({})}, Attrs{1, -1}, "no axis to choose along"},
          {{make.normal({3, 4})}, Attrs{1, 2}, "axis 2"},
          {{make.mask({3})}, Attrs{1, -1}, "supported dtypes"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(topk, {"topk", samples, errors})
