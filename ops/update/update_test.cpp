#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/copy/copy.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/update/update_internal.h>
#include <cotangent/ops/update/update_plain.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// The kernels against the plain steps, one step after another: each begins from the values that the kernel left.

using namespace ct;
using ct::testing::bytes_of;

namespace {

using Values = std::vector<double>;

Tensor noise(const Shape& shape, std::int64_t seed, DType dtype, Device device) {
  Values values;
  for (std::int64_t i = 0; i < numel(shape); ++i)
    values.push_back(static_cast<double>((i * 7919 + seed * 104729) % 2003 - 901) / 1024);
  return from_vector(values, shape, {.dtype = dtype, .device = device});
}

struct Parameter {
  Tensor param, grad, master, moments[3];
};

struct Options {
  Device device;
  DType dtype;
  bool masters = false;
  double inverse_scale = 1;
  bool found_inf = false;
};

template <class Rule>
struct Run {
  Rule rule;
  Options options;
  std::vector<Parameter> all;
  Tensor found_inf, inverse_scale, lr, steps;

  Run(const Rule& the_rule, const Options& its_options) : rule(the_rule), options(its_options) {
    const auto [device, dtype, masters, scale, found] = options;
    const DType wide = dtype == f64 ? f64 : f32;
    for (const std::int64_t n : {3, 1025, 0, 1, 40000}) {
      Parameter& p = all.emplace_back();
      p.param = noise({n}, n, dtype, device);
      if (masters) p.master = p.param.to(f32);
      for (int m = 0; m < rule.moment_count(); ++m)
        p.moments[m] = zeros({n}, {.dtype = wide, .device = device});
    }
    if (scale != 1) inverse_scale = full({}, scale, {.dtype = f32, .device = device});
    if (scale != 1 || found) found_inf = full({}, found ? 1 : 0, {.dtype = f32, .device = device});
  }

  void call() {
    const Tensor none;
    std::vector<const Tensor*> inputs{&found_inf, &inverse_scale, &lr, &steps};
    for (Parameter& p : all) {
      inputs.insert(inputs.end(), {&p.param, &p.grad, &p.master});
      for (int m = 0; m < Rule::kMost; ++m) inputs.push_back(m < rule.moment_count() ? &p.moments[m] : &none);
    }
    detail::write(update::op_of(rule), inputs, rule);
  }

  // Step t of the run is another one of a parameter that has made some before.
  static std::int64_t number(std::int64_t t, std::size_t k) { return t + (k == 1 ? 3 : 0); }

  void step(std::int64_t t) {
    std::vector<std::int64_t> counts(all.size() + 1);
    for (std::size_t k = 0; k < all.size(); ++k) counts[k] = number(t, k) - 1;
    steps = from_vector(counts, {static_cast<std::int64_t>(counts.size())}, {.device = options.device});
    for (Parameter& p : all)
      p.grad = noise(p.param.shape(), 31 * t + p.param.numel(), options.dtype, options.device);
    call();
    const std::vector<std::int64_t> after = steps.to_vector<std::int64_t>();
    for (std::size_t k = 0; k < all.size(); ++k) CHECK(after[k] == counts[k] + (options.found_inf ? 0 : 1));
    CHECK(after.back() == 0);
  }
};

// The largest error, in units of 1 + |want|.
double worst(const Tensor& got, const Values& want) {
  const Values values = got.to_vector<double>();
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(values[i] - want[i]) / (1 + std::abs(want[i]));
    if (!(error <= most)) most = error;
  }
  return most;
}

/// plain(t, g, p, moments) is a step of one element.
template <class Rule, class Plain>
void check_steps(const Rule& rule, const Options& options, const Plain& plain) {
  const DType dtype = options.dtype;
  const double close = dtype == f64 ? 1e-14 : 1e-6;
  const double rounded = options.masters || !is_low_precision(dtype) ? close
                         : dtype == f16                              ? 0x1p-11
                                                                     : 0x1p-8;
  Run<Rule> run(rule, options);
  for (std::int64_t t = 1; t <= 3; ++t) {
    std::vector<std::vector<Values>> want;
    for (const Parameter& p : run.all) {
      want.push_back({(p.master.defined() ? p.master : p.param).template to_vector<double>()});
      for (const Tensor& m : p.moments) want.back().push_back(m.defined() ? m.to_vector<double>() : Values());
    }
    run.step(t);
    for (std::size_t k = 0; k < run.all.size(); ++k) {
      const Parameter& p = run.all[k];
      const Values g = p.grad.template to_vector<double>();
      for (std::size_t i = 0; i < g.size(); ++i) {
        double m[3] = {};
        for (int j = 0; j < rule.moment_count(); ++j) m[j] = want[k][1 + j][i];
        plain(static_cast<double>(run.number(t, k)), options.inverse_scale * g[i], want[k][0][i], m);
        for (int j = 0; j < rule.moment_count(); ++j) want[k][1 + j][i] = m[j];
      }
      INFO(update::op_of(rule).name << ", " << dtype << (options.masters ? ", masters" : "") << ", step " << t
                                    << ", " << p.param.numel() << " elements");
      CHECK(worst(p.master.defined() ? p.master : p.param, want[k][0]) <= rounded);
      if (p.master.defined()) CHECK(bytes_of(p.master.to(dtype)) == bytes_of(p.param));
      for (int j = 0; j < rule.moment_count(); ++j) CHECK(worst(p.moments[j], want[k][1 + j]) <= close);
    }
  }
}

// Calls use(rule, its plain step) for every rule, each with and without its options.
template <class Use>
void for_rules(const Use& use) {
  using namespace update;
  for (const SgdAttrs& o : {SgdAttrs{.lr = 0.1}, SgdAttrs{.lr = 0.1, .weight_decay = 0.2},
                            SgdAttrs{.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
                            SgdAttrs{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}})
    use(SgdRule{o}, [o](double t, double g, double& p, double* m) { plain::sgd_step(o, t, g, p, m[0]); });
  const AdamAttrs adam{.lr = 0.02, .beta1 = 0.9, .beta2 = 0.99, .eps = 0.01, .weight_decay = 0.1};
  AdamAttrs adamw = adam, short_memory = adam;
  adamw.decoupled = adamw.amsgrad = true;
  short_memory.beta1 = 0.3;
  for (const AdamAttrs& o : {adam, adamw, short_memory})
    use(AdamRule{o},
        [o](double t, double g, double& p, double* m) { plain::adam_step(o, t, g, p, m[0], m[1], m[2]); });
  for (const RmspropAttrs& o :
       {RmspropAttrs{.lr = 0.02, .alpha = 0.9, .eps = 0.01, .weight_decay = 0.1},
        RmspropAttrs{.lr = 0.02, .alpha = 0.9, .eps = 0.01, .momentum = 0.8, .centered = true}})
    use(RmspropRule{o},
        [o](double t, double g, double& p, double* m) { plain::rmsprop_step(o, t, g, p, m[0], m[1], m[2]); });
  for (const AdagradAttrs& o : {AdagradAttrs{.lr = 0.1, .eps = 1e-6},
                                AdagradAttrs{0.1, 0.05, 1e-6, 0.1, /*initial_accumulator_value=*/0.5}})
    use(AdagradRule{o},
        [o](double t, double g, double& p, double* m) { plain::adagrad_step(o, t, g, p, m[0]); });
  const LionAttrs lion{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.97, .weight_decay = 0.1};
  use(LionRule{lion},
      [lion](double t, double g, double& p, double* m) { plain::lion_step(lion, t, g, p, m[0]); });
}

void check_device(Device device) {
  for_rules([&](const auto& rule, const auto& plain) {
    for (const DType dtype : {f32, f64, f16, bf16}) {
      check_steps(rule, {device, dtype}, plain);
      check_steps(rule, {.device = device, .dtype = dtype, .inverse_scale = 0.25}, plain);
      if (is_low_precision(dtype)) check_steps(rule, {device, dtype, true}, plain);
    }
    Run run(rule, {.device = device, .dtype = f32, .found_inf = true});
    run.step(1);
    for (const Parameter& p : run.all)
      CHECK(bytes_of(p.param) == bytes_of(noise(p.param.shape(), p.param.numel(), f32, cpu)));
  });
}

}  // namespace

TEST_CASE("steps are the plain ones", "[update]") { check_device(cpu); }
TEST_CASE("steps on a GPU are the plain ones", "[update][cuda]") { check_device(cuda(0)); }

TEST_CASE("a learning rate in memory is a factor on the attribute", "[update]") {
  for_rules([&](auto rule, const auto&) {
    Run given(rule, {cpu, f32});
    given.step(1);
    rule.lr /= 4;
    Run in_memory(rule, {cpu, f32});
    in_memory.lr = full({}, 4, {.dtype = f64});
    in_memory.step(1);
    for (std::size_t k = 0; k < given.all.size(); ++k)
      CHECK(bytes_of(given.all[k].param) == bytes_of(in_memory.all[k].param));
  });
}

TEST_CASE("a step has the same bits for any number of threads", "[update]") {
  const int threads = num_threads();
  for_rules([&](const auto& rule, const auto&) {
    for (const DType dtype : {f32, f64, f16}) {
      std::vector<std::string> bytes;
      for (const int count : {1, 3}) {
        set_num_threads(count);
        Run run(rule, {cpu, dtype});
        run.step(1);
        for (const Parameter& p : run.all) bytes.push_back(bytes_of(p.param));
      }
      CHECK(std::equal(bytes.begin(), bytes.begin() + 5, bytes.begin() + 5));
    }
  });
  set_num_threads(threads);
}

TEST_CASE("an average is the plain one", "[update]") {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const double weight : {0.001, 0.5, 0.9}) {
      const update::AverageAttrs attrs{weight};
      const DType wide = dtype == f64 ? f64 : f32;
      Tensor averages[] = {noise({2000}, 1, wide, cpu), noise({5}, 2, wide, cpu)};
      const Tensor values[] = {noise({2000}, 3, dtype, cpu), noise({5}, 4, dtype, cpu)};
      Values want[] = {averages[0].to_vector<double>(), averages[1].to_vector<double>()};
      const Tensor* const inputs[] = {&averages[0], &values[0], &averages[1], &values[1]};
      detail::write(update::k_average_step, std::span<const Tensor* const>(inputs), attrs);
      for (int k = 0; k < 2; ++k) {
        const Values x = values[k].to_vector<double>();
        for (std::size_t i = 0; i < x.size(); ++i) plain::average_step(attrs, x[i], want[k][i]);
        CHECK(worst(averages[k], want[k]) <= (dtype == f64 ? 1e-15 : 1e-7));
      }
    }
}

TEST_CASE("a power by squaring is that of the library", "[update]") {
  for (const double base : {0.0, 0.5, 0.9, 0.999, 0.99999})
    for (const std::int64_t t : {0, 1, 2, 3, 7, 64, 100, 1023, 100000}) {
      const double want = std::pow(base, static_cast<double>(t));
      INFO(base << "^" << t);
      CHECK(std::abs(update::power(base, t) - want) <= 1e-16 * static_cast<double>(t) * want);
    }
  CHECK(update::power(0.5, 100000) == 0);
  CHECK(update::power(0.9, 3) == 0.9 * 0.9 * 0.9);
}

TEST_CASE("a tracer sees a step's inputs by name, and the written ones as outputs", "[update][observer]") {
  struct Seen final : Tracer {
    bool begin(const KernelCall& call) override {
      if (std::string_view(call.op.name) != "sgd_step") return false;
      attributes = describe_attributes(call.op, call.forward->attrs_view);
      for (std::size_t i = 0; i < call.forward->inputs.size(); ++i)
        if (call.forward->inputs[i]->defined()) names.push_back(input_name(call.op, i));
      for (const Tensor& t : call.forward->outputs) outputs.push_back(t.impl());
      return true;  // instead of the kernel
    }
    void end(const KernelCall&) override {}
    std::string attributes;
    std::vector<std::string> names;
    std::vector<const TensorImpl*> outputs;
  } seen;
  Run run(update::SgdRule{{.lr = 0.5, .momentum = 0.25}}, {cpu, f16, true});
  run.all.resize(2);
  for (Parameter& p : run.all) p.grad = p.param;
  const std::string before = bytes_of(run.all[0].param);
  {
    const TracerScope scope(seen);
    run.steps = zeros({3}, {.dtype = i64});
    run.call();
  }
  CHECK(seen.attributes == "lr = 0.5, momentum = 0.25, dampening = 0, weight_decay = 0, nesterov = false");
  CHECK(seen.names == std::vector<std::string>{"steps", "param", "grad", "master", "momentum_buffer",
                                               "param[1]", "grad[1]", "master[1]", "momentum_buffer[1]"});
  std::vector<const TensorImpl*> written{run.steps.impl()};
  for (const Parameter& p : run.all)
    written.insert(written.end(), {p.param.impl(), p.master.impl(), p.moments[0].impl()});
  CHECK(seen.outputs == written);
  CHECK(bytes_of(run.all[0].param) == before);
}
