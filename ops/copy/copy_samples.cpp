#include <cotangent/ops/copy/copy_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

// The elements of the last input, by index arithmetic alone.
std::vector<Tensor> copy_reference(std::span<const Tensor> in, AttrsView) {
  return {
      testing::by_index(in.back().shape(), [&](const Dims& index) { return testing::at(in.back(), index); })};
}

std::vector<Tensor> fill_reference(std::span<const Tensor> in, AttrsView attrs) {
  const double value = static_cast<const FillAttrs*>(attrs.data)->value.to<double>();
  return {testing::by_index(in[0].shape(), [&](const Dims&) { return value; })};
}

std::vector<Sample> shape_samples(SampleMaker& make, const AnyAttrs& attrs) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{0, 3}, Shape{5, 3}, Shape{2, 1, 9},
                             Shape{17, 35}, Shape{2, 3, 2, 5}})
    samples.push_back({{make.normal(shape)}, attrs, ""});
  return samples;
}

std::vector<Sample> copy_samples(SampleMaker& make) { return shape_samples(make, CopyAttrs{f64}); }

// To the CPU: from a GPU this brings the values down and the gradient up.
std::vector<Sample> to_device_samples(SampleMaker& make) { return shape_samples(make, ToDeviceAttrs{cpu}); }

std::vector<ErrorSample> to_device_errors(SampleMaker& make) {
  return {{{make.normal({2})}, ToDeviceAttrs{cuda(99)}, "cuda:99"}};
}

std::vector<Sample> assign_samples(SampleMaker& make) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 3}, Shape{5, 3}, Shape{2, 1, 9}})
    samples.push_back({{make.normal(shape), make.normal(shape)}, {}, ""});
  return samples;
}

std::vector<ErrorSample> assign_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.normal({3, 2})}, {}, "must have the same shape"},
          {{make.normal({2}), make.index({2}, 5)}, {}, "different dtypes"}};
}

std::vector<Sample> fill_samples(SampleMaker& make) {
  std::vector<Sample> samples = shape_samples(make, FillAttrs{1});
  samples.push_back({{make.normal({3, 5})}, FillAttrs{0}, "zero"});
  return samples;
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(copy, {"copy", copy_samples, nullptr, copy_reference},
            {"to_device", to_device_samples, to_device_errors, copy_reference},
            {"assign", assign_samples, assign_errors, copy_reference},
            {"fill", fill_samples, nullptr, fill_reference})
