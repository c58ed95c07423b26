#include <utility>

#include <cotangent/ops/copy/concat_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using Attrs = ConcatAttrs;

// Element by element, from the formula; stack is the concatenation of inputs with an axis more.
template <bool stacked>
std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape = in[0].shape();
  const std::int64_t axis =
      wrap_axis("reference", static_cast<const Attrs*>(attrs.data)->axis, shape.size() + stacked);
  const int along = static_cast<int>(axis);
  const auto length = [&](const Tensor& x) { return stacked ? 1 : x.shape()[along]; };
  if (stacked) shape.insert(along, 1);
  shape[along] = 0;
  for (const Tensor& x : in) shape[along] += length(x);
  return {testing::by_index(shape, [&](Dims index) {
    std::size_t source = 0;
    while (index[along] >= length(in[source])) index[along] -= length(in[source++]);
    if (stacked) index.erase(along);
    return testing::at(in[source], index);
  })};
}

std::vector<Sample> concat_samples(SampleMaker& make) {
  std::vector<Sample> samples{
      {{make.normal({3}), make.normal({1}), make.normal({4})}, Attrs{0}, "vectors"},
      {{make.normal({5, 3})}, Attrs{0}, "a single input"},
      {{make.normal({2, 3}), make.normal({1, 3})}, Attrs{0}, "rows"},
      {{make.normal({3, 2}), make.normal({3, 5})}, Attrs{-1}, "columns"},
      {{make.normal({2, 4, 3}), make.normal({2, 8, 3}), make.normal({2, 4, 3})}, Attrs{1}, "inner axis"},
      {{make.normal({2, 0}), make.normal({2, 3}), make.normal({2, 0})}, Attrs{1}, "some empty"},
      {{make.normal({0, 3}), make.normal({0, 3})}, Attrs{0}, "all empty"},
      {{make.normal({16, 4}), make.normal({16, 8})}, Attrs{1}, "wide words"},
  };
  Sample many{{}, Attrs{0}, "more inputs than a mask or a launch holds"};
  for (int k = 0; k < 131; ++k) many.inputs.push_back(make.normal({k % 3, 2}));
  samples.push_back(std::move(many));
  return samples;
}

std::vector<ErrorSample> concat_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.normal({2, 4})}, Attrs{0}, "must be equal"},
          {{make.normal({2, 3}), make.normal({6})}, Attrs{0}, "must be equal"},
          {{make.normal({}), make.normal({})}, Attrs{0}, "use stack()"},
          {{make.normal({2}), make.normal({2})}, Attrs{1}, "axis 1 is out of range"}};
}

std::vector<Sample> stack_samples(SampleMaker& make) {
  return {
      {{make.normal({}), make.normal({}), make.normal({})}, Attrs{0}, "scalars"},
      {{make.normal({3}), make.normal({3})}, Attrs{0}, "rows"},
      {{make.normal({3}), make.normal({3})}, Attrs{-1}, "columns"},
      {{make.normal({2, 5, 3}), make.normal({2, 5, 3}), make.normal({2, 5, 3})}, Attrs{1}, "inner axis"},
      {{make.normal({4, 1})}, Attrs{2}, "a single input"},
      {{make.normal({0, 2}), make.normal({0, 2})}, Attrs{0}, "empty"},
  };
}

std::vector<ErrorSample> stack_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.normal({3, 2})}, Attrs{0}, "all shapes must be equal"},
          {{make.normal({2}), make.normal({2})}, Attrs{2}, "axis 2 is out of range"},
          {{make.normal({1, 1, 1, 1, 1, 1, 1, 1})}, Attrs{0}, "at most 8 are supported"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(concat, {"concat", concat_samples, concat_errors, reference<false>},
            {"stack", stack_samples, stack_errors, reference<true>})
