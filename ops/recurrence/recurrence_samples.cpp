#include <algorithm>
#include <cmath>

#include <cotangent/ops/recurrence/recurrence_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using recurrence::Attrs;

struct Case {
  std::int64_t steps, batch, inputs, hidden;
  bool bias = true;
};

std::vector<Tensor> inputs_of(SampleMaker& make, const Case& c, int gates, bool memory,
                              const Tensor& lengths) {
  const double bound = 1 / std::sqrt(static_cast<double>(c.hidden));  // as a layer starts
  const auto bias = [&] { return c.bias ? make.uniform({gates * c.hidden}, -bound, bound) : Tensor{}; };
  std::vector<Tensor> inputs{make.normal({c.steps, c.batch, c.inputs}),
                             make.uniform({gates * c.hidden, c.inputs}, -bound, bound),
                             make.uniform({gates * c.hidden, c.hidden}, -bound, bound),
                             bias(),
                             bias(),
                             make.uniform({c.batch, c.hidden}, -1, 1),
                             lengths};
  if (memory) inputs.push_back(make.normal({c.batch, c.hidden}));
  return inputs;
}

Tensor lengths_of(std::initializer_list<std::int64_t> values) {
  Tensor t = Tensor::allocate({static_cast<std::int64_t>(values.size())}, i64, cpu);
  std::copy(values.begin(), values.end(), t.data<std::int64_t>());
  return t;
}

template <int gates, bool memory>
std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Case& c, const Attrs& attrs, const char* label, const Tensor& lengths = {}) {
    return Sample{inputs_of(make, c, gates, memory, lengths), attrs, label};
  };
  std::vector<Sample> list{
      sample({4, 2, 3, 3}, {false, false}, "four steps"),
      sample({4, 2, 3, 3}, {true, false}, "reverse"),
      sample({4, 3, 2, 2}, {false, false}, "lengths", lengths_of({4, 1, 3})),
      sample({4, 3, 2, 2}, {true, false}, "reverse with lengths", lengths_of({2, 4, 1})),
      sample({3, 3, 2, 2}, {true, false}, "lengths outside of the steps", lengths_of({0, 9, -2})),
      sample({3, 2, 3, 2, false}, {false, false}, "no biases"),
      sample({1, 2, 3, 2}, {false, false}, "one step"),
      sample({3, 1, 1, 1}, {false, false}, "one of everything"),
      sample({5, 11, 7, 19}, {false, false}, "odd sizes", lengths_of({5, 1, 2, 3, 4, 5, 5, 5, 3, 2, 1})),
      sample({3, 17, 5, 33}, {true, false}, "more rows than a thread takes"),
      sample({3, 0, 2, 3}, {false, false}, "no sequences"),
      sample({3, 2, 0, 3}, {false, false}, "no inputs"),
  };
  if (gates != 1) return list;
  for (std::size_t i : {0u, 3u, 8u}) {  // and with relu, whose kink differences may meet
    Sample relu = list[i];
    relu.attrs = Attrs{i == 3, true};
    relu.label = "relu";
    relu.smooth = i == 0;
    list.push_back(std::move(relu));
  }
  return list;
}

template <int gates, bool memory>
std::vector<ErrorSample> errors(SampleMaker& make) {
  std::vector<ErrorSample> list;
  const auto wrong = [&](std::size_t i, const Tensor& t, const char* message) {
    list.push_back({inputs_of(make, {4, 2, 3, 5}, gates, memory, {}), Attrs{false, false}, message});
    list.back().inputs[i] = t;
  };
  wrong(0, make.normal({4, 3}), "x is f64[4, 3]; it must be [steps, batch, inputs]");
  wrong(0, make.normal({0, 2, 3}),
        "x is f64[0, 2, 3]; it must be [steps, batch, inputs] with at least one step");
  wrong(0, make.normal({4, 2, 7}), "x is f64[4, 2, 7]; w_ih must be [");
  wrong(0, make.index({4, 2, 3}, 5), "i64");
  wrong(1, make.normal({gates * 5, 4}), "w_ih must be [");
  wrong(1, make.normal({gates * 5}), "w_ih must be [");
  wrong(2, make.normal({gates * 5 + 1, 5}), "hidden, hidden]");
  wrong(2, make.normal({0, 0}), "hidden, hidden]");
  wrong(3, make.normal({gates * 5 + 1}), "b_ih is f64[");
  wrong(4, make.normal({1}), "b_hh is f64[1]; it must be [");
  wrong(5, make.normal({3, 5}), "h0 is f64[3, 5]; it must be [2, 5]: [batch, hidden]");
  wrong(6, make.index({3}, 4), "lengths is i64[3]; it must be [2], a number for each sequence");
  wrong(6, make.normal({2}), "lengths is f64[2]; it must be i64: convert");
  if (memory) wrong(7, make.normal({5, 2}), "c0 is f64[5, 2]; it must be [2, 5]");
  return list;
}

}  // namespace
}  // namespace ct

// States and gates are rounded at each step, hence the wider tolerance.
CT_OP_TESTS(recurrence, {"rnn", samples<1, false>, errors<1, false>, nullptr, nullptr, 2, true},
            {"gru", samples<3, false>, errors<3, false>, nullptr, nullptr, 2, true},
            {"lstm", samples<4, true>, errors<4, true>, nullptr, nullptr, 2, true})
