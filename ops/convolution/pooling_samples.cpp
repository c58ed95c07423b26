#include <cotangent/ops/convolution/pooling.h>
#include <cotangent/ops/convolution/pooling_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using convolution::pooling::Attrs;

struct Case {
  const char* label;
  Shape x;
  Attrs attrs;
};

std::vector<Case> cases(bool dilation) {
  std::vector<Case> all = {{"2x2", {2, 3, 4, 6}, {.kernel = 2, .stride = 2}},
                           {"overlapping", {1, 2, 7, 5}, {.kernel = 3, .stride = {2, 1}}},
                           {"padding", {2, 1, 5, 6}, {.kernel = 3, .stride = 2, .padding = 1}},
                           {"long rows", {1, 1, 3, 41}, {.kernel = 3, .stride = 2, .padding = 1}},
                           {"gaps", {1, 2, 7, 8}, {.kernel = 2, .stride = 3}},
                           {"up to the end", {1, 2, 6, 7}, {.kernel = 3, .stride = 2, .ceil_mode = true}},
                           {"up to the end, padding",
                            {2, 1, 6, 5},
                            {.kernel = {2, 3}, .stride = {3, 2}, .padding = 1, .ceil_mode = true}},
                           {"one image", {3, 5, 4}, {.kernel = {3, 2}, .stride = 1}},
                           {"the whole image", {2, 2, 3, 5}, {.kernel = {3, 5}, .stride = 1}},
                           {"adaptive", {2, 2, 7, 5}, {.kernel = {3, 2}, .adaptive = true}},
                           {"adaptive to more", {1, 2, 3, 4}, {.kernel = {5, 7}, .adaptive = true}},
                           {"no images", {0, 2, 4, 4}, {.kernel = 2, .stride = 2}}};
  if (dilation)
    all.push_back(
        {"dilation", {1, 2, 7, 8}, {.kernel = {3, 2}, .stride = 1, .padding = 1, .dilation = {2, 3}}});
  if (!dilation) {
    all.push_back({"without the padding",
                   {2, 1, 5, 6},
                   {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}});
    all.push_back({"a divisor", {2, 1, 5, 6}, {.kernel = 3, .stride = 2, .divisor_override = 5}});
  }
  return all;
}

std::vector<Sample> max_samples(SampleMaker& make) {
  std::vector<Sample> all;
  for (const Case& c : cases(true)) all.push_back({{make.normal(c.x)}, c.attrs, c.label});
  return all;
}

// Elements that max_pool2d chooses of an image, with these windows.
Tensor chosen(const Tensor& x, const Attrs& a) {
  return max_pool2d_with_indices(x, a.kernel, {a.stride, a.padding, a.dilation, a.ceil_mode}).indices;
}

std::vector<Sample> average_samples(SampleMaker& make) {
  std::vector<Sample> all;
  for (const Case& c : cases(false)) all.push_back({{make.normal(c.x), Tensor{}}, c.attrs, c.label});
  for (const Case& c : cases(true)) {
    const Tensor x = make.normal(c.x);
    if (!c.attrs.adaptive)
      all.push_back({{x, chosen(make.normal(c.x), c.attrs)}, c.attrs, "chosen elements"});
  }
  return all;
}

std::vector<Sample> gradient_samples(SampleMaker& make) {
  std::vector<Sample> all;
  for (const bool dilation : {false, true})
    for (const Case& c : cases(dilation)) {
      if (dilation && c.attrs.adaptive) continue;
      Attrs attrs = c.attrs;
      attrs.size = {c.x[c.x.size() - 2], c.x[c.x.size() - 1]};
      const Tensor x = make.normal(c.x);
      const Tensor y =
          attrs.adaptive
              ? adaptive_avg_pool2d(x, attrs.kernel)
              : max_pool2d(x, attrs.kernel, {attrs.stride, attrs.padding, attrs.dilation, attrs.ceil_mode});
      all.push_back({{make.normal(y.shape()), dilation ? chosen(x, attrs) : Tensor{}}, attrs, c.label});
    }
  return all;
}

std::vector<ErrorSample> max_errors(SampleMaker& make) {
  const auto sample = [&](const Shape& x, const Attrs& attrs, const char* message) {
    return ErrorSample{{make.normal(x)}, attrs, message};
  };
  return {sample({4, 5}, {.kernel = 2}, "it must be [N, C, H, W]"),
          sample({1, 2, 0, 5}, {.kernel = 1}, "of at least one pixel"),
          sample({1, 2, 4, 5}, {.kernel = {0, 1}}, "kernel_size is {0, 1}"),
          sample({1, 2, 4, 5}, {.kernel = 2, .stride = 0}, "stride is {0, 0}"),
          sample({1, 2, 4, 5}, {.kernel = 2, .dilation = 0}, "dilation is {0, 0}"),
          sample({1, 2, 4, 5}, {.kernel = 3, .padding = {0, 2}}, "at most half of that"),
          sample({1, 2, 4, 5}, {.kernel = 3, .padding = -1}, "padding is {-1, -1}"),
          sample({1, 2, 4, 5}, {.kernel = 5}, "a window reaches over 5 elements"),
          sample({1, 2, 4, 5}, {.kernel = 3, .dilation = 2}, "a window reaches over 5 elements"),
          sample({1, 2, 4, 5}, {.kernel = {0, 2}, .adaptive = true}, "output_size is {0, 2}"),
          {{make.index({1, 2, 4, 5}, 3)}, Attrs{.kernel = 2}, "i64"}};
}
std::vector<ErrorSample> average_errors(SampleMaker& make) {
  const Tensor x = make.normal({1, 2, 4, 6});
  return {{{x, Tensor{}}, Attrs{.kernel = 2, .divisor_override = -1}, "divisor_override is -1"},
          {{x, make.index({1, 2, 4, 6}, 5)}, Attrs{.kernel = 2, .stride = 2}, "it must be [1, 2, 2, 3]"},
          {{x, make.normal({1, 2, 2, 3})}, Attrs{.kernel = 2, .stride = 2}, "it must be i64: convert"}};
}
std::vector<ErrorSample> gradient_errors(SampleMaker& make) {
  const Tensor g = make.normal({1, 2, 2, 3});
  return {{{g, Tensor{}}, Attrs{.kernel = 2, .stride = 2}, "size is {0, 0}"},
          {{g, Tensor{}},
           Attrs{.kernel = 2, .stride = 2, .size = {4, 8}},
           "the pool of such an image is [1, 2, 2, 4]"},
          {{g, make.index({1, 2, 3, 2}, 5)},
           Attrs{.kernel = 2, .stride = 2, .size = {4, 6}},
           "it must be [1, 2, 2, 3]"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(pooling, {"max_pool2d", max_samples, max_errors}, {"avg_pool2d", average_samples, average_errors},
            {"pool2d_gradient", gradient_samples, gradient_errors})
