// An op whose result's shape only its values tell, as nonzero's and unique's: the positive elements of x, in their order.

#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/testing/conformance.h>

#include <algorithm>
#include <vector>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using V = std::vector<double>;

void infer(Infer& infer) { infer.output_later(infer.in(0).dtype()); }

template <class Run>
void visit(DType dtype, const Run& run) {
  dtype == f64 ? run(double{}) : run(float{});
}

void forward(const Forward& f) {
  const Tensor& x = f.in(0);
  visit(x.dtype(), [&]<class T>(T) {
    std::vector<T> kept;
    for (std::int64_t i = 0; i < x.numel(); ++i)
      if (x.data<T>()[i] > 0) kept.push_back(x.data<T>()[i]);
    std::ranges::copy(kept, f.allocate_out(0, {static_cast<std::int64_t>(kept.size())}).data<T>());
  });
}

void backward(const Backward& b) {
  const Tensor& x = b.in(0);
  const Tensor& dx = b.grad_in(0);
  visit(x.dtype(), [&]<class T>(T) {
    const T* g = b.grad().data<T>();
    for (std::int64_t i = 0; i < x.numel(); ++i) dx.data<T>()[i] = x.data<T>()[i] > 0 ? *g++ : 0;
  });
}

std::vector<Tensor> reference(std::span<const Tensor> inputs, AttrsView) {
  V kept;
  for (const double v : inputs[0].to_vector<double>())
    if (v > 0) kept.push_back(v);
  return {testing::values({static_cast<std::int64_t>(kept.size())}, kept)};
}

std::vector<Sample> samples(SampleMaker& make) {
  return {{{make.normal({3, 5})}, {}, "a matrix"},
          {{make.normal({0, 2})}, {}, "empty"},
          {{make.values({2}, {-1, -2})}, {}, "none is positive"}};
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "x", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr OpDef k_positive = checked({.name = "user_positive",
                                      .formula = "the elements of x that are above 0",
                                      .inputs = kInputs,
                                      .outputs = kOutputs,
                                      .infer = infer,
                                      .cpu = {forward, backward},
                                      .no_rule = "it stands in a test",
                                      .dtypes = dtype_bit(f32) | dtype_bit(f64)});
constexpr OpTests kTests{"user_positive", samples, nullptr, reference};

Tensor positive(const Tensor& x) { return dispatch(k_positive, {x}); }

}  // namespace

TEST_CASE("an op may tell its result's shape", "[user_op]") {
  const ConformanceReport report = check_conformance(k_positive, kTests, {.devices = {cpu}});
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(report.rows.size() == 2);

  const testing::In in{GENERATE(f64, f32)};
  const Tensor x = testing::leaf(in.values({2, 3}, {-1, 2, 0, 4, -5, 6}));
  const Tensor y = positive(x);
  CHECK(y.shape() == Shape{3});
  CHECK(y.dtype() == in.dtype);
  in.check(y, {2, 4, 6});
  y.backward(in.values({3}, {10, 20, 30}));
  in.check(x.grad(), {0, 10, 0, 20, 0, 30});
  CHECK(positive(in.values({2}, {-1, 0})).shape() == Shape{0});
}

TEST_CASE("what tells its result's shape does not run in place", "[user_op]") {
  Tensor x = testing::values({2}, {1, 2});
  CHECK_THROWS_AS(dispatch_inplace(k_positive, x, {}), ShapeError);
  CHECK(x.to_vector<double>() == V{1, 2});
}
