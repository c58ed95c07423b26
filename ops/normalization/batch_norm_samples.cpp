#include <cotangent/ops/normalization/batch_norm_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using normalization::batch::Attrs;

std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> all;
  const auto add = [&](const Shape& x, bool weight, bool bias, bool training, const char* label,
                       double eps = 1e-5) {
    const Shape channels{x[1]};
    const Tensor none;
    Sample s{{make.normal(x), weight ? make.uniform(channels, 0.5, 1.5) : none,
              bias ? make.normal(channels) : none, training ? none : make.normal(channels),
              training ? none : make.uniform(channels, 0.5, 2)},
             Attrs{eps},
             label};
    s.smooth = numel(x) < 500;  // central differences of long sums drown in their rounding
    all.push_back(std::move(s));
  };
  for (const bool training : {true, false}) {
    add({2, 3, 4, 6}, true, true, training, "images");
    add({3, 2, 5, 3}, true, true, training, "images of odd sizes");
    add({6, 5}, true, true, training, "no pixels");
    add({4, 3, 7}, false, false, training, "no weight");
    add({4, 3, 8}, true, false, training, "weight alone");
    add({4, 3, 8}, false, true, training, "bias alone");
    add({2, 3, 4}, true, true, training, "a large eps", 0.5);
    add({1, 3, 40}, true, true, training, "one image");
    add({9, 2, 40, 40}, true, true, training, "several parts of a channel");
    add({70, 3, 3}, true, true, training, "many images");
    add({3, 0, 4}, true, true, training, "no channels");
  }
  add({0, 3, 4}, true, true, false, "no images");
  return all;
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  const Tensor x = make.normal({4, 3, 2}), c = make.normal({3}), none;
  return {{{make.normal({4}), none, none, none, none}, Attrs{}, "it must be [N, C, ...]"},
          {{x, make.normal({4}), none, none, none}, Attrs{}, "weight is f64[4], x is f64[4, 3, 2]"},
          {{x, none, make.normal({3, 1}), none, none}, Attrs{}, "it must be [3], a number for each channel"},
          {{x, none, none, c, none}, Attrs{}, "one of mean and var is undefined"},
          {{x, none, none, c, make.normal({2})}, Attrs{}, "var is f64[2]"},
          {{make.normal({1, 3}), none, none, none, none}, Attrs{}, "more than 1 are needed"},
          {{x, none, none, none, none}, Attrs{-1}, "eps is -1"},
          {{make.index({4, 3}, 3), none, none, none, none}, Attrs{}, "i64"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(batch_norm, {"batch_norm", samples, errors})
