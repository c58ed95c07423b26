#include <cotangent/cotangent.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/testing/conformance.h>

#include <book.h>

#include <14_own_op.h>

#include <cmath>
#include <string>
#include <vector>

// Judges forward(), backward() and rule() of swish as the library's ops are judged, and by a sum that is long.
// wrong: sum += cotangent * at * at * s * (1 - s); ==> sum = C(T(sum + cotangent * at * at * s * (1 - s)));
// wrong: (s + slope * x * ds) ==> s

namespace {

using ct::Tensor;

void infer(ct::Infer& c) {
  CT_CHECK(c.in(0).dim() == 2 && c.in(1).dim() == 1 && c.in(0).shape()[1] == c.in(1).shape()[0],
           ct::ShapeError, c.op.name, "got x ", c.in(0), " and b ", c.in(1),
           "; x [m, n] and b [n] are wanted");
  c.output(c.in(0).shape(), c.in(0).dtype());
}

std::vector<Tensor> composed(std::span<const Tensor> in, ct::AttrsView) {
  return {in[0] * ct::sigmoid(in[0] * in[1])};
}
std::vector<ct::Sample> samples(ct::SampleMaker& make) {
  return {{{make.normal({3, 5}), make.normal({5})}, {}, "3 rows of 5"},
          {{make.normal({1, 1}), make.normal({1})}, {}, "one number"},
          {{make.normal({0, 4}), make.normal({4})}, {}, "no rows"}};
}
std::vector<ct::ErrorSample> wrong(ct::SampleMaker& make) {
  return {{{make.normal({3, 5}), make.normal({4})}, {}, "x [m, n] and b [n] are wanted"}};
}

constexpr ct::InputDef kInputs[] = {{.name = "x", .needs = "x b", .contiguous = true},
                                    {.name = "b", .needs = "x b", .contiguous = true}};
constexpr ct::OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr ct::OpDef kSwish = ct::checked({.name = "swish",
                                          .formula = "y_ij = x_ij s(b_j x_ij)",
                                          .inputs = kInputs,
                                          .outputs = kOutputs,
                                          .infer = infer,
                                          .cpu = {answer::forward, answer::backward},
                                          .rule = answer::rule});

/// 4096 equal terms in bf16: a sum in bf16 would have stopped growing long before.
void long_sum() {
  const std::int64_t m = 4096;
  Tensor x = ct::full({m, 1}, 1, {.dtype = ct::bf16}), b = ct::zeros({1}, {.dtype = ct::bf16});
  b.set_requires_grad();
  const double found = ct::grad({ct::dispatch(kSwish, {x, b})}, {b}, {ct::ones_like(x)})[0].item();
  std::printf("db of %ld equal rows in bf16: yours %g, right %g\n", static_cast<long>(m), found, m * 0.25);
  book::claim(found == m * 0.25, "the sum over the rows is not kept in 16 bits");
}

void judge() {
  const ct::OpTests tests{.op = "swish", .samples = samples, .error_samples = wrong, .reference = composed};
  const ct::ConformanceReport report = ct::check_conformance(kSwish, tests, {.devices = {ct::cpu}});
  std::printf("conformance: %d checks, %zu failures\n", report.checks, report.failures.size());
  for (std::size_t i = 0; i < report.failures.size() && i < 4; ++i)
    std::printf("  %s\n", report.failures[i].c_str());
  book::claim(report.ok(), "kernels and rule conform");
  long_sum();
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
