#include <cotangent/ops/sampling/multinomial_internal.h>
#include <cotangent/ops/sampling/sampling_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using sampling::Attrs;
using Multinomial = sampling::weighted::Attrs;

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, double temperature, std::int64_t k, double p,
                          const char* label) {
    return Sample{{make.normal(shape)}, Attrs{temperature, k, p, {99, 2}}, label};
  };
  return {sample({11}, 1, 0, 1, "one row"),          sample({40, 9}, 0.7, 0, 1, "rows"),
          sample({2, 3, 9}, 0, 0, 1, "the largest"), sample({40, 50}, 1.3, 5, 1, "top k"),
          sample({40, 50}, 1, 0, 0.6, "top p"),      sample({40, 50}, 0.9, 20, 0.8, "top k and p"),
          sample({3, 1}, 1, 3, 0.5, "one position"), sample({3, 4}, 1, 9, 1e-9, "k beyond the row, tiny p"),
          sample({0, 4}, 1, 0, 1, "no rows"),        sample({4, 3001}, 1, 400, 0.9, "long rows")};
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  return {{{make.normal({})}, Attrs{1, 0, 1, {}}, "it must be [..., n]"},
          {{make.normal({3, 0})}, Attrs{1, 0, 1, {}}, "something to draw"},
          {{make.normal({3})}, Attrs{-1, 0, 1, {}}, "temperature is -1"},
          {{make.normal({3})}, Attrs{1, -2, 1, {}}, "top_k is -2"},
          {{make.normal({3})}, Attrs{1, 0, 0, {}}, "top_p is 0"},
          {{make.normal({3})}, Attrs{1, 0, 1.5, {}}, "top_p is 1.5"}};
}

std::vector<Sample> multinomial_samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, std::int64_t count, bool replacement, const char* label) {
    return Sample{{make.uniform(shape, 0.1, 2)}, Multinomial{count, replacement, {1234, 5}}, label};
  };
  return {
      sample({7}, 5, true, "a vector, with replacement"),
      sample({7}, 7, false, "all of a vector"),
      sample({3, 10}, 40, true, "rows, many draws"),
      sample({3, 10}, 4, false, "rows, without replacement"),
      sample({2, 3000}, 100, true, "long rows"),
      sample({2, 3000}, 20, false, "long rows, without replacement"),
      sample({3, 1}, 1, false, "nothing to choose"),
      sample({0, 4}, 2, false, "no rows"),
      {{make.values({6}, {0, 1, 0, 0, 3, 0})}, Multinomial{20, true, {7, 0}}, "zeros"},
      {{make.values({6}, {0, 1, 0, 0, 3, 0})}, Multinomial{2, false, {7, 0}}, "zeros, without replacement"}};
}

std::vector<ErrorSample> multinomial_errors(SampleMaker& make) {
  return {{{make.uniform({2, 3, 4}, 0, 1)}, Multinomial{1, true, {}}, "it must be [n] or [rows, n]"},
          {{make.uniform({2, 0}, 0, 1)}, Multinomial{1, true, {}}, "something to draw"},
          {{make.uniform({4}, 0, 1)}, Multinomial{0, true, {}}, "count is 0"},
          {{make.uniform({4}, 0, 1)}, Multinomial{5, false, {}}, "at most 4 can be drawn"},
          {{make.index({4}, 3)}, Multinomial{1, true, {}}, "supported dtypes are f32"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(sampling, {"sample_logits", samples, errors},
            {"multinomial", multinomial_samples, multinomial_errors})
