#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/indexing/scatter_reduce.h>

#include <vector>

#include "tests/catch.h"
#include "tests/op_testing.h"
#include "tests/scatter_reduce_testing.h"

using namespace ct;

namespace {

using V = std::vector<double>;
using R = ScatterReduce;
using testing::Outcome;
using testing::outcome;
using testing::word;

// PyTorch 2.15's results.
struct Case {
  ScatterReduce kind;
  bool self;
  V y, dx, ds;
};
const Case kScattered[] = {
    {R::sum,
     true,
     {1, 5, 17, 4, 6, 12.5},
     {1, 10, 100, 1000, 2, 20},
     {1, 2, 100, 1, 10, 20, 1, 2, 20, 1, 2, 100}},
    {R::sum,
     false,
     {0, 3, 14, 4, 1, 6.5},
     {0, 0, 0, 1000, 0, 0},
     {1, 2, 100, 1, 10, 20, 1, 2, 20, 1, 2, 100}},
    {R::prod,
     true,
     {0, 6, 147, 4, 0, 18},
     {0, 30, 4900, 1000, 0, 60},
     {0, 0, 2100, -16, 20, 720, 0, 0, 60, 0, -20, 2100}},
    {R::prod,
     false,
     {0, 3, 49, 4, 0, 3},
     {0, 0, 0, 1000, 0, 0},
     {0, 0, 700, -16, 10, 120, 0, 0, 10, 0, -4, 700}},
    {R::mean,
     true,
     {0.2, 2.5, 17. / 3, 4, 1.5, 12.5 / 3},
     {0.2, 5, 100. / 3, 1000, 0.5, 20. / 3},
     {0.2, 0.5, 100. / 3, 0.2, 5, 20. / 3, 0.2, 0.5, 20. / 3, 0.2, 0.5, 100. / 3}},
    {R::mean,
     false,
     {0, 3, 7, 4, 1. / 3, 3.25},
     {0, 0, 0, 1000, 0, 0},
     {0.25, 2. / 3, 50, 0.25, 10, 10, 0.25, 2. / 3, 10, 0.25, 2. / 3, 50}},
    {R::amax, true, {2, 3, 7, 4, 5, 6}, {0, 0, 0, 1000, 2, 10}, {0.5, 0, 50, 0, 10, 0, 0.5, 0, 10, 0, 0, 50}},
    {R::amax, false, {2, 3, 7, 4, 2, 6}, {0, 0, 0, 1000, 0, 0}, {0.5, 0, 50, 0, 10, 0, 0.5, 2, 20, 0, 0, 50}},
    {R::amin, true, {-4, 2, 3, 4, -1, 0.5}, {0, 10, 100, 1000, 0, 0}, {0, 2, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0}},
    {R::amin,
     false,
     {-4, 3, 7, 4, -1, 0.5},
     {0, 0, 0, 1000, 0, 0},
     {0, 2, 50, 0, 10, 20, 0, 0, 0, 1, 0, 50}}};
const Case kRows[] = {
    {R::prod, true, {0, 5, 2, 3, 0, 105}, {4, 10, 3, 4, 0, 126}, {0, 210, 0, 2, 40, 90}},
    {R::prod, false, {4, 5, 2, 3, 0, 21}, {0, 0, 3, 4, 0, 0}, {0, 42, 1, 2, 10, 18}},
    {R::mean, true, {2, 3, 2, 3, 2, 5}, {0.5, 1, 3, 4, 5. / 3, 2}, {5. / 3, 2, 0.5, 1, 5. / 3, 2}},
    {R::mean, false, {4, 5, 2, 3, 1, 5}, {0, 0, 3, 4, 0, 0}, {2.5, 3, 1, 2, 2.5, 3}},
    {R::amax, true, {4, 5, 2, 3, 4, 7}, {0, 0, 3, 4, 5, 0}, {0, 0, 1, 2, 0, 6}},
    {R::amax, false, {4, 5, 2, 3, 2, 7}, {0, 0, 3, 4, 0, 0}, {5, 0, 1, 2, 0, 6}},
    {R::amin, true, {0, 1, 2, 3, 0, 3}, {1, 2, 3, 4, 0, 0}, {0, 6, 0, 0, 5, 0}},
    {R::amin, false, {4, 5, 2, 3, 0, 3}, {0, 0, 3, 4, 0, 0}, {0, 6, 1, 2, 5, 0}}};

// Each case by its own kernels, in a dtype, on a device.
void check_cases(DType dtype, Device device) {
  const double tolerance = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3;
  const auto on = [&](const Tensor& t) { return t.to(device, is_floating(t.dtype()) ? dtype : t.dtype()); };
  const auto judge = [&](const char* what, const Case& c, const Outcome& o) {
    INFO(what << ' ' << word(c.kind) << (c.self ? "" : " without self") << " in " << name(dtype));
    testing::check(o.y, c.y, tolerance);
    testing::check(o.dx, c.dx, tolerance);
    testing::check(o.ds, c.ds, tolerance);
  };
  const Tensor index = on(tensor({{0, 1, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0}}));
  for (const Case& c : kScattered)
    judge("scatter_reduce", c,
          outcome([&](const Tensor& x,
                      const Tensor& s) { return scatter_reduce(x, 0, index, s, c.kind, c.self); },
                  on(tensor({{1., 2., 3.}, {4., 5., 6.}})),
                  on(tensor({{2., -1., 7.}, {0., 3., 0.5}, {2., 2., 6.}, {-4., 0., 7.}})),
                  on(tensor({{1., 10., 100.}, {1000., 2., 20.}}))));
  const Tensor rows = on(tensor({2, 0, 2}).to(i32));
  for (const Case& c : kRows)
    judge(
        "index_reduce", c,
        outcome([&](const Tensor& x, const Tensor& s) { return index_reduce(x, 0, rows, s, c.kind, c.self); },
                on(tensor({{0., 1.}, {2., 3.}, {4., 5.}})), on(tensor({{2., 3.}, {4., 5.}, {0., 7.}})),
                on(tensor({{1., 2.}, {3., 4.}, {5., 6.}}))));
}

}  // namespace

TEST_CASE("scatter_reduce and index_reduce give PyTorch's numbers", "[indexing]") {
  for (const DType dtype : {f64, f32, f16, bf16}) check_cases(dtype, cpu);
}

TEST_CASE("scatter_reduce and index_reduce give PyTorch's numbers on CUDA", "[indexing][cuda]") {
  for (const DType dtype : {f64, f32, f16, bf16}) check_cases(dtype, cuda(0));
}
