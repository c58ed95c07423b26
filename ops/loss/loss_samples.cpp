#include <utility>

#include <cotangent/ops/loss/classes/class_loss_internal.h>
#include <cotangent/ops/loss/classes/cross_entropy_internal.h>
#include <cotangent/ops/loss/element/bce_with_logits_internal.h>
#include <cotangent/ops/loss/element/mse_loss_internal.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using LinearAttrs = loss::head::Attrs;
constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

// The shape of the labels of scores.
Shape labels_of(Shape scores) {
  scores.erase(loss::class_axis(scores));
  return scores;
}

std::vector<Sample> mse_loss_samples(SampleMaker& make) {
  std::vector<Sample> samples;
  for (const Reduction reduction : kReductions)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{2, 3, 7}, Shape{67}, Shape{0, 3}})
      samples.push_back(
          {{make.normal(shape), make.normal(shape)}, MseLossAttrs{reduction}, name(reduction).data()});
  return samples;
}

std::vector<ErrorSample> mse_loss_errors(SampleMaker& make) {
  const MseLossAttrs mean{Reduction::mean};
  return {{{make.normal({4, 1}), make.normal({4})}, mean, "input is f64[4, 1], target is f64[4]"},
          {{make.index({4}, 3), make.index({4}, 3)}, mean, "i64"},
          {{make.normal({4}), make.index({4}, 3)}, mean, "different dtypes"}};
}

std::vector<Sample> bce_with_logits_samples(SampleMaker& make) {
  std::vector<Sample> samples;
  const auto add = [&](const Shape& x, Tensor weight, Tensor pos_weight, Reduction reduction,
                       const char* label) {
    samples.push_back({{make.normal(x), make.uniform(x, 0, 1), std::move(weight), std::move(pos_weight)},
                       BceWithLogitsAttrs{reduction},
                       label});
  };
  const auto some = [&](const Shape& s) { return make.uniform(s, 0.2, 2); };
  for (const Reduction r : kReductions) {
    add({4, 5}, {}, {}, r, name(r).data());
    add({}, {}, {}, r, "a scalar");
    add({0, 3}, {}, {}, r, "empty");
    add({4, 5}, some({4, 5}), some({5}), r, "a weight per element and per class");
    add({4, 5}, some({4, 1}), {}, r, "a weight per row");
    add({3, 4, 5}, {}, some({4, 1}), r, "a weight along the middle axis");
    add({37}, some({1}), some({}), r, "scalar weights");
  }
  return samples;
}

std::vector<ErrorSample> bce_with_logits_errors(SampleMaker& make) {
  const BceWithLogitsAttrs mean{Reduction::mean};
  return {
      {{make.normal({4, 1}), make.normal({4}), Tensor{}, Tensor{}},
       mean,
       "input is f64[4, 1], target is f64[4]"},
      {{make.normal({4, 3}), make.normal({4, 3}), make.normal({4}), Tensor{}}, mean, "weight is f64[4]"},
      {{make.normal({4, 3}), make.normal({4, 3}), Tensor{}, make.normal({2, 4, 3})}, mean, "pos_weight is"},
      {{make.normal({4}), make.index({4}, 2), Tensor{}, Tensor{}}, mean, "different dtypes"}};
}

std::vector<Sample> nll_loss_samples(SampleMaker& make) {
  std::vector<Sample> samples;
  for (const Reduction reduction : kReductions) {
    const NllLossAttrs attrs{reduction, -100}, ignore{reduction, 1};
    const auto add = [&](const Shape& x, bool weight, const NllLossAttrs& a, const char* label) {
      const std::int64_t classes = x.size() == 1 ? x[0] : x[1];
      samples.push_back({{make.normal(x), make.index(labels_of(x), classes),
                          weight ? make.uniform({classes}, 0.2, 2) : Tensor{}},
                         a,
                         label});
    };
    add({5, 3}, false, attrs, name(reduction).data());
    add({5, 3}, true, attrs, "weights");
    add({9, 2}, true, ignore, "ignored rows");
    add({4}, false, attrs, "one row without a batch axis");
    add({2, 3, 5}, true, attrs, "one inner axis");
    add({2, 3, 3, 5}, false, ignore, "two inner axes, ignored rows");
    add({67, 33}, true, attrs, "odd sizes");
    add({0, 3}, false, attrs, "no rows");
    add({3, 1}, false, attrs, "one class");
  }
  return samples;
}

std::vector<ErrorSample> nll_loss_errors(SampleMaker& make) {
  const NllLossAttrs mean{Reduction::mean, -100};
  Tensor bad = make.index({4}, 3).clone();
  bad.fill_(3);
  Tensor negative = bad.clone();
  negative.fill_(-1);
  return {{{make.normal({4, 3}), make.index({5}, 3), Tensor{}}, mean, "class labels must have shape [4]"},
          {{make.normal({4, 3}), make.normal({4}), Tensor{}}, mean, "class labels must be i64 or i32"},
          {{make.normal({}), make.index({}, 3), Tensor{}}, mean, "it must be [classes], [n, classes]"},
          {{make.normal({4, 0}), make.index({4}, 3), Tensor{}}, mean, "at least one class"},
          {{make.normal({4, 3}), make.index({4}, 3), make.normal({4})}, mean, "weight must be [3]"},
          {{make.normal({4, 3}), bad, Tensor{}}, mean, "class label 3 is out of range for 3 classes"},
          {{make.normal({4, 3}), negative, Tensor{}}, mean, "class label -1 is out of range for 3 classes"}};
}

template <bool soft>
std::vector<Sample> cross_entropy_samples(SampleMaker& make) {
  std::vector<Sample> all;
  for (const Reduction reduction : kReductions) {
    const auto add = [&](const Shape& x, bool weight, double smoothing, std::int64_t ignore,
                         const char* label) {
      const std::int64_t classes = x.size() == 1 ? x[0] : x[1];
      // Weights of about 1 / classes, as distributions have.
      Tensor target =
          soft ? make.uniform(x, 0, 2 / static_cast<double>(classes)) : make.index(labels_of(x), classes);
      all.push_back({{make.normal(x), std::move(target), weight ? make.uniform({classes}, 0.2, 2) : Tensor{}},
                     CrossEntropyAttrs{reduction, ignore, smoothing},
                     label});
    };
    add({5, 3}, false, 0, -100, name(reduction).data());
    add({5, 3}, true, 0, -100, "weights");
    add({5, 3}, true, 0.1, -100, "weights and smoothing");
    add({9, 2}, true, 0.25, 0, "weights, smoothing, ignored rows");
    add({9, 2}, false, 0, 1, "ignored rows");
    add({4}, false, 0.1, -100, "one row without a batch axis");
    add({2, 3, 5}, true, 0.1, -100, "one inner axis");
    add({2, 3, 3, 7}, false, 0, 2, "two inner axes, ignored rows");
    add({3, 40}, false, 0.3, -100, "some tens of classes");
    add({2, 1029}, true, 0, -100, "a thousand classes");
    add({0, 3}, false, 0, -100, "no rows");
    add({3, 1}, false, 0, -100, "one class");
  }
  return all;
}

std::vector<ErrorSample> cross_entropy_errors(SampleMaker& make) {
  const CrossEntropyAttrs mean{Reduction::mean, -100, 0};
  const CrossEntropyAttrs smooth{Reduction::mean, -100, 1.5};
  Tensor bad = make.index({4}, 3).clone();
  bad.fill_(11);
  return {{{make.normal({4, 3}), make.index({5}, 3), Tensor{}}, mean, "class labels must have shape [4]"},
          {{make.normal({4, 3}), make.index({4, 1}, 3), Tensor{}}, mean, "target is i64[4, 1]"},
          {{make.normal({}), make.index({}, 3), Tensor{}}, mean, "it must be [classes], [n, classes]"},
          {{make.normal({4, 0}), make.index({4}, 3), Tensor{}}, mean, "at least one class"},
          {{make.normal({4, 3}), make.index({4}, 3), make.normal({4})}, mean, "weight must be [3]"},
          {{make.normal({4, 3}), make.index({4}, 3), Tensor{}}, smooth, "label_smoothing is 1.5"},
          {{make.normal({4, 3}), bad, Tensor{}},
           mean,
           "class label 11 is out of range for 3 classes; labels must lie in [0, 3) or equal ignore_index"}};
}

std::vector<ErrorSample> cross_entropy_soft_errors(SampleMaker& make) {
  const CrossEntropyAttrs mean{Reduction::mean, -100, 0};
  return {
      {{make.normal({4, 3}), make.normal({4}), Tensor{}}, mean, "probabilities must have the logits' shape"},
      {{make.normal({4, 3}), make.index({4, 3}, 2), Tensor{}}, mean, "different dtypes"}};
}

template <bool eager>
std::vector<Sample> linear_cross_entropy_samples(SampleMaker& make) {
  std::vector<Sample> all;
  const auto add = [&](Reduction reduction, const Shape& x, std::int64_t classes, std::int64_t chunk,
                       double smoothing, std::int64_t ignore, const char* label) {
    const Shape rows(x.begin(), static_cast<std::size_t>(x.size() - 1));
    all.push_back(
        {{make.normal(x), make.normal({classes, x.back()}), make.index(rows, classes)},
         LinearAttrs{reduction, eager ? loss::head::kBoth : loss::head::kNone, ignore, smoothing, chunk},
         label,
         numel(rows) > 0});  // the mean of nothing is NaN
  };
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    if (eager && reduction == Reduction::none) continue;
    add(reduction, {5, 4}, 3, 0, 0, -100, name(reduction).data());
    add(reduction, {7, 4}, 9, 3, 0, -100, "three chunks, the last one short");
    add(reduction, {6, 3}, 17, 2, 0.2, 1, "smoothing, ignored rows, whole chunks");
    add(reduction, {2, 3, 5}, 33, 4, 0, 2, "two leading axes");
    add(reduction, {3}, 5, 0, 0.1, -100, "one row");
    add(reduction, {3, 2}, 1029, 2, 0, -100, "a thousand classes");
    add(reduction, {0, 3}, 4, 0, 0, -100, "no rows");
    add(reduction, {3, 0}, 4, 0, 0, -100, "no features");
    add(reduction, {4, 3}, 1, 0, 0, -100, "one class");
  }
  return all;
}

std::vector<ErrorSample> linear_cross_entropy_errors(SampleMaker& make) {
  const LinearAttrs mean{Reduction::mean, loss::head::kNone, -100, 0, 0};
  LinearAttrs smooth = mean, chunk = mean;
  smooth.label_smoothing = 1.5, chunk.chunk_rows = -1;
  Tensor bad = make.index({4}, 3).clone();
  bad.fill_(11);
  const auto x = [&] { return make.normal({4, 3}); };
  const auto w = [&] { return make.normal({5, 3}); };
  return {{{x(), make.normal({5, 2}), make.index({4}, 5)}, mean, "x.size(-1) must equal weight.size(1)"},
          {{x(), make.normal({3}), make.index({4}, 3)}, mean, "it must be [classes, features]"},
          {{x(), make.normal({0, 3}), make.index({4}, 3)}, mean, "at least one class"},
          {{x(), w(), make.index({4, 1}, 5)}, mean, "class labels must have shape [4]"},
          {{x(), w(), make.normal({4})}, mean, "class labels must be i64 or i32"},
          {{x(), w(), make.index({4}, 5)}, smooth, "label_smoothing is 1.5"},
          {{x(), w(), make.index({4}, 5)}, chunk, "chunk_rows is -1"},
          {{x(), w(), bad},
           mean,
           "class label 11 is out of range for 5 classes; labels must lie in [0, 5) or equal ignore_index"}};
}

}  // namespace
}  // namespace ct

CT_ORACLE(mse_loss)
CT_ORACLE(bce_with_logits)
CT_OP_TESTS(loss, {"mse_loss", mse_loss_samples, mse_loss_errors, nullptr, &oracle_kernels::mse_loss},
            {"bce_with_logits", bce_with_logits_samples, bce_with_logits_errors, nullptr,
             &oracle_kernels::bce_with_logits},
            {"nll_loss", nll_loss_samples, nll_loss_errors},
            {"cross_entropy", cross_entropy_samples<false>, cross_entropy_errors},
            {"cross_entropy_soft", cross_entropy_samples<true>, cross_entropy_soft_errors},
            {"linear_cross_entropy", linear_cross_entropy_samples<true>},
            {"linear_cross_entropy_recompute", linear_cross_entropy_samples<false>,
             linear_cross_entropy_errors})
