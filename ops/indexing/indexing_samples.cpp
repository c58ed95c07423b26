#include <cotangent/ops/indexing/index_internal.h>
#include <cotangent/ops/indexing/indexing_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using indexing_impl::Attrs;

// Calls f(at, to) for each index `at` of a tensor of `shape`, with `to` the element of x that it names.
template <bool slices, class F>
void for_each_named(const Shape& shape, const Tensor& index, std::int64_t axis, F&& f) {
  const int a = wrap_axis("reference", axis, shape.size());
  const std::vector<std::int64_t> list = index.to_vector<std::int64_t>();
  testing::by_index(shape, [&](const Dims& at) {
    std::int64_t number = 0;
    if (slices)
      number = shape.empty() ? 0 : at[a];
    else
      for (int i = 0; i < shape.size(); ++i) number = number * shape[i] + at[i];
    Dims to = at;
    if (!shape.empty()) to[a] = list[static_cast<std::size_t>(number)];
    f(at, to);
    return 0.0;
  });
}

double& element(const Tensor& y, const Dims& at) {
  std::int64_t offset = 0;
  for (int i = 0; i < y.dim(); ++i) offset += at[i] * y.strides()[i];
  return y.data<double>()[offset];
}

template <bool slices>
std::vector<Tensor> taken(std::span<const Tensor> in, AttrsView attrs) {
  const std::int64_t axis = static_cast<const Attrs*>(attrs.data)->axis;
  Shape shape = slices ? in[0].shape() : in[1].shape();
  if (slices && !shape.empty()) shape[wrap_axis("reference", axis, shape.size())] = in[1].numel();
  Tensor y = Tensor::allocate(shape, f64, cpu);
  const Tensor x = in[0].contiguous();
  for_each_named<slices>(shape, in[1], axis,
                         [&](const Dims& at, const Dims& to) { element(y, at) = element(x, to); });
  return {y};
}

template <bool slices, bool adds>
std::vector<Tensor> put(std::span<const Tensor> in, AttrsView attrs) {
  Tensor y = in[0].clone();
  for_each_named<slices>(in[2].shape(), in[1], static_cast<const Attrs*>(attrs.data)->axis,
                         [&](const Dims& at, const Dims& to) {
                           const double value = element(in[2], at);
                           adds ? element(y, to) += value : element(y, to) = value;
                         });
  return {y};
}

// Small numbers, so that 16-bit sums stay comparable.
Tensor small(SampleMaker& make, const Shape& shape) { return make.uniform(shape, -0.01, 0.01); }

struct Case {
  Shape x;
  Shape index;
  std::int64_t axis;
  const char* label;
};

const Case kSlices[] = {{{7}, {4}, 0, "a vector"},         {{5, 3}, {8}, 0, "rows that repeat"},
                        {{3, 6}, {4}, -1, "columns"},      {{2, 5, 3}, {7}, 1, "inner axis"},
                        {{40, 24}, {3}, 0, "few of many"}, {{3, 17}, {150}, 0, "long runs of wide rows"},
                        {{3}, {200}, 0, "long runs"},      {{4, 1030}, {9}, 0, "very wide rows"},
                        {{4, 6}, {}, 1, "one index"},      {{}, {1}, 0, "a scalar"},
                        {{4, 3}, {0}, 0, "no indices"},    {{4, 0}, {3}, 0, "no columns"},
                        {{0, 3}, {0}, 0, "no rows"}};
const Case kElements[] = {{{7}, {4}, 0, "a vector"},
                          {{5, 3}, {8, 3}, 0, "first axis"},
                          {{3, 6}, {3, 4}, -1, "last axis"},
                          {{2, 5, 3}, {2, 7, 3}, 1, "inner axis"},
                          {{4, 5, 6}, {2, 9, 3}, 1, "an index that is smaller"},
                          {{3, 2}, {130, 2}, 0, "long runs"},
                          {{33, 65}, {33, 1}, 1, "one of each row"},
                          {{}, {}, 0, "a scalar"},
                          {{4, 3}, {0, 3}, 0, "no indices"},
                          {{0, 3}, {0, 3}, 0, "no elements"}};

template <bool slices>
Tensor source_for(SampleMaker& make, const Case& c) {
  Shape shape = slices ? c.x : c.index;
  if (slices && !shape.empty()) shape[wrap_axis("samples", c.axis, shape.size())] = numel(c.index);
  return numel(shape) > 256 ? small(make, shape) : make.normal(shape);
}

template <bool slices>
std::vector<Sample> samples(SampleMaker& make, bool with_source) {
  std::vector<Sample> all;
  for (const Case& c : slices ? std::span<const Case>(kSlices) : std::span<const Case>(kElements)) {
    const std::int64_t n = c.x.empty() ? 1 : c.x[wrap_axis("samples", c.axis, c.x.size())];
    Sample s{{numel(c.x) > 256 ? small(make, c.x) : make.normal(c.x),
              make.index(c.index, std::max<std::int64_t>(n, 1))},
             Attrs{c.axis},
             c.label};
    if (all.size() % 2 == 1) s.inputs[1] = s.inputs[1].to(i32);
    if (with_source) s.inputs.push_back(source_for<slices>(make, c));
    all.push_back(std::move(s));
  }
  return all;
}
template <bool slices>
std::vector<Sample> take_samples(SampleMaker& make) {
  return samples<slices>(make, false);
}
template <bool slices>
std::vector<Sample> put_samples(SampleMaker& make) {
  return samples<slices>(make, true);
}

Tensor integers(const Shape& shape, std::initializer_list<std::int64_t> values) {
  Tensor t = Tensor::allocate(shape, i64, cpu);
  std::copy(values.begin(), values.end(), t.data<std::int64_t>());
  return t;
}

template <bool slices>
std::vector<ErrorSample> errors(SampleMaker& make, bool with_source) {
  const Tensor x = make.normal({3, 2}), low = integers({1, 2}, {2, -1}), high = integers({1, 2}, {0, 3});
  const auto list = [](const Tensor& t) { return slices ? t.view({2}) : t; };
  const auto source = [&](const Shape& index) {
    return make.normal(slices ? Shape{index.back(), 2} : index);
  };
  std::vector<ErrorSample> all{
      {{x, list(low), source({1, 2})},
       Attrs{0},
       "index -1 is out of range for an axis of size 3; indices must lie in [0, 3)"},
      {{x, list(high), source({1, 2})}, Attrs{0}, "index 3 is out of range for an axis of size 3"},
      {{x, list(low).to(f32), source({1, 2})}, Attrs{0}, "it must be i64 or i32"},
      {{x, list(low), source({1, 2})}, Attrs{2}, "axis 2 is out of range"}};
  if (slices) {
    all.push_back({{x, low, x}, Attrs{0}, "gather() and scatter() take an index for each element"});
    all.push_back(
        {{make.normal({}), integers({2}, {0, 0}), make.normal({2})}, Attrs{0}, "one index must name"});
  } else {
    all.push_back({{x, integers({2}, {0, 1}), make.normal({2})}, Attrs{0}, "the same rank"});
    all.push_back({{x, make.index({1, 3}, 3), make.normal({1, 3})}, Attrs{0}, "but along axis 0"});
  }
  for (ErrorSample& e : all)
    if (!with_source) e.inputs.pop_back();
  if (with_source) {
    all.push_back({{x, list(make.index({1, 2}, 3)), make.normal({5, 5})}, Attrs{0}, "source must be"});
    all.push_back({{x, list(make.index({1, 2}, 3)), source({1, 2}).to(f32)}, Attrs{0}, "different dtypes"});
  }
  return all;
}
template <bool slices>
std::vector<ErrorSample> take_errors(SampleMaker& make) {
  return errors<slices>(make, false);
}
template <bool slices>
std::vector<ErrorSample> put_errors(SampleMaker& make) {
  return errors<slices>(make, true);
}

// ---- scatter_reduce: those of scatter, columns, places that nobody names, elements that are equal, zeros --------------

template <ScatterReduce kind>
std::vector<Sample> reduce_samples(SampleMaker& make) {
  constexpr bool product = kind == ScatterReduce::prod,
                 smooth = kind != ScatterReduce::amax && kind != ScatterReduce::amin;
  // Products of integers, which are three times as large, are to fit into u8.
  const auto numbers = [&](const Shape& shape) {
    return !product             ? make.normal(shape)
           : numel(shape) < 100 ? make.uniform(shape, -0.99, 0.99)
                                : make.uniform(shape, 0.5, 0.66);
  };
  std::vector<Sample> all;
  const auto add = [&](Sample s, bool include_self) {
    s.attrs = Attrs{static_cast<const Attrs*>(s.attrs.view().data)->axis, include_self};
    all.push_back(std::move(s));
  };
  for (Sample& s : put_samples<false>(make)) {
    if (product) s.inputs[0] = numbers(s.inputs[0].shape()), s.inputs[2] = numbers(s.inputs[2].shape());
    add(std::move(s), all.size() % 2 == 0);
  }
  for (const bool self : {true, false}) {
    const Tensor rows = make.index({9, 1}, 5).expand({9, 6}),
                 inner = make.index({1, 4, 1}, 2).expand({2, 4, 30});
    add({{numbers({5, 6}), rows, numbers({9, 6})}, Attrs{0}, "rows"}, self);
    add({{numbers({2, 3, 30}), inner, numbers({2, 4, 30})}, Attrs{1}, "rows of an inner axis"}, self);
    add({{numbers({9}), integers({4}, {7, 2, 7, 7}), numbers({4})}, Attrs{0}, "places without elements"},
        self);
    const Tensor pairs = integers({8}, {0, 0, 1, 1, 2, 2, 3, 3});
    add({{make.values({4}, {1, 0.5, 1, 2}), pairs, make.values({8}, {1, -0.5, 0.75, 0.75, 1, 1, -2, 2})},
         Attrs{0},
         "equal elements",
         smooth},
        self);
    add({{make.values({4}, {1, 0, 1.5, 0}), pairs, make.values({8}, {0, 1, 1, 2, 0, 0, 0, 1})},
         Attrs{0},
         "zeros",
         smooth},
        self);
  }
  return all;
}
template <ScatterReduce kind>
constexpr OpTests reduce_tests(const char* op) {
  return {.op = op,
          .samples = reduce_samples<kind>,
          .error_samples = put_errors<false>,
          .ordinary_rule = kind == ScatterReduce::prod};
}

std::vector<Sample> nonzero_samples(SampleMaker& make) {
  return {{{make.mask({5, 7}).to(f64)}, {}, "a mask"},
          {{make.normal({3, 2, 4})}, {}, "numbers"},
          {{make.values({2, 3}, {0, -0., 1, 0, 0, 2})}, {}, "zeros of both signs"},
          {{make.mask({70000}).to(f64)}, {}, "more than a chunk"},
          {{make.normal({})}, {}, "a scalar"},
          {{make.values({3}, {0, 0, 0})}, {}, "nothing"},
          {{make.normal({2, 0})}, {}, "empty"}};
}
std::vector<Tensor> nonzero_reference(std::span<const Tensor> in, AttrsView) {
  std::vector<double> found;
  testing::by_index(in[0].shape(), [&](const Dims& at) {
    if (testing::at(in[0], at) != 0) found.insert(found.end(), at.begin(), at.end());
    return 0.0;
  });
  const int rank = in[0].dim();
  std::int64_t n = rank > 0 ? static_cast<std::int64_t>(found.size()) / rank : 0;
  if (rank == 0) n = testing::at(in[0], {}) != 0;
  Tensor y = Tensor::allocate({n, rank}, f64, cpu);
  std::copy(found.begin(), found.end(), y.data<double>());
  return {y};
}

std::vector<Sample> flat_index_samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, const Dims& sizes, const char* label) {
    Sample s{{}, indexing_impl::flat::Attrs{sizes}, label};
    for (const std::int64_t n : sizes) {
      Tensor t = make.index(shape, 2 * n).clone();  // from -n to n - 1
      for (std::int64_t i = 0; i < t.numel(); ++i) t.data<std::int64_t>()[i] -= n;
      s.inputs.push_back(t);
    }
    return s;
  };
  return {sample({7}, {5}, "one list"), sample({3, 4}, {5, 2, 7}, "three"), sample({}, {3, 3}, "scalars"),
          sample({20000}, {9, 11}, "more than a chunk"), sample({0, 2}, {4}, "none")};
}
std::vector<Tensor> flat_index_reference(std::span<const Tensor> in, AttrsView attrs) {
  const Dims& sizes = static_cast<const indexing_impl::flat::Attrs*>(attrs.data)->sizes;
  return {testing::by_index(in[0].shape(), [&](const Dims& at) {
    double flat = 0;
    for (std::size_t k = 0; k < in.size(); ++k) {
      const double i = testing::at(in[k], at), n = static_cast<double>(sizes[static_cast<int>(k)]);
      flat = flat * n + (i < 0 ? i + n : i);
    }
    return flat;
  })};
}
std::vector<ErrorSample> flat_index_errors(SampleMaker& make) {
  using indexing_impl::flat::Attrs;
  return {{{integers({2}, {0, 5})}, Attrs{{5}}, "index 5 is out of range for an axis of size 5"},
          {{integers({2}, {0, 1}), integers({2}, {-1, -4})},
           Attrs{{5, 3}},
           "index -4 is out of range for an axis of size 3"},
          {{make.index({2}, 3), make.index({3}, 3)}, Attrs{{3, 3}}, "all shapes must be equal"},
          {{make.index({2}, 3)}, Attrs{{3, 3}}, "there must be one for each"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(indexing, {"index_select", take_samples<true>, take_errors<true>, taken<true>},
            {"gather", take_samples<false>, take_errors<false>, taken<false>},
            {"index_add", put_samples<true>, put_errors<true>, put<true, true>},
            {"scatter_add", put_samples<false>, put_errors<false>, put<false, true>},
            {"index_copy", put_samples<true>, put_errors<true>, put<true, false>},
            {"scatter", put_samples<false>, put_errors<false>, put<false, false>},
            reduce_tests<ScatterReduce::sum>("scatter_reduce_sum"),
            reduce_tests<ScatterReduce::prod>("scatter_reduce_prod"),
            reduce_tests<ScatterReduce::mean>("scatter_reduce_mean"),
            reduce_tests<ScatterReduce::amax>("scatter_reduce_amax"),
            reduce_tests<ScatterReduce::amin>("scatter_reduce_amin"),
            {"nonzero", nonzero_samples, nullptr, nonzero_reference},
            {"flat_index", flat_index_samples, flat_index_errors, flat_index_reference})
