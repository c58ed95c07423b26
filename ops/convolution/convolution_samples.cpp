#include <cotangent/ops/convolution/convolution_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using convolution::Attrs;

// One convolution: every op takes its samples from the same list.
struct Case {
  const char* label;
  Shape x;  // [N, C, H, W]
  std::int64_t filters;
  Size2d kernel;
  Attrs attrs = {};

  Size2d out() const {
    const auto size = [](std::int64_t n, std::int64_t k, std::int64_t s, std::int64_t pad, std::int64_t d) {
      return (n + pad - d * (k - 1) - 1) / s + 1;
    };
    return {size(x[2], kernel.height, attrs.stride.height, attrs.padding.height + attrs.padding_end.height,
                 attrs.dilation.height),
            size(x[3], kernel.width, attrs.stride.width, attrs.padding.width + attrs.padding_end.width,
                 attrs.dilation.width)};
  }
  Shape weight() const { return {filters, x[1] / attrs.groups, kernel.height, kernel.width}; }
  Shape y() const { return {x[0], filters, out().height, out().width}; }
};

std::vector<Case> cases() {
  return {
      {"3x3", {2, 3, 5, 6}, 4, 3},
      {"1x1", {2, 5, 4, 3}, 3, 1},
      {"padding", {1, 2, 4, 5}, 3, 3, {.padding = 1, .padding_end = 1}},
      {"stride", {2, 2, 7, 8}, 3, 3, {.stride = {2, 3}, .padding = 1, .padding_end = 1}},
      {"1x1 with a stride", {1, 3, 5, 5}, 2, 1, {.stride = 2}},
      {"dilation", {1, 2, 8, 9}, 2, {2, 3}, {.padding = {1, 2}, .padding_end = {1, 2}, .dilation = {3, 2}}},
      {"groups", {2, 4, 5, 4}, 6, {2, 3}, {.padding = 1, .padding_end = 1, .groups = 2}},
      {"depthwise", {2, 3, 6, 5}, 3, 3, {.padding = 1, .padding_end = 1, .groups = 3}},
      {"depthwise, two filters, a stride",
       {1, 3, 7, 5},
       6,
       3,
       {.stride = 2, .padding = 1, .padding_end = 1, .groups = 3}},
      {"one channel", {2, 1, 5, 5}, 3, {3, 2}},
      {"one channel, many filters", {2, 1, 5, 4}, 9, 3, {.padding = 1, .padding_end = 1}},
      {"a kernel as large as the image", {3, 2, 4, 3}, 5, {4, 3}},
      {"one more after than before", {1, 2, 5, 6}, 2, {4, 2}, {.padding = {1, 0}, .padding_end = {2, 1}}},
      {"padding beyond the kernel", {1, 2, 2, 3}, 2, 2, {.padding = 3, .padding_end = 3}},
      {"one row", {2, 3, 1, 17}, 4, {1, 5}, {.stride = {1, 2}, .padding = {0, 2}, .padding_end = {0, 2}}},
      {"the last columns unseen", {1, 2, 6, 6}, 2, 3, {.stride = 2}},
      {"odd sizes", {1, 5, 9, 11}, 7, 3, {.padding = 1, .padding_end = 1}},
      {"3x3 of many channels", {8, 8, 5, 7}, 9, 3, {.padding = 1, .padding_end = 1}},
      {"3x3 of many channels, groups, other padding after than before",
       {11, 16, 4, 5},
       16,
       3,
       {.padding = {0, 2}, .padding_end = {2, 0}, .groups = 2}},
      {"3x3 of many channels, long rows", {2, 8, 6, 37}, 8, 3},
      {"many images", {18, 2, 3, 4}, 2, 2},
      {"no images", {0, 3, 5, 5}, 4, 3},
      {"a stride, 16 channels",
       {2, 16, 3, 8},
       16,
       {1, 2},
       {.stride = {1, 2}, .padding = {0, 1}, .padding_end = {0, 1}}}};
}

// Samples of an op whose inputs have the shapes `first` and `second`.
template <class F>
std::vector<Sample> samples_of(SampleMaker& make, bool bias, const F& shapes) {
  std::vector<Sample> all;
  for (const Case& c : cases()) {
    Attrs attrs = c.attrs;
    const std::array<Shape, 3> s = shapes(c);  // of the inputs, and of the bias
    Sample sample{{make.normal(s[0]), make.normal(s[1])}, {}, c.label};
    if (c.x[0] * c.x[2] * c.x[3] > 64)  // the digits of long sums are compared with 1: small products
      for (Tensor& t : sample.inputs) t.mul_(0.2);
    if (bias) sample.inputs.push_back(all.size() % 3 == 2 ? Tensor{} : make.normal(s[2]));
    if (!bias) attrs.kernel = c.kernel;
    sample.attrs = attrs;
    all.push_back(std::move(sample));
  }
  return all;
}

std::vector<Sample> forward_samples(SampleMaker& make) {
  return samples_of(make, true, [](const Case& c) { return std::array{c.x, c.weight(), Shape{c.filters}}; });
}
std::vector<Sample> transposed_samples(SampleMaker& make) {
  return samples_of(make, true, [](const Case& c) { return std::array{c.y(), c.weight(), Shape{c.x[1]}}; });
}
std::vector<Sample> weight_samples(SampleMaker& make) {
  return samples_of(make, false, [](const Case& c) { return std::array{c.x, c.y(), Shape{}}; });
}

std::vector<ErrorSample> forward_errors(SampleMaker& make) {
  const Tensor x = make.normal({2, 4, 5, 6}), w = make.normal({6, 4, 3, 3}), none;
  const auto with = [&](const Attrs& attrs, const char* message) {
    return ErrorSample{{x, w, none}, attrs, message};
  };
  return {{{make.normal({4, 5}), w, none}, Attrs{}, "it must be [N, C, H, W]"},
          {{make.normal({1, 4, 0, 5}), w, none}, Attrs{}, "of at least one pixel"},
          {{x, make.normal({6, 4, 3}), none}, Attrs{}, "it must be [O, C / groups, kH, kW]"},
          {{x, make.normal({6, 4, 0, 3}), none}, Attrs{}, "a kernel of at least one element"},
          {{x, make.normal({6, 3, 3, 3}), none}, Attrs{}, "weight.size(1) must be x.size(1) / groups"},
          {{x, w, none}, Attrs{.groups = 2}, "weight.size(1) must be x.size(1) / groups"},
          {{x, w, none}, Attrs{.groups = 3}, "must be multiples of groups"},
          {{x, make.normal({5, 2, 3, 3}), none}, Attrs{.groups = 2}, "must be multiples of groups"},
          {{x, w, none}, Attrs{.groups = 0}, "groups is 0"},
          {{x, w, make.normal({4})}, Attrs{}, "it must be [6]"},
          {{x, make.normal({6, 4, 6, 3}), none}, Attrs{}, "the kernel reaches over 6 elements along axis 2"},
          {{x, w, none}, Attrs{.dilation = 3}, "the kernel reaches over 7 elements along axis 2"},
          with({.stride = {1, 0}}, "stride is {1, 0}"),
          with({.padding = {-1, 0}, .padding_end = {-1, 0}}, "padding is {-1, 0}"),
          with({.dilation = 0}, "dilation is {0, 0}"),
          {{x, w.to(f32), none}, Attrs{}, "f32"},
          {{make.index({2, 4, 5, 6}, 3), make.index({6, 4, 3, 3}, 3), none}, Attrs{}, "i64"}};
}
std::vector<ErrorSample> transposed_errors(SampleMaker& make) {
  const Tensor x = make.normal({2, 4, 5, 6}), w = make.normal({4, 6, 3, 3}), none;
  return {{{make.normal({4, 5}), w, none}, Attrs{}, "it must be [N, C, H, W]"},
          {{x, make.normal({4, 6, 3}), none}, Attrs{}, "it must be [C, O / groups, kH, kW]"},
          {{x, make.normal({6, 4, 3, 3}), none}, Attrs{}, "weight.size(0) must be x.size(1)"},
          {{x, w, none}, Attrs{.groups = 3}, "a multiple of groups"},
          {{x, w, make.normal({4})}, Attrs{}, "it must be [6]"},
          {{x, w, none}, Attrs{.padding = 4, .padding_end = 4}, "at least one must be left"},
          {{x, w, none}, Attrs{.stride = 0}, "stride is {0, 0}"}};
}
std::vector<ErrorSample> weight_errors(SampleMaker& make) {
  const Tensor x = make.normal({2, 4, 5, 6}), g = make.normal({2, 3, 3, 4});
  return {{{x, g}, Attrs{}, "the kernel is {0, 0}"},
          {{x, make.normal({2, 3, 3})}, Attrs{.kernel = 3}, "it must be [N, C, H, W]"},
          {{x, g}, Attrs{.groups = 2, .kernel = 3}, "must be multiples of groups"},
          {{x, g}, Attrs{.kernel = 2}, "g must be [2, O, 4, 5]"},
          {{x, g}, Attrs{.kernel = 7}, "the kernel must not be larger"}};
}

}  // namespace
}  // namespace ct

CT_ORACLE(convolution)
CT_OP_TESTS(convolution, {"conv2d", forward_samples, forward_errors, nullptr, &oracle_kernels::convolution},
            {"conv_transpose2d", transposed_samples, transposed_errors, nullptr,
             &oracle_kernels::convolution},
            {"conv2d_weight", weight_samples, weight_errors, nullptr, &oracle_kernels::convolution})
