#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

Sample sample_of(SampleMaker& make, const Shape& x, std::int64_t outs, bool bias, const char* label) {
  const Shape w{outs, x.back()};
  return {{make.normal(x), make.normal(w), bias ? make.normal({outs}) : Tensor{}}, {}, label};
}

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& x, std::int64_t outs, bool bias, const char* label) {
    return sample_of(make, x, outs, bias, label);
  };
  return {sample({4, 3}, 5, true, "a batch"),
          sample({4, 3}, 5, false, "no bias"),
          sample({3}, 5, true, "one row"),
          sample({3}, 5, false, "one row, no bias"),
          sample({2, 3, 4}, 5, true, "rank 3"),
          sample({2, 1, 3, 4}, 2, true, "rank 4"),
          sample({33, 17}, 19, true, "odd sizes"),
          sample({1, 1}, 1, true, "1x1"),
          sample({5, 3}, 1, true, "one output"),
          sample({5, 1}, 3, true, "one input"),
          sample({0, 3}, 4, true, "no rows"),
          sample({3, 0}, 4, true, "no inputs"),
          sample({3, 0}, 4, false, "no inputs, no bias"),
          sample({3, 4}, 0, true, "no outputs")};
}

// Without a bias, where x and w are 0 y is 0 and touches its kink on both sides: those samples are too large to be tried there.
std::vector<Sample> relu_samples(SampleMaker& make) {
  std::vector<Sample> all = samples(make);
  std::erase_if(all, [](const Sample& s) { return !s.inputs[2].defined(); });
  all.push_back(sample_of(make, {20, 9}, 11, false, "no bias"));
  all.push_back(sample_of(make, {40}, 7, false, "one row, no bias"));
  all.push_back(sample_of(make, {3, 0}, 4, false, "no inputs, no bias"));
  return all;
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  return {{{make.normal({4, 3}), make.normal({5, 2}), Tensor{}}, {}, "x is f64[4, 3], weight is f64[5, 2]"},
          {{make.normal({}), make.normal({5, 2}), Tensor{}}, {}, "x.size(-1) must equal weight.size(1)"},
          {{make.normal({4, 3}), make.normal({3}), Tensor{}}, {}, "it must be [out, in]"},
          {{make.normal({4, 3}), make.normal({5, 3}), make.normal({4})}, {}, "bias must be [weight.size(0)]"},
          {{make.index({4, 3}, 5), make.index({5, 3}, 5), Tensor{}}, {}, "i64"}};
}

}  // namespace
}  // namespace ct

CT_ORACLE(linear)
CT_OP_TESTS(linear, {"linear", samples, errors, nullptr, &oracle_kernels::linear},
            {"linear_relu", relu_samples, errors, nullptr, &oracle_kernels::linear})
