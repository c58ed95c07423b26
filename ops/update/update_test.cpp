#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/execute.h>
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
  double norm = 0;  // of the gradients, as a step clips them by it; 0: none
};

template <class Rule>
struct Run {
  Rule rule;
  Options options;
  std::vector<Parameter> all;
  Tensor found_inf, inverse_scale, lr, steps, norm;

  Run(const Rule& the_rule, const Options& its_options) : rule(the_rule), options(its_options) {
    const auto [device, dtype, masters, scale, found, length] = options;
    const DType wide = dtype == f64 ? f64 : f32;
    for (const std::int64_t n : {3, 1025, 0, 1, 40000}) {
      Parameter& p = all.emplace_back();
      p.param = noise({n}, n, dtype, device);
      if (masters) p.master = p.param.to(f32);
      for (int m = 0; m < rule.moment_count(); ++m)
        p.moments[m] = zeros({n}, {.dtype = wide, .device = device});
    }
    if (scale != 1) inverse_scale = full({}, scale, {.dtype = f32, .device = device});
    if (length != 0) norm = full({}, length, {.dtype = wide, .device = device});
    if (scale != 1 || found) found_inf = full({}, found ? 1 : 0, {.dtype = f32, .device = device});
  }

  void call() {
    const Tensor none;
    std::vector<const Tensor*> inputs{&found_inf, &inverse_scale, &lr, &steps, &norm};
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

namespace {

// Norms above max_norm, below it, beside it, and none at all.
void check_clipping(Device device) {
  for_rules([&](auto rule, const auto&) {
    rule.max_norm = 2;
    for (const DType dtype : {f32, f64, f16, bf16})
      for (const double length : {7.0, 1.5, 2.0, static_cast<double>(INFINITY), static_cast<double>(NAN)})
        for (const bool masters : {false, true}) {
          if (masters && !is_low_precision(dtype)) continue;
          Run one(rule, {.device = device, .dtype = dtype, .masters = masters, .norm = length});
          Run two(rule, {.device = device, .dtype = dtype, .masters = masters});
          for (auto* const run : {&one, &two})
            for (Parameter& p : run->all) p.grad = noise(p.param.shape(), p.param.numel(), dtype, device);
          std::vector<const Tensor*> clipped{&one.norm};
          for (Parameter& p : two.all) clipped.push_back(&p.grad);
          detail::write(update::k_clip_to_norm, clipped, update::ClipAttrs{2});
          one.call(), two.call();
          INFO(update::op_of(rule).name << ", " << dtype << ", norm " << length);
          for (std::size_t k = 0; k < one.all.size(); ++k) {
            const Parameter &a = one.all[k], &b = two.all[k];
            CHECK(bytes_of(a.grad) == bytes_of(b.grad));
            if (length < 2)
              CHECK(bytes_of(a.grad) == bytes_of(noise(a.grad.shape(), a.grad.numel(), dtype, cpu)));
            CHECK(bytes_of(a.param) == bytes_of(b.param));
            if (masters) CHECK(bytes_of(a.master) == bytes_of(b.master));
            for (int m = 0; m < rule.moment_count(); ++m)
              CHECK(bytes_of(a.moments[m]) == bytes_of(b.moments[m]));
          }
        }
  });
}

void check_norms(Device device) {
  std::vector<Tensor> grads;
  for (std::int64_t k = 0; k < 300; ++k)  // on a GPU more than one launch
    grads.push_back(noise({k == 7 ? 0 : 97 * k + 1}, k, k % 3 == 0 ? bf16 : f32, device));
  const Tensor done = zeros({1}, {.dtype = i64, .device = device});
  for (const std::size_t count : {grads.size(), std::size_t{1}})
    for (const double p : {2.0, 1.0, 3.0, static_cast<double>(INFINITY)}) {
      std::string bytes;
      for (const std::size_t outputs : {1, 2, 2}) {
        std::vector<const Tensor*> inputs;
        for (std::size_t k = 0; k < count; ++k) inputs.push_back(&grads[k]);
        Tensor results[] = {full({}, -1, {.dtype = f32, .device = device}), done};
        const Tensor& norm = results[0];
        execute(device, Forward{update::k_total_norm, inputs, {results, outputs}, update::NormAttrs{p}});
        if (outputs == 1) bytes = bytes_of(norm);
        INFO(count << " gradients, p = " << p);
        CHECK(bytes_of(norm) == bytes);
        CHECK(norm.item() >= 0);
        CHECK(done.item() == 0);
      }
    }
}

void check_rounding(Device device) {
  for (const DType dtype : {f16, bf16}) {
    std::vector<Tensor> sources, targets;
    for (std::int64_t k = 0; k < 200; ++k) {  // on a GPU more than one launch
      sources.push_back(noise({61 * k + 2}, k, f32, device).narrow(0, k % 2, k == 7 ? 0 : 61 * k));
      targets.push_back(full(sources.back().shape(), 7, {.dtype = dtype, .device = device}));
    }
    sources[3].copy_(full({}, NAN));
    std::vector<const Tensor*> inputs;
    for (std::size_t k = 0; k < sources.size(); ++k) inputs.insert(inputs.end(), {&sources[k], &targets[k]});
    detail::write(update::k_round_all, inputs, {});
    for (std::size_t k = 0; k < sources.size(); ++k)
      CHECK(bytes_of(targets[k]) == bytes_of(sources[k].to(dtype)));
  }
}

}  // namespace

TEST_CASE("many tensors are rounded as one is", "[update]") { check_rounding(cpu); }
TEST_CASE("many tensors are rounded as one is on a GPU", "[update][cuda]") { check_rounding(cuda(0)); }

TEST_CASE("a step that has a norm clips its gradients first", "[update]") { check_clipping(cpu); }
TEST_CASE("a step that has a norm clips its gradients first on a GPU", "[update][cuda]") {
  check_clipping(cuda(0));
}
TEST_CASE("a norm in one launch is that of two", "[update]") { check_norms(cpu); }
TEST_CASE("a norm in one launch is that of two on a GPU", "[update][cuda]") { check_norms(cuda(0)); }

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

namespace {

void check_averages(Device device) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const update::AverageAttrs& attrs : {update::AverageAttrs{0.999}, update::AverageAttrs{0.5},
                                              update::AverageAttrs{0.1}, update::AverageAttrs{0.9, true}}) {
      Tensor updates = zeros({2}, {.dtype = i64, .device = device});
      std::vector<Tensor> averages, values;
      for (std::int64_t k = 0; k < 50; ++k) {  // on a GPU more than one launch
        averages.push_back(noise({k == 7 ? 0 : 41 * k + 1}, k, dtype == f64 ? f64 : f32, device));
        values.push_back(noise(averages.back().shape(), k + 100, dtype, device));
      }
      for (std::int64_t t = 1; t <= 3; ++t) {
        std::vector<Values> want;
        std::vector<const Tensor*> inputs{&updates};
        for (std::size_t k = 0; k < values.size(); ++k) {
          want.push_back(averages[k].to_vector<double>());
          const Values x = values[k].to_vector<double>();
          for (std::size_t i = 0; i < x.size(); ++i)
            plain::average_step(attrs, static_cast<double>(t), x[i], want[k][i]);
          inputs.insert(inputs.end(), {&averages[k], &values[k]});
        }
        detail::write(update::k_average_step, inputs, attrs);
        for (std::size_t k = 0; k < values.size(); ++k)
          CHECK(worst(averages[k], want[k]) <= (dtype == f64 ? 1e-15 : 1.2e-7));
        CHECK(updates.to_vector<std::int64_t>() == std::vector<std::int64_t>{t, 0});
      }
    }
}

}  // namespace

TEST_CASE("averages are the plain ones", "[update]") { check_averages(cpu); }
TEST_CASE("averages on a GPU are the plain ones", "[update][cuda]") { check_averages(cuda(0)); }

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
  CHECK(seen.attributes ==
        "lr = 0.5, momentum = 0.25, dampening = 0, weight_decay = 0, nesterov = false, max_norm = 0");
  CHECK(seen.names == std::vector<std::string>{"steps", "param", "grad", "master", "momentum_buffer",
                                               "param[1]", "grad[1]", "master[1]", "momentum_buffer[1]"});
  std::vector<const TensorImpl*> written{run.steps.impl()};
  for (const Parameter& p : run.all)
    written.insert(written.end(), {p.param.impl(), p.master.impl(), p.moments[0].impl()});
  CHECK(seen.outputs == written);
  CHECK(bytes_of(run.all[0].param) == before);
}
