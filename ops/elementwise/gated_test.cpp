#include <cotangent/ops/elementwise/gated.h>

#include <cmath>
#include <vector>

#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::check;
using testing::leaf;
using testing::values;
using V = std::vector<double>;

Tensor waves(const Shape& shape, double phase) { return testing::waves(shape, phase, 3); }

Tensor gated_by(int kind, const Tensor& gate, const Tensor& up) {
  return kind == 0 ? swiglu(gate, up) : geglu(gate, up, kind == 1 ? Gelu::exact : Gelu::tanh);
}

}  // namespace

TEST_CASE("gated activations of known values", "[gated]") {
  // silu(ln 3) = ln 3 * 3/4; Phi(1) = 0.8413447460685429.
  const double ln3 = std::log(3.0), phi = 0.84134474606854293;
  check(swiglu(values({3}, {ln3, -ln3, 0}), values({3}, {4, 4, 7})), {3 * ln3, -ln3, 0});
  check(geglu(values({2}, {1, -1}), values({2}, {2, 3})), {2 * phi, -3 * (1 - phi)});
  check(geglu(values({1}, {1}), values({1}, {2}), Gelu::tanh), {1.6823839812165535}, 1e-9);
}

TEST_CASE("the gradients of swiglu", "[gated]") {
  const double ln3 = std::log(3.0);
  Tensor gate = values({2}, {ln3, 0}), up = values({2}, {4, 5});
  gate.set_requires_grad();
  up.set_requires_grad();
  swiglu(gate, up).backward(values({2}, {2, 3}));
  // With s = 3/4 the slope is s (1 + x (1 - s)); at 0 it is 1/2.
  check(gate.grad(), {8 * 0.75 * (1 + ln3 / 4), 7.5});
  check(up.grad(), {2 * 0.75 * ln3, 0});
  REQUIRE(swiglu(gate, up).grad_fn_name() == "swiglu");
}

TEST_CASE("the halves of a projection are read where they lie", "[gated]") {
  for (const int kind : {0, 1, 2})
    for (const std::int64_t n : {5, 24, 700}) {
      Tensor packed = leaf(waves({2, 3, 2 * n}, 1));
      const Tensor g = waves({3, 2, n}, 2).transpose(0, 1);
      gated_by(kind, packed.narrow(-1, 0, n), packed.narrow(-1, n, n)).backward(g);
      Tensor a = leaf(packed.narrow(-1, 0, n).contiguous()), b = leaf(packed.narrow(-1, n, n).contiguous());
      const Tensor y = kind == 0 ? silu(a) * b : gelu(a, kind == 1 ? Gelu::exact : Gelu::tanh) * b;
      check(gated_by(kind, a, b), y.to_vector<double>());
      y.backward(g.contiguous());
      check(packed.grad().narrow(-1, 0, n), a.grad().to_vector<double>(), 1e-13);
      check(packed.grad().narrow(-1, n, n), b.grad().to_vector<double>(), 1e-13);
    }
}

TEST_CASE("gated activations refuse what does not fit", "[gated]") {
  REQUIRE_THROWS_AS(swiglu(values({2}, {1, 2}), values({1}, {1})), ShapeError);
  REQUIRE_THROWS_AS(geglu(values({1}, {1}), values({1}, {1}, f32)), DTypeError);
}

TEST_CASE("every path of the gated activations on CUDA agrees with the CPU", "[gated][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 2e-6 : dtype == f16 ? 2e-3 : 1.6e-2;
    for (const int kind : {0, 1, 2})
      for (const std::int64_t n : {1, 7, 24, 129, 1000, 4096})
        for (const std::int64_t rows : {1, 3, 200}) {
          const Tensor packed = waves({rows, 2 * n}, 1).to(dtype), g = waves({rows, n}, 2).to(dtype);
          for (const bool halves : {false, true}) {
            INFO(dtype << " kind " << kind << " n " << n << " rows " << rows << " halves " << halves);
            const auto run = [&](const Device device, const DType type) {
              Tensor p = leaf(packed.to(type).to(device));
              Tensor gate = p.narrow(-1, 0, n), up = p.narrow(-1, n, n);
              if (!halves) {
                gate = gate.contiguous();
                up = up.contiguous();
              }
              const Tensor y = gated_by(kind, gate, up);
              y.backward(g.to(type).to(device));
              return std::pair{y, p.grad()};
            };
            const auto [want, want_grad] = run(cpu, f64);
            const auto [got, got_grad] = run(cuda(0), dtype);
            check(got, want.to_vector<double>(), tolerance);
            check(got_grad, want_grad.to_vector<double>(), 2 * tolerance);
          }
        }
  }
}

namespace {
// The squares of such gates are infinite in f32.
void check_gates_far_out(Device device) {
  for (int kind = 0; kind < 3; ++kind) {
    const Tensor a = leaf(values({2}, {1e25, -1e25}, f32).to(device));
    gated_by(kind, a, values({2}, {2, 3}, f32).to(device)).backward(values({2}, {1, 1}, f32).to(device));
    CHECK(a.grad().to_vector<double>() == std::vector<double>{2, 0});
  }
}
}  // namespace

TEST_CASE("gates far from 0 are open or shut", "[gated]") { check_gates_far_out(cpu); }
TEST_CASE("gates far from 0 are open or shut, on CUDA", "[gated][cuda]") { check_gates_far_out(cuda(0)); }
