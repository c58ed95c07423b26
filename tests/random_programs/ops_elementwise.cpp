#include <cmath>

#include "tests/random_programs/program.h"

// Elementwise ops and reductions.

namespace ct::random_programs {
namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using InPlace = Tensor& (*)(Tensor&);

const std::vector<double> kNumbers = {-2, -0.75, 0.5, 1.25, 3};
constexpr double kMany = 300;

}  // namespace

void add_elementwise(std::vector<Op>& ops) {
  const auto add = [&](const char* name, std::function<Results(Draw&)> run) {
    ops.push_back({name, std::move(run)});
  };

  // Ops of one tensor: smooth everywhere; within an interval; away from kinks; off steps.
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Unary>>{{"neg", ct::neg},
                                                            {"exp", ct::exp},
                                                            {"square", ct::square},
                                                            {"sin", ct::sin},
                                                            {"cos", ct::cos},
                                                            {"tanh", ct::tanh},
                                                            {"sigmoid", ct::sigmoid},
                                                            {"silu", ct::silu},
                                                            {"erf", ct::erf},
                                                            {"erfc", ct::erfc},
                                                            {"expm1", ct::expm1},
                                                            {"exp2", ct::exp2},
                                                            {"atan", ct::atan},
                                                            {"sinh", ct::sinh},
                                                            {"cosh", ct::cosh},
                                                            {"asinh", ct::asinh},
                                                            {"mish", ct::mish},
                                                            {"logsigmoid", ct::logsigmoid}})
    add(name, [f = f](Draw& d) { return f(d.x()); });
  struct Within {
    const char* name;
    Unary f;
    double low, high;
  };
  for (const Within& w : {Within{"log", ct::log, .01, kMany},
                          {"sqrt", ct::sqrt, .01, kMany},
                          {"rsqrt", ct::rsqrt, .01, kMany},
                          {"log2", ct::log2, .01, kMany},
                          {"log10", ct::log10, .01, kMany},
                          {"log1p", ct::log1p, -.9, kMany},
                          {"reciprocal", ct::reciprocal, .05, kMany},
                          {"asin", ct::asin, -.95, .95},
                          {"acos", ct::acos, -.95, .95},
                          {"atanh", ct::atanh, -.95, .95},
                          {"acosh", ct::acosh, 1.05, kMany},
                          {"tan", ct::tan, -1.4, 1.4}})
    add(w.name, [w](Draw& d) { return w.f(d.within(w.low, w.high)); });
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Unary>>{{"relu", ct::relu},
                                                            {"abs", ct::abs},
                                                            {"relu6", ct::relu6},
                                                            {"hardsigmoid", ct::hardsigmoid},
                                                            {"hardswish", ct::hardswish},
                                                            {"softsign", ct::softsign},
                                                            {"selu", ct::selu}})
    add(name, [f = f](Draw& d) { return f(d.away({-3, 0, 3, 6})); });
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Unary>>{{"floor", ct::floor},
                                                                                    {"ceil", ct::ceil},
                                                                                    {"round", ct::round},
                                                                                    {"trunc", ct::trunc},
                                                                                    {"sign", ct::sign}})
    add(name, [f = f](Draw& d) { return f(d.off_steps()); });
  add("gelu", [](Draw& d) {
    const Tensor x = d.x();
    return ct::gelu(x, d.choice("approximate", {"none", "tanh"}) == 0 ? Gelu::exact : Gelu::tanh);
  });
  add("leaky_relu", [](Draw& d) {
    const Tensor x = d.away({0});
    return ct::leaky_relu(x, d.real("negative_slope", {.01, .3}));
  });
  add("elu", [](Draw& d) {
    const Tensor x = d.away({0});
    return ct::elu(x, d.real("alpha", {1, .5}));
  });
  add("hardtanh", [](Draw& d) { return ct::hardtanh(d.away({-1, 1})); });
  add("softplus", [](Draw& d) {
    const Tensor x = d.away({20});
    return ct::softplus(x, d.real("beta", {1, .5}));
  });
  add("clamp", [](Draw& d) {
    const Tensor x = d.away({-.8, .9});
    return ct::clamp(x, d.real("min", {-.8}), d.real("max", {.9}));
  });
  add("nan_to_num", [](Draw& d) { return ct::nan_to_num(d.x()); });

  // Ops of two tensors, broadcast, and of a tensor and a number.
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Binary>>{
           {"mul", ct::mul}, {"atan2", ct::atan2}, {"hypot", ct::hypot}})
    add(name, [f = f](Draw& d) {
      const Tensor a = d.away({0});
      return f(a, d.beside(a));
    });
  add("add", [](Draw& d) {
    const Tensor a = d.x();
    const Tensor b = d.beside(a);
    return ct::add(a, b, d.real("alpha", kNumbers));
  });
  add("sub", [](Draw& d) {
    const Tensor a = d.x();
    return ct::sub(a, d.beside(a));
  });
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Binary>>{
           {"maximum", ct::maximum}, {"minimum", ct::minimum}})
    add(name, [f = f](Draw& d) {
      const Tensor a = d.distinct(), b = d.beside(a);
      if (a.is_same(b)) throw Skip{};
      return f(a, b);
    });
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Binary>>{{"div", ct::div}, {"xlogy", ct::xlogy}})
    add(name, [f = f](Draw& d) {
      const Tensor a = d.x();
      return f(a, d.beside(a, .05, kMany));
    });
  add("pow", [](Draw& d) {
    const Tensor a = d.within(.05, 20);
    return ct::pow(a, d.beside(a));
  });
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Tensor (*)(const Tensor&, const Scalar&)>>{
           {"mul", ct::mul},
           {"div", ct::div},
           {"remainder", ct::remainder},
           {"fmod", ct::fmod},
           {"floor_divide", ct::floor_divide}})
    add(name, [f = f](Draw& d) {
      const Tensor a = d.x(0, 8, [](const Draw::Values& v) {
        for (const double e : v)
          for (const double n : kNumbers)
            if (std::abs(e / n - std::round(e / n)) < 1e-6) return false;
        return true;
      });
      return f(a, d.real("other", kNumbers));
    });
  add("pow", [](Draw& d) {
    const Tensor a = d.within(.05, 20);
    return ct::pow(a, d.real("exponent", kNumbers));
  });
  add("lerp", [](Draw& d) {
    const Tensor a = d.x(), b = d.like(a);
    return ct::lerp(a, b, d.like(a));
  });
  add("addcmul", [](Draw& d) {
    const Tensor x = d.x(), a = d.beside(x), b = d.like(a);
    return ct::addcmul(x, a, b, d.real("value", kNumbers));
  });
  add("addcdiv", [](Draw& d) {
    const Tensor x = d.x(), a = d.like(x), b = d.beside(x, .2, kMany);
    return ct::addcdiv(x, a, b, d.real("value", kNumbers));
  });
  add("prelu", [](Draw& d) {
    const Tensor x = d.away({0});
    return ct::prelu(x, d.leaf({1}));
  });

  // Truth values, and choices by them.
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Tensor (*)(const Tensor&, const Scalar&)>>{
           {"lt", ct::lt}, {"le", ct::le}, {"gt", ct::gt}, {"ge", ct::ge}, {"eq", ct::eq}, {"ne", ct::ne}})
    add(name, [f = f](Draw& d) {
      const Tensor x = d.off_steps();
      return f(x, d.real("other", {0, .5}));
    });
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Binary>>{{"logical_and", ct::logical_and},
                                                             {"logical_or", ct::logical_or},
                                                             {"logical_xor", ct::logical_xor}})
    add(name, [f = f](Draw& d) {
      const Tensor a = d.any([](const Tensor& t) { return t.dtype() == boolean; });
      return f(a, d.mask_for(a));
    });
  add("logical_not",
      [](Draw& d) { return ct::logical_not(d.any([](const Tensor& t) { return t.dtype() == boolean; })); });
  add("where", [](Draw& d) {
    const Tensor mask = d.any([](const Tensor& t) { return t.dtype() == boolean; });
    const Tensor a = d.beside(mask);
    return ct::where(mask, a, d.like(a));
  });
  add("masked_fill", [](Draw& d) {
    const Tensor x = d.x();
    const Tensor mask = d.mask_for(x);
    return ct::masked_fill(x, mask, d.real("value", kNumbers));
  });

  // In place: on a copy, and on one that another result was made of before.
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, InPlace>>{{"neg_", ct::neg_},
                                                              {"exp_", ct::exp_},
                                                              {"tanh_", ct::tanh_},
                                                              {"sigmoid_", ct::sigmoid_},
                                                              {"square_", ct::square_}})
    add(name, [f = f](Draw& d) {
      Tensor x = d.x().clone();
      f(x);
      return x;
    });
  using Change = Tensor& (Tensor::*)(const Tensor&);
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Change>>{
           {"add_", &Tensor::add_}, {"sub_", &Tensor::sub_}, {"mul_", &Tensor::mul_}})
    for (const bool used : {false, true})
      add(used ? (std::string("used_") + name).c_str() : name, [f = f, used](Draw& d) -> Results {
        const Tensor x = d.x();
        Tensor copy = x.clone();
        const Tensor before = copy + x;  // keeps no values: the change is allowed
        const Tensor b = d.any([&](const Tensor& t) {
          return t.dtype() == f64 && (t.shape() == x.shape() || t.numel() == 1) && t.dim() <= x.dim();
        });
        (copy.*f)(b);
        return used ? Results(std::vector<Tensor>{before, copy}) : Results(copy);
      });
  add("masked_fill_", [](Draw& d) {
    Tensor x = d.x().clone();
    const Tensor mask = d.mask_for(x);
    ct::masked_fill_(x, mask, d.real("value", kNumbers));
    return x;
  });

  // Reductions.
  const auto reduce = [&](const char* name, Tensor (*f)(const Tensor&, const Dims&, Flag),
                          bool all_distinct) {
    add(name, [f, all_distinct](Draw& d) {
      const Tensor x = all_distinct ? d.distinct(1) : d.x(1);
      const Dims axes = d.dims("dim", x);
      return f(x, axes, d.flag("keepdim"));
    });
  };
  reduce(
      "sum", [](const Tensor& x, const Dims& a, Flag k) { return ct::sum(x, a, k); }, false);
  reduce(
      "mean", [](const Tensor& x, const Dims& a, Flag k) { return ct::mean(x, a, k); }, false);
  reduce("amax", ct::amax, true);
  reduce("amin", ct::amin, true);
  reduce("logsumexp", ct::logsumexp, false);
  add("prod", [](Draw& d) {
    const Tensor x = d.x(1);
    const Dims axis{d.dim("dim", x)};
    return ct::prod(x, axis, d.flag("keepdim"));
  });
  for (const char* name : {"var", "std"})
    add(name, [f = name[0] == 'v' ? ct::var : ct::stddev](Draw& d) {
      const Tensor x = d.distinct(1);  // the deviation of equal numbers has no gradient
      const Dims axes = d.dims("dim", x);
      std::int64_t count = 1;
      for (const std::int64_t axis : axes) count *= x.size(axis);
      if (count < 2) throw Skip{};
      const auto correction = d.whole("correction", 0, 1);
      return f(x, axes, static_cast<double>(correction), d.flag("keepdim"));
    });
  add("norm", [](Draw& d) {
    const Tensor x = d.away({0});
    if (x.dim() == 0) throw Skip{};
    const double p = d.real("p", {1, 2, 3});
    const Dims axes = d.dims("dim", x);
    return ct::norm(x, p, axes, d.flag("keepdim"));
  });
  for (const char* name : {"max", "min"})
    add(name, [larger = name[1] == 'a'](Draw& d) {
      const Tensor x = d.distinct(1);
      const std::int64_t axis = d.dim("dim", x);
      return larger ? ct::max(x, axis, d.flag("keepdim")) : ct::min(x, axis, d.flag("keepdim"));
    });
  for (const char* name : {"argmax", "argmin"})
    add(name, [larger = name[4] == 'a'](Draw& d) {
      const Tensor x = d.distinct(1);
      const std::int64_t axis = d.dim("dim", x);
      return larger ? ct::argmax(x, axis) : ct::argmin(x, axis);
    });
  for (const char* name : {"any", "all"})
    add(name, [some = name[1] == 'n'](Draw& d) {
      const Tensor x = d.any([](const Tensor& t) { return t.dtype() == boolean && t.dim() > 0; });
      const Dims axis{d.dim("dim", x)};
      return some ? ct::any(x, axis) : ct::all(x, axis);
    });
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Tensor (*)(const Tensor&, Integer)>>{
           {"softmax", ct::softmax}, {"log_softmax", ct::log_softmax}})
    add(name, [f = f](Draw& d) {
      const Tensor x = d.x(1);
      return f(x, d.dim("dim", x));
    });
  add("topk", [](Draw& d) {
    const Tensor x = d.distinct(1);
    const std::int64_t axis = d.dim("dim", x);
    return ct::topk(x, d.whole("k", 1, x.size(axis)), axis);
  });
}

}  // namespace ct::random_programs
