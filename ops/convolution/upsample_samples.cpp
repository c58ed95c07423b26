#include <cotangent/ops/convolution/upsample_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using convolution::resizing::Attrs;

struct Case {
  const char* label;
  Shape x;
  Attrs attrs;
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"to twice", {2, 3, 4, 8}, {.size = {8, 16}}},
      {"to twice, odd", {1, 2, 3, 5}, {.size = {6, 10}}},
      {"to less", {2, 1, 7, 6}, {.size = {3, 4}}},
      {"to more", {1, 2, 3, 4}, {.size = {7, 9}}},
      {"more rows, fewer columns", {1, 2, 3, 9}, {.size = {5, 4}}},
      {"one pixel", {2, 2, 1, 1}, {.size = {3, 2}}},
      {"to one pixel", {1, 3, 4, 3}, {.size = 1}},
      {"the same size", {1, 1, 5, 4}, {.size = {5, 4}}},
      {"a factor", {1, 2, 4, 5}, {.size = {6, 12}, .factor_height = 1.6, .factor_width = 2.5}},
      {"a factor below 1", {2, 1, 9, 8}, {.size = {5, 2}, .factor_height = 0.6, .factor_width = 0.3}},
      {"many columns", {1, 1, 2, 70}, {.size = {3, 150}}},
      {"no images", {0, 2, 4, 4}, {.size = 8}}};
  const std::size_t count = all.size();
  for (const bool align : {false, true})
    for (std::size_t i = 0; i < count; ++i) {
      Case c = all[i];
      c.attrs.linear = true;
      c.attrs.align_corners = align;
      all.push_back(c);
    }
  return all;
}

std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> all;
  for (const Case& c : cases()) all.push_back({{make.normal(c.x)}, c.attrs, c.label});
  return all;
}
std::vector<Sample> gradient_samples(SampleMaker& make) {
  std::vector<Sample> all;
  for (const Case& c : cases()) {
    Attrs attrs = c.attrs;
    attrs.image = {c.x[2], c.x[3]};
    all.push_back({{make.normal({c.x[0], c.x[1], attrs.size.height, attrs.size.width})}, attrs, c.label});
  }
  return all;
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  const Tensor x = make.normal({1, 2, 4, 5});
  return {{{make.normal({4, 5})}, Attrs{.size = 2}, "it must be [N, C, H, W]"},
          {{make.normal({1, 2, 0, 5})}, Attrs{.size = 2}, "of at least one pixel"},
          {{x}, Attrs{.size = {0, 3}}, "size is {0, 3}"},
          {{x}, Attrs{.size = {1 << 20, 1 << 20}}, "an image of more than"},
          {{x}, Attrs{.size = 2, .factor_width = -1}, "scale_factor is -1"},
          {{x}, Attrs{.size = 2, .align_corners = true}, "align_corners is set"},
          {{make.index({1, 2, 4, 5}, 3)}, Attrs{.size = 2}, "i64"}};
}
std::vector<ErrorSample> gradient_errors(SampleMaker& make) {
  const Tensor g = make.normal({1, 2, 4, 5});
  return {{{g}, Attrs{.size = {4, 6}, .image = 2}, "its images must be of that size"},
          {{g}, Attrs{.size = {4, 5}}, "size is {0, 0}"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(upsample, {"upsample2d", samples, errors},
            {"upsample2d_gradient", gradient_samples, gradient_errors})
