#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/rule_internal.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/engine/map/map_cpu.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>
#include <cotangent/ops/engine/map/op.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/testing/conformance.h>

#include "tests/catch.h"

// The mechanism under unary, binary and where: numerics of the vector functions, layouts, dtypes, threads.

namespace {

using ct::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNaN = std::numeric_limits<double>::quiet_NaN();

// Every 1021st float between two magnitudes, of both signs (or the positive ones).
std::vector<float> sweep(float low, float high, bool negative) {
  std::vector<float> values;
  for (auto bits = std::bit_cast<std::uint32_t>(low); bits <= std::bit_cast<std::uint32_t>(high);
       bits += 1021) {
    values.push_back(std::bit_cast<float>(bits));
    if (negative) values.push_back(-values.back());
  }
  return values;
}

// The largest error of `f` in units of the last place of the exact result.
struct Worst {
  double ulp = 0;
  float at = 0;
};
Worst worst_error(Tensor (*f)(const Tensor&), double (*exact)(double), const std::vector<float>& values) {
  const std::vector<float> got = f(ct::from_vector(values)).to_vector<float>();
  Worst worst;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = exact(values[i]);
    const float nearest = static_cast<float>(want);
    if (got[i] == nearest || (std::isnan(got[i]) && std::isnan(want))) continue;
    int exponent = 0;
    std::frexp(want, &exponent);
    const double step = std::ldexp(1.0, std::max(exponent, -125) - 24);
    const double ulp = std::fabs(got[i] - want) / step;
    if (!(ulp <= worst.ulp)) worst = {ulp, values[i]};
  }
  return worst;
}

// An op of three inputs whose gradients are three results of one formula: y = a b + c p, with p = 2.
struct OptionalC : ct::map::Formula {
  static constexpr unsigned kOptional = 0b100;
};
// clang-format off
CT_MAP_FORMULA(MulAdd, OptionalC, 3, 1, (X a, X b, X c, X p, X), return a * b + c * p)
CT_MAP_FORMULA(MulAddGradients, ct::map::Formula, 3, 3, (X g, X a, X b, X p, X), return results(g * b, g * a, g * p))
// clang-format on

constexpr ct::map::Parameters kTwo{2, 0};

constexpr ct::InputDef kMulAddInputs[] = {
    {.name = "a", .needs = "a b"}, {.name = "b", .needs = "a b"}, {.name = "c", .needs = "a b"}};
constexpr ct::OutputDef kMulAddOutputs[] = {{.name = "y"}};
constexpr ct::AttrDef kMulAddAttributes[] = {CT_ATTRIBUTE(ct::map::Parameters, p)};
constexpr ct::OpDef k_mul_add = ct::checked({
    .name = "test_mul_add",
    .formula = "y = a b + 2 c",
    .inputs = kMulAddInputs,
    .outputs = kMulAddOutputs,
    .attributes = kMulAddAttributes,
    .infer = ct::map::infer_broadcast,
    .cpu = {ct::map::forward_cpu<MulAdd, true, false>, ct::map::joint_backward_cpu<MulAddGradients>},
    .rule = ct::map::joint_rule<MulAddGradients>,
});
constexpr ct::OpTests kMulAddTests{
    .op = "test_mul_add",
    .samples = [](ct::SampleMaker& make) -> std::vector<ct::Sample> {
      const auto sample = [&](const ct::Shape& a, const ct::Shape& b, const ct::Shape& c) {
        return ct::Sample{{make.normal(a), make.normal(b), make.normal(c)}, kTwo};
      };
      return {sample({4, 70}, {4, 70}, {4, 70}), sample({4, 70}, {70}, {4, 1}),
              sample({3, 1, 5}, {2, 1}, {}),     sample({}, {}, {}),
              sample({0, 3}, {3}, {0, 3}),       sample({1500}, {1500}, {1})};
    },
    .reference = [](std::span<const Tensor> in, ct::AttrsView) -> std::vector<Tensor> {
      return {in[0] * in[1] + 2 * in[2]};
    },
};

}  // namespace

TEST_CASE("vector functions in f32 are within two units of the last place", "[elementwise]") {
  const auto check = [](const char* name, Tensor (*f)(const Tensor&), double (*exact)(double),
                        const std::vector<float>& values, double limit) {
    const Worst worst = worst_error(f, exact, values);
    INFO(name << ": " << worst.ulp << " ulp at " << worst.at << " of " << values.size() << " values");
    CHECK(worst.ulp <= limit);
    if (std::getenv("CT_TEST_VERBOSE")) WARN(name << ": " << worst.ulp << " ulp at " << worst.at);
  };
  const float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  check("exp", ct::exp, std::exp, sweep(tiny, huge, true), 1.1);
  check("log", ct::log, std::log, sweep(tiny, huge, true), 0.8);
  check("sqrt", ct::sqrt, std::sqrt, sweep(tiny, huge, true), 0.51);
  check("sin", ct::sin, std::sin, sweep(tiny, huge, true), 0.8);
  check("cos", ct::cos, std::cos, sweep(tiny, huge, true), 0.8);
  check(
      "softplus", [](const Tensor& x) { return ct::softplus(x); },
      [](double x) { return std::log1p(std::exp(x)); }, sweep(tiny, 20, true), 2.0);
  check("tanh", ct::tanh, std::tanh, sweep(tiny, huge, true), 1.3);
  check("erf", ct::erf, std::erf, sweep(tiny, huge, true), 1.25);
  check(
      "sigmoid", [](const Tensor& x) { return ct::sigmoid(x); },
      [](double x) { return 1 / (1 + std::exp(-x)); }, sweep(tiny, 88, true), 2.1);
  check(
      "gelu", [](const Tensor& x) { return ct::gelu(x); },
      [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }, sweep(tiny, 3, true), 8);
}

TEST_CASE("functions in f64 are within about one unit of the last place", "[elementwise]") {
  // Told where long double has the digits for it.
  const bool told = std::numeric_limits<long double>::digits >= 64;
  using Exact = long double (*)(long double);
  const auto check = [](const char* name, Tensor (*f)(const Tensor&), Exact exact, double low, double high,
                        double limit) {
    std::vector<double> x;
    for (int i = 0; i < 40000; ++i) x.push_back(low + (high - low) * (i + 0.5 * std::sin(i)) / 40000);
    for (double v = 1e-300; v < high; v *= 1.037)
      for (const double side : {v, -v})
        if (side > low) x.push_back(side);
    const std::vector<double> got = f(ct::from_vector(x)).to_vector<double>();
    double worst = 0, at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double want = exact(x[i]);
      int exponent = 0;
      std::frexp(want, &exponent);
      const auto ulp = static_cast<double>(std::fabs(got[i] - want) / std::ldexp(1.0L, exponent - 53));
      if (!(ulp <= worst)) worst = ulp, at = x[i];
    }
    INFO(name << ": " << worst << " ulp at " << at);
    CHECK((!told || worst <= limit));
  };
  check("expm1", ct::expm1, std::expm1, -2, 2, 1.1);
  check("expm1 far", ct::expm1, std::expm1, -50, 709, 1.1);
  check("tanh", ct::tanh, std::tanh, -25, 25, 0.8);
  check("tanh near 0", ct::tanh, std::tanh, -1, 1, 0.8);
  check("asin", ct::asin, std::asin, -1, 1, 0.7);
  check("acos", ct::acos, std::acos, -1, 1, 0.7);
  check("log", ct::log, std::log, 1e-3, 10, 0.9);
  check("log far", ct::log, std::log, 1e-3, 1e300, 0.9);
  check("log1p", ct::log1p, std::log1p, -0.9999, 3, 1.1);
  check("log1p far", ct::log1p, std::log1p, -0.5, 1e300, 1.1);
  check("erf", ct::erf, std::erf, -7, 7, 1.1);
  check("erf near 0", ct::erf, std::erf, -1, 1, 1.1);
  check("erfc", ct::erfc, std::erfc, -6, 26.5, 1.1);
  check("erfc near 0", ct::erfc, std::erfc, -1, 1, 1.1);
  for (const auto f : {ct::asin, ct::acos})
    for (const double x : {1.0000001, -2., kInf, -kInf, kNaN})
      CHECK(std::isnan(f(ct::tensor({x})).item<double>()));
  CHECK(ct::expm1(ct::tensor({kInf, -kInf, 710., -800.})).to_vector<double>() ==
        std::vector<double>{kInf, -1, kInf, -1});
  CHECK(ct::erfc(ct::tensor({kInf, -kInf, 0., -0., 30.})).to_vector<double>() ==
        std::vector<double>{0, 2, 1, 1, 0});
  CHECK(std::isnan(ct::erfc(ct::tensor({kNaN})).item<double>()));
  for (double x = 26.5; x < 27.5; x += 0.01) {  // denormal numbers
    const long double want = std::erfc(static_cast<long double>(x));
    const double got = ct::erfc(ct::from_vector(std::vector{x})).item<double>();
    CHECK((!told ||
           std::fabs(got - want) <= 0.51L * std::numeric_limits<double>::denorm_min() + 0x1p-52L * want));
  }
  CHECK(ct::tanh(ct::tensor({kInf, -kInf})).to_vector<double>() == std::vector<double>{1, -1});
  CHECK(ct::erf(ct::tensor({kInf, -kInf})).to_vector<double>() == std::vector<double>{1, -1});
  CHECK(ct::log(ct::tensor({kInf, 1., 0., -0.})).to_vector<double>() ==
        std::vector<double>{kInf, 0, -kInf, -kInf});
  CHECK(ct::log1p(ct::tensor({kInf, 0., -1.})).to_vector<double>() == std::vector<double>{kInf, 0, -kInf});
  for (double x = std::numeric_limits<double>::denorm_min(); x < 0x1p-1022; x *= 1.7) {
    const double got = ct::log(ct::from_vector(std::vector{x})).item<double>();
    CHECK(std::abs(got - std::log(x)) <= 0x1p-43);  // a unit of the last place
  }
  for (const auto f : {ct::log, ct::log1p})
    for (const double x : {-2., -kInf, kNaN}) CHECK(std::isnan(f(ct::tensor({x})).item<double>()));
  CHECK(std::isnan(ct::erf(ct::tensor({kNaN})).item<double>()));
  for (const auto f : {ct::expm1, ct::tanh, ct::asin, ct::erf, ct::log1p})
    CHECK(std::signbit(f(ct::tensor({-0.})).item<double>()));
}

TEST_CASE("vector functions at zeros, infinities and NaN", "[elementwise]") {
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    Tensor (*f)(const Tensor&);
    float at_zero, at_minus_zero, at_infinity, at_minus_infinity;
  } functions[] = {{ct::exp, 1, 1, infinity, 0},
                   {ct::log, -infinity, -infinity, infinity, nan},
                   {ct::tanh, 0, -0.0f, 1, -1},
                   {ct::erf, 0, -0.0f, 1, -1},
                   {ct::sigmoid, 0.5f, 0.5f, 1, 0},
                   {ct::sqrt, 0, -0.0f, infinity, nan},
                   {ct::sin, 0, -0.0f, nan, nan},
                   {ct::cos, 1, 1, nan, nan},
                   {ct::silu, 0, -0.0f, infinity, nan},
                   {[](const Tensor& x) { return ct::gelu(x); }, 0, -0.0f, infinity, nan}};
  for (const auto& [f, a, b, c, d] : functions) {
    INFO(&f - &functions[0].f);
    const std::vector<float> got =
        f(ct::from_vector(std::vector{0.0f, -0.0f, infinity, -infinity, nan})).to_vector<float>();
    const float want[] = {a, b, c, d, nan};
    for (std::size_t i = 0; i < 5; ++i) {
      INFO(i << ": " << got[i]);
      CHECK((std::isnan(want[i])
                 ? std::isnan(got[i])
                 : std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i])));
    }
  }
}

TEST_CASE("functions of every 16-bit number are those of f32, rounded once; tables have the same bits",
          "[elementwise]") {
  const struct {
    const char* name;
    Tensor (*f)(const Tensor&);
    double (*exact)(double);
    float from = -std::numeric_limits<
        float>::infinity();  // left of it 0, where the result is no normal number, or hardly
  } functions[] = {{"exp", ct::exp, std::exp},
                   {"log", ct::log, std::log},
                   {"sqrt", ct::sqrt, std::sqrt},
                   {"sin", ct::sin, std::sin},
                   {"cos", ct::cos, std::cos},
                   {"tanh", ct::tanh, std::tanh},
                   {"erf", ct::erf, std::erf},
                   {"log1p", ct::log1p, std::log1p},
                   {"sigmoid", ct::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -88},
                   {"silu", ct::silu, [](double x) { return x / (1 + std::exp(-x)); }, -88},
                   {"gelu", [](const Tensor& x) { return ct::gelu(x); },
                    [](double x) { return x == 0 ? x : x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }}};
  const auto check = [&]<class S>(S, int digits, int least_exponent) {
    // More elements than a table is made for, no whole number of them.
    std::vector<S> bits((1 << 19) + 3);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i].bits = static_cast<std::uint16_t>(i);
    const Tensor many = ct::from_vector(bits), all = many.narrow(0, 0, 1 << 16);
    const std::vector<float> x = all.to_vector<float>();
    for (const auto& [name, f, exact, least] : functions) {
      const Tensor direct_y = f(all), table_y = f(many);
      const std::vector<float> got = direct_y.to_vector<float>(), by_table = table_y.to_vector<float>();
      std::int64_t others = 0;
      Worst worst;
      for (std::size_t i = 0; i < by_table.size(); ++i) {
        const float direct = got[i % got.size()];
        others += std::bit_cast<std::uint32_t>(by_table[i]) != std::bit_cast<std::uint32_t>(direct);
        if (i >= got.size() || x[i] < least) continue;
        const double want = exact(x[i]);
        if (direct == static_cast<float>(S(static_cast<float>(want))) ||
            (std::isnan(direct) && std::isnan(want)))
          continue;
        int exponent = 0;
        std::frexp(want, &exponent);
        const double ulp =
            std::fabs(direct - want) / std::ldexp(1.0, std::max(exponent, least_exponent) - digits);
        if (!(ulp <= worst.ulp)) worst = {ulp, x[i]};
      }
      INFO(name << " of " << ct::name(all.dtype()) << ": " << worst.ulp << " ulp at " << worst.at);
      CHECK(worst.ulp <= 0.5002);
      CHECK(others == 0);
      if (std::getenv("CT_TEST_VERBOSE")) WARN(name << ": " << worst.ulp << " ulp at " << worst.at);
    }
  };
  check(ct::Half{}, 11, -13);
  check(ct::BFloat16{}, 8, -125);
}

TEST_CASE("results that go past the caches have the bits of those that do not", "[elementwise][layer_norm]") {
  const auto check = [](const Tensor& row, std::int64_t rows) {
    const Tensor x = row.expand({rows, row.numel()}).contiguous();
    REQUIRE(static_cast<std::size_t>(x.nbytes()) > std::size_t{32} << 20);
    const Tensor one = row.view({1, row.numel()});
    const auto same = [&](Tensor (*f)(const Tensor&)) { CHECK(ct::all(ct::eq(f(x), f(one))).item<bool>()); };
    same(ct::exp);
    same([](const Tensor& t) { return t.clone(); });
    same([](const Tensor& t) { return t * 3; });
    same([](const Tensor& t) { return ct::layer_norm(t); });
  };
  check(ct::randn({4099}), 2049);  // rows that end within a vector
  check(ct::randn({4096}), 2049);
  check(ct::randn({4096}).to(ct::bf16), 4097);
}

TEST_CASE("any number of threads gives the same bits, in every layout", "[elementwise]") {
  const Tensor x = ct::randn({300, 257}), row = ct::randn({257}), column = ct::randn({300, 1});
  const auto all = [&] {
    std::vector<std::vector<float>> results;
    for (const Tensor& y : {ct::gelu(x), ct::tanh(x.t()), x * row, x * column, x + x.slice(0, 0, 1),
                            ct::exp(x.slice(1, 1, 200))})
      results.push_back(y.to_vector<float>());
    return results;
  };
  const int threads = ct::num_threads();
  ct::set_num_threads(1);
  const auto one = all();
  ct::set_num_threads(4);
  CHECK(all() == one);
  ct::set_num_threads(threads);
}

TEST_CASE("layouts: every path of the CPU driver agrees with plain copies", "[elementwise]") {
  // Small and long rows, broadcast and strided operands, dtypes that are converted on the way.
  for (const ct::DType t : {ct::f32, ct::f64, ct::f16, ct::bf16, ct::i64, ct::i32, ct::u8}) {
    INFO(ct::name(t));
    const Tensor base = ct::randint(0, 12, {60, 140}).to(t);
    const Tensor pieces[] = {
        base.slice(1, 0, 140, 2),  base.narrow(1, 3, 70), base.narrow(0, 0, 60).narrow(1, 1, 9),
        base.t().narrow(1, 2, 33), base.select(1, 5),     base.view({4, 15, 2, 70}).permute({3, 0, 2, 1})};
    for (const Tensor& a : pieces) {
      const Tensor plain = a.contiguous();
      CHECK((a + a).to_vector<double>() == (plain + plain).to_vector<double>());
      const Tensor row = a.narrow(0, 0, 1);
      CHECK((a * row).to_vector<double>() == (plain * row.contiguous()).to_vector<double>());
      const Tensor last = a.narrow(-1, 0, 1);
      CHECK((a - last).to_vector<double>() ==
            (plain - last.contiguous().expand(a.shape()).contiguous()).to_vector<double>());
    }
  }
  // One number, beside more elements than a chunk has.
  const Tensor x = ct::randn({300, 257}), number = x.slice(0, 7, 8).slice(1, 9, 10);
  const auto product = (x * number.expand(x.shape()).contiguous()).to_vector<float>();
  CHECK((x * number).to_vector<float>() == product);
  CHECK((number.expand(x.shape()) * x).to_vector<float>() == product);
}

TEST_CASE("large transposed operands", "[elementwise]") {
  const Tensor x = ct::randn({200, 170}), y = ct::randn({170, 200});
  CHECK((x + y.t()).to_vector<float>() == (x + y.t().contiguous()).to_vector<float>());
  CHECK(ct::exp(y.t()).to_vector<float>() == ct::exp(y.t().contiguous()).to_vector<float>());
}

// ---- The same on a GPU: exact operations must have the CPU's bits ----------------------------------------

namespace {

void check_same(const Tensor& on_gpu, const Tensor& want) {
  REQUIRE(on_gpu.is_cuda());
  REQUIRE(on_gpu.dtype() == want.dtype());
  CHECK(on_gpu.to(ct::cpu).to_vector<double>() == want.to_vector<double>());
}

}  // namespace

TEST_CASE("CUDA: vector and element kernels agree with the CPU on every layout", "[elementwise][cuda]") {
  const ct::Device gpu = ct::cuda(0);
  for (const ct::DType t : {ct::f32, ct::f64, ct::f16, ct::bf16, ct::i64, ct::i32, ct::u8}) {
    INFO(ct::name(t));
    // Around the sizes where a tail, the unrolling and the grid change.
    for (const std::int64_t n : {1, 7, 8, 1024, 4099, 65536, 65543, 1 << 20, (1 << 22) + 5}) {
      INFO(n);
      const Tensor a = ct::randint(0, 9, {n}).to(t), b = ct::randint(0, 9, {n}).to(t);
      const Tensor ga = a.to(gpu), gb = b.to(gpu);
      check_same(ga * gb, a * b);
      check_same(ga + 3, a + 3);
      check_same(ct::relu(ga), ct::relu(a));
      check_same(ga < gb, a < b);
      if (n > 8)
        check_same(ga.narrow(0, 1, n - 1) * gb.narrow(0, 0, n - 1),
                   a.narrow(0, 1, n - 1) * b.narrow(0, 0, n - 1));
      Tensor h = ga.clone();
      h.mul_(gb);
      check_same(h, a * b);
    }
    // Rows of whole chunks and not, broadcast either way, sliced, transposed, in place on a view.
    for (const std::int64_t columns : {64, 63, 8, 3}) {
      INFO(columns << " columns");
      const Tensor a = ct::randint(0, 9, {70, columns}).to(t), row = ct::randint(0, 9, {columns}).to(t),
                   column = ct::randint(0, 9, {70, 1}).to(t);
      const Tensor ga = a.to(gpu), grow = row.to(gpu), gcolumn = column.to(gpu);
      check_same(ga + grow, a + row);
      check_same(ga * gcolumn, a * column);
      check_same(grow + gcolumn, row + column);
      check_same(ga + ct::tensor(2).to(gpu), a + ct::tensor(2));
      check_same(ct::square(ga.narrow(1, 0, columns / 2)), ct::square(a.narrow(1, 0, columns / 2)));
      check_same(ct::square(ga.slice(1, 0, columns, 2)), ct::square(a.slice(1, 0, columns, 2)));
      check_same(ga.t() + gcolumn.t(), a.t() + column.t());
      Tensor view = ga.clone(), want = a.clone();
      view.narrow(0, 3, 20).mul_(grow);
      want.narrow(0, 3, 20).mul_(row);
      check_same(view, want);
      view.t().add_(1);
      want.t().add_(1);
      check_same(view, want);
    }
  }
}

TEST_CASE("CUDA: functions in f32 are close to the CPU's", "[elementwise][cuda]") {
  const ct::Device gpu = ct::cuda(0);
  const Tensor x = ct::from_vector(sweep(1e-6f, 80, true));
  for (Tensor (*f)(const Tensor&) : {ct::exp, ct::sin, ct::cos, ct::tanh, ct::sigmoid, ct::silu, ct::erf}) {
    const std::vector<float> a = f(x).to_vector<float>(), b = f(x.to(gpu)).to(ct::cpu).to_vector<float>();
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      worst = std::max(worst, std::fabs(a[i] - b[i]) / (1e-30 + std::fabs(a[i])));
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("CUDA: more elements than one launch takes", "[elementwise][cuda]") {
  const std::int64_t n = (std::int64_t{1} << 30) + 12345;
  Tensor x = ct::zeros({n}, {.dtype = ct::u8, .device = ct::cuda(0)});
  x += 7;
  CHECK(x.select(0, 0).item<int>() == 7);
  CHECK(x.select(0, n - 1).item<int>() == 7);
  CHECK(x.select(0, n / 2).item<int>() == 7);
}

TEST_CASE("one formula gives all gradients of an op of three inputs", "[elementwise]") {
  const ct::ConformanceReport report = ct::check_conformance(k_mul_add, kMulAddTests, {.devices = {ct::cpu}});
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(report.rows.size() == 4);
}

TEST_CASE("results that are not wanted and inputs that are not given", "[elementwise]") {
  namespace map = ct::map;
  // Strided results, rows shorter and longer than a vector, 16-bit values.
  for (const ct::DType t : {ct::f32, ct::f64, ct::bf16})
    for (const std::int64_t n : {3, 70, 1200}) {
      const Tensor g = ct::randn({5, n}).to(t), a = ct::randn({5, n}).to(t), b = ct::randn({n}).to(t);
      const Tensor da = ct::zeros({n, 5}, {.dtype = t}).t(),
                   dc = ct::zeros({5, 2 * n}, {.dtype = t}).slice(1, 0, 2 * n, 2);
      const Tensor *outputs[] = {&da, nullptr, &dc}, *inputs[] = {&g, &a, &b};
      map::run_cpu(map::tiles_of<MulAddGradients>, outputs, inputs, kTwo);
      CHECK(da.to_vector<double>() == (g * b).to_vector<double>());
      CHECK(dc.to_vector<double>() == (g * 2).to_vector<double>());

      const Tensor y = ct::zeros({5, n}, {.dtype = t}), none, one = ct::ones({}, {.dtype = t});
      const Tensor *y_only[] = {&y}, *two[] = {&a, &b, &none};
      map::run_cpu(map::tiles_of<MulAdd>, y_only, two, kTwo);
      const Tensor with_one = ct::zeros({5, n}, {.dtype = t}), *with_one_only[] = {&with_one},
                   *three[] = {&a, &b, &one};
      map::run_cpu(map::tiles_of<MulAdd>, with_one_only, three, kTwo);
      CHECK(y.to_vector<double>() == with_one.to_vector<double>());
    }
}
