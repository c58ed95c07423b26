#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/testing/conformance.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <cmath>
#include <stdexcept>

#include "tests/catch.h"

// An op defined by a user of the library, from the outside: y = x sigmoid(b x).

namespace {

using ct::Tensor;

struct SwishAttrs {
  double b = 1;
};

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

void infer(ct::Infer& c) {
  CT_CHECK(c.attrs<SwishAttrs>().b >= 0, ct::ValueError, c.op.name, "b is ", c.attrs<SwishAttrs>().b,
           "; it must be >= 0");
  c.output(c.in(0).shape(), c.in(0).dtype());
}

void forward(const ct::Forward& f) {
  const Tensor x = f.in(0).contiguous();
  const double b = f.attrs<SwishAttrs>().b;
  ct::visit_floating(f.op.name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.data<T>();
    T* out = f.out().template data<T>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const auto v = static_cast<ct::compute_t<T>>(in[i]);
      out[i] = T(v * static_cast<ct::compute_t<T>>(sigmoid(b * v)));
    }
  });
}

// y' = s + b x s (1 - s), s = sigmoid(b x)
template <bool kWrong>
void backward(const ct::Backward& g) {
  const Tensor x = g.in(0).contiguous(), dy = g.grad().contiguous();
  const double b = g.attrs<SwishAttrs>().b;
  ct::visit_floating(g.op.name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *in = x.data<T>(), *d = dy.data<T>();
    T* out = g.grad_in(0).template data<T>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const auto v = static_cast<double>(static_cast<ct::compute_t<T>>(in[i]));
      const double s = sigmoid(b * v);
      const double slope = kWrong ? s + v * s * (1 - s) * (1 + b) : s + b * v * s * (1 - s);
      out[i] =
          T(static_cast<ct::compute_t<T>>(slope * static_cast<double>(static_cast<ct::compute_t<T>>(d[i]))));
    }
  });
}

std::vector<Tensor> reference(std::span<const Tensor> in, ct::AttrsView attrs) {
  const double b = static_cast<const SwishAttrs*>(attrs.data)->b;
  std::vector<double> values = in[0].to_vector<double>();
  for (double& v : values) v *= sigmoid(b * v);
  return {ct::from_vector(values, in[0].shape())};
}

std::vector<ct::Sample> samples(ct::SampleMaker& make) {
  return {{{make.normal({3, 5})}, SwishAttrs{1}, "matrix"},
          {{make.normal({})}, SwishAttrs{0.5}, "scalar"},
          {{make.normal({0, 2})}, SwishAttrs{2}, "empty"}};
}

std::vector<ct::ErrorSample> error_samples(ct::SampleMaker& make) {
  return {{{make.normal({2})}, SwishAttrs{-1}, "it must be >= 0"}};
}

// The same on the tape: s + b x s (1 - s).
void rule(const ct::Backward& g) {
  const double b = g.attrs<SwishAttrs>().b;
  const Tensor& x = g.in(0);
  const Tensor s = ct::sigmoid(b * x);
  g.set_grad_in(0, g.grad() * (s + b * x * s * (1 - s)));
}

constexpr ct::InputDef kInputs[] = {{.name = "x", .needs = "x"}};
constexpr ct::OutputDef kOutputs[] = {{.name = "y"}};
constexpr ct::AttrDef kAttributes[] = {CT_ATTRIBUTE(SwishAttrs, b)};

constexpr ct::OpDef definition(const char* name, ct::BackwardFn backward_fn) {
  return {.name = name,
          .formula = "y = x sigmoid(b x)",
          .inputs = kInputs,
          .outputs = kOutputs,
          .attributes = kAttributes,
          .infer = infer,
          .cpu = {forward, backward_fn},
          .rule = rule};
}
constexpr ct::OpDef k_swish = ct::checked(definition("user_swish", backward<false>));
constexpr ct::OpDef k_wrong = ct::checked(definition("user_wrong", backward<true>));
constexpr ct::OpTests kTests{"user_swish", samples, error_samples, reference};

ct::ConformanceReport check(const ct::OpDef& op, const ct::OpTests& tests) {
  return ct::check_conformance(op, tests, {.devices = {ct::cpu}});
}

Tensor swish(const Tensor& x) { return ct::dispatch(k_swish, {x}, SwishAttrs{}); }

}  // namespace

TEST_CASE("a user's op passes conformance and gradcheck like ours", "[user_op]") {
  const ct::ConformanceReport report = check(k_swish, kTests);
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(report.rows.size() == 4);
  CHECK(ct::gradcheck(swish, {ct::from_vector<double>({-1, 0.5, 2}, {3})}, {.all_devices = false}).ok);
}

TEST_CASE("a wrong backward, a missing save and a wrong error do not pass", "[user_op]") {
  const ct::ConformanceReport wrong = check(k_wrong, kTests);
  REQUIRE_FALSE(wrong.ok());
  // b = 1 happens to differ too; the samples with b = 0.5 and 2 must be among the failures.
  CHECK(wrong.failures.size() >= 2);

  ct::OpDef no_save = k_swish;
  no_save.saves[0] = {};
  const ct::ConformanceReport unsaved = check(no_save, kTests);
  REQUIRE_FALSE(unsaved.ok());
  CHECK_THAT(unsaved.failures[0], Catch::Matchers::Contains("does not keep"));

  ct::OpTests bad_reference = kTests;
  bad_reference.reference = [](std::span<const Tensor> in, ct::AttrsView) {
    return std::vector<Tensor>{in[0]};
  };
  CHECK_FALSE(check(k_swish, bad_reference).ok());

  ct::OpTests bad_error = kTests;
  bad_error.error_samples = [](ct::SampleMaker& make) {
    return std::vector<ct::ErrorSample>{{{make.normal({2})}, SwishAttrs{1}, "nothing is wrong"}};
  };
  const ct::ConformanceReport quiet = check(k_swish, bad_error);
  REQUIRE(quiet.failures.size() == 1);
  CHECK_THAT(quiet.failures[0], Catch::Matchers::Contains("did not fail"));

  // The library has no tests for an op that is not its own.
  const std::vector<std::string> untested = ct::check_conformance(k_swish).failures;
  CHECK_THAT(untested.at(untested.size() - 1), Catch::Matchers::Contains("the op has no samples"));
}

TEST_CASE("an op whose bad calls end otherwise than they must does not pass", "[user_op]") {
  static constexpr ct::OpTests tests{"user_swish",
                                     [](ct::SampleMaker& make) {
                                       return std::vector<ct::Sample>{{{make.normal({3, 5})}, SwishAttrs{1}}};
                                     },
                                     nullptr, reference};
  const auto failures_of = [](const ct::OpDef& op) {
    std::string failures;
    for (const std::string& failure : check(op, tests).failures) failures += failure + '\n';
    return failures;
  };
  const auto with = [&](ct::InferFn rule) {
    ct::OpDef op = k_swish;
    op.infer = rule;
    return failures_of(op);
  };
  using Catch::Matchers::Contains;
  CHECK(with(infer) == "");
  CHECK_THAT(with([](ct::Infer& c) {
               if (c.in(0).numel() != 15) throw std::out_of_range("no");
               infer(c);
             }),
             Contains("axis 0 longer on cpu: threw what is no ct::Error: no"));
  CHECK_THAT(with([](ct::Infer& c) {
               if (c.in(0).numel() != 15) throw ct::ShapeError("x is wrong; it must be right");
               infer(c);
             }),
             Contains("axis 1 of 0 on cpu: the message has no [op] in front"));
  CHECK_THAT(with([](ct::Infer& c) {
               CT_CHECK(c.in(0).dim() == 2, ct::DTypeError, c.op.name, "x is no matrix");
               infer(c);
             }),
             Contains("axis 0 dropped on cpu: threw an error of another kind") &&
                 Contains("the message does not say what is wanted"));

  ct::OpDef spoils = k_swish;
  spoils.cpu.forward = [](const ct::Forward& f) {
    if (f.in(0).dim() != 2) Tensor(f.in(0)).zero_();
    CT_CHECK(f.in(0).dim() == 2, ct::ShapeError, f.op.name, "x is no matrix; it must be one");
    forward(f);
  };
  CHECK_THAT(failures_of(spoils), Contains("axis 0 dropped on cpu: input 0 has changed"));

  ct::OpDef remembers = k_swish;
  remembers.cpu.forward = [](const ct::Forward& f) {
    static bool failed = false;
    failed = failed || f.in(0).dim() != 2;
    CT_CHECK(f.in(0).dim() == 2, ct::ShapeError, f.op.name, "x is no matrix; it must be one");
    forward(f);
    if (failed) f.out().zero_();
  };
  CHECK_THAT(failures_of(remembers),
             Contains("axis 0 dropped on cpu: the next call gives other bits in output 0"));

  ct::OpDef few = k_swish;  // all but undefined, too many and expanded inputs will do
  few.attributes = {};
  few.promotes = few.int_to_float = true;
  few.differentiable = false;
  CHECK_THAT(failures_of(few), Contains(" bad calls fail, each with a text of its own; 10 are wanted"));
}

TEST_CASE("plain kernels are the oracle of values and gradients, in f64 too where it is fast", "[user_op]") {
  // Neither a reference nor a rule nor central differences: nothing but the plain kernels can tell.
  ct::OpDef op = k_swish;
  op.rule = nullptr;
  static constexpr ct::OpTests tests{
      "user_swish", [](ct::SampleMaker& make) {
        return std::vector<ct::Sample>{{{make.normal({3, 5})}, SwishAttrs{0.5}, "no differences", false}};
      }};
  const auto failures_of = [](const ct::OpDef& op) { return check(op, tests).failures; };
  CHECK_THAT(failures_of(ct::OpDef(op))[0],
             Catch::Matchers::Contains("neither a reference nor plain kernels"));

  op.plain = {[](const ct::Forward& f) { forward(f); }, backward<false>};
  for (const bool fast_f64 : {false, true}) {
    op.fast_f64 = fast_f64;
    for (const std::string& failure : failures_of(op)) FAIL_CHECK(failure);
    ct::OpDef wrong_gradient = op, wrong_value = op, wrong_oracle = op;
    wrong_gradient.cpu.backward = backward<true>;
    std::string failures;
    for (const std::string& failure : failures_of(wrong_gradient)) failures += failure + '\n';
    INFO(failures);
    CHECK_THAT(failures, Catch::Matchers::Contains("in f32: gradient 0 against the plain kernels"));
    CHECK((failures.find("in f64: gradient 0 against the plain kernels") != std::string::npos) == fast_f64);
    wrong_value.cpu.forward = [](const ct::Forward& f) { f.out().zero_(); };
    CHECK_FALSE(failures_of(wrong_value).empty());
    wrong_oracle.plain.backward = backward<true>;
    CHECK_FALSE(failures_of(wrong_oracle).empty());
  }
}

TEST_CASE("the registry takes a user's op once", "[user_op]") {
  static constexpr ct::OpDef another = ct::checked(definition("user_swish", backward<false>));
  ct::register_op(k_swish);
  ct::register_op(k_swish);
  CHECK(ct::find_op("user_swish") == &k_swish);
  CHECK_THROWS_AS(ct::register_op(another), ct::ValueError);
  CHECK(ct::find_op("no_such_op") == nullptr);
  ct::unregister_op(k_swish);
  CHECK(ct::find_op("user_swish") == nullptr);
}

TEST_CASE("on a device that the op has no kernel for, the error says so", "[user_op][cuda]") {
  CHECK_THROWS_AS(swish(ct::ones({2}, {.device = ct::cuda(0)})), ct::DeviceError);
}
