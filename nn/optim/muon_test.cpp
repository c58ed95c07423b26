#include <cmath>
#include <memory>

#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

namespace {

// Shapes of MATRICES in tests/golden/make_optim.py.
std::vector<Tensor> matrices(DType dtype, Device device = cpu) {
  std::vector<Tensor> params;
  for (const Shape& shape : {Shape{12, 4}, Shape{4, 9}, Shape{8, 3}})
    params.push_back(optim_initial(shape, static_cast<std::int64_t>(params.size()), dtype, device));
  return params;
}

// Gradients that are no multiples of one row: what is rounded is not the whole of a direction.
void set_gradients(std::vector<Tensor>& params, std::int64_t t) {
  for (std::size_t k = 0; k < params.size(); ++k) {
    Tensor& p = params[k];
    std::vector<double> values;
    for (std::int64_t i = 0; i < p.numel(); ++i)
      values.push_back(
          static_cast<double>(
              (i * i * 31 + i * 7919 + t * 104729 + static_cast<std::int64_t>(k) * 1299709) % 2003 - 901) /
          1024);
    const bool none = k == 2 && t % 3 == 1;
    p.set_grad(none ? Tensor() : from_vector(values, p.shape(), {.dtype = p.dtype(), .device = p.device()}));
  }
}

std::unique_ptr<Muon> golden_muon(const std::vector<Tensor>& p, DType ns_dtype) {
  const MuonOptions first{.lr = 0.02, .weight_decay = 0.1, .momentum = 0.9, .ns_dtype = ns_dtype};
  MuonOptions second = first;
  second.nesterov = false;
  second.adjust_lr = MuonLr::match_rms_adamw;
  return std::make_unique<Muon>(
      std::vector<ParamGroup<MuonOptions>>{{{p[0]}, first}, {{p[1], p[2]}, second}});
}

std::vector<double> after(std::int64_t steps, DType dtype, DType ns_dtype, Device device = cpu) {
  std::vector<Tensor> params = matrices(dtype, device);
  const auto muon = golden_muon(params, ns_dtype);
  for (std::int64_t t = 1; t <= steps; ++t) {
    set_gradients(params, t);
    muon->step();
  }
  return flat_values(params);
}

// Newton and Schulz's own coefficients, which go to exactly 1.
constexpr std::array<double, 3> kExact = {1.875, -1.25, 0.375};

}  // namespace

TEST_CASE("Muon steps by the orthogonal matrix that is nearest to the gradient", "[optim]") {
  for (const Shape& shape : {Shape{3, 7}, Shape{7, 3}, Shape{4, 4}, Shape{1, 5}}) {
    Tensor p = optim_initial(shape, 1, f64);
    const Tensor before = p.detach().clone(), grad = optim_gradient(shape, 2, 1, f64);
    p.set_grad(grad);
    Muon muon({p}, {.lr = 1, .weight_decay = 0, .ns_coefficients = kExact, .ns_steps = 90, .ns_dtype = f64});
    muon.step();
    const double factor =
        std::sqrt(std::max(1.0, static_cast<double>(shape[0]) / static_cast<double>(shape[1])));
    Tensor step = (before - p.detach()) / factor, g = grad;
    if (shape[0] > shape[1]) step = step.transpose(0, 1), g = g.transpose(0, 1);
    CHECK(allclose(matmul(step, step.transpose(0, 1)), eye(step.size(0), {.dtype = f64}), 0, 1e-9));
    // The polar factor: step^T g is symmetric, and positive, as its trace is the sum of g's singular values.
    const Tensor along = matmul(step, g.transpose(0, 1));
    CHECK(allclose(along, along.transpose(0, 1), 0, 1e-9));
    CHECK(along.diagonal().sum().item() > norm(g).item() - 1e-9);
  }
}

TEST_CASE("Muon by hand", "[optim]") {
  // A matrix of one number is its sign, and y <- 1.5 y.
  Tensor p = from_vector(std::vector<double>{4}, {1, 1}, {.dtype = f64, .requires_grad = true});
  p.set_grad(from_vector(std::vector<double>{-3}, {1, 1}, {.dtype = f64}));
  Muon muon(
      {p}, {.lr = 0.5, .weight_decay = 0.25, .ns_coefficients = {1.5, 0, 0}, .ns_steps = 1, .ns_dtype = f64});
  muon.step();
  CHECK(p.item() == Approx(4 * (1 - 0.125) + 0.5 * 1.5).epsilon(1e-14));
  CHECK(muon.state_dict().at("0.0.momentum_buffer").item() == Approx(0.05 * -3).epsilon(1e-14));
  // The momentum is still below 0, -0.15 + 0.05 (2 + 0.15), and with Nesterov's share of the gradient above.
  p.set_grad(from_vector(std::vector<double>{2}, {1, 1}, {.dtype = f64}));
  muon.step();
  CHECK(p.item() == Approx(4.25 * 0.875 - 0.75).epsilon(1e-14));
  // A gradient of nothing is divided by eps.
  Tensor q = zeros({2, 3}, {.requires_grad = true});
  q.set_grad(zeros({2, 3}));
  Muon rest({q});
  rest.step();
  CHECK(q.to_vector<float>() == std::vector<float>(6, 0.0f));
  Tensor none = zeros({0, 3}, {.requires_grad = true});
  none.set_grad(zeros({0, 3}));
  Muon({none}).step();
}

TEST_CASE("Muon in bf16 is near to Muon in f64", "[optim]") {
  CHECK(worst_each(after(1, f32, bf16), after(1, f64, f64), 1) < 2e-3);
  CHECK(worst_each(after(100, f32, bf16), after(100, f64, f64), 1) < 2e-2);
  CHECK(worst_each(after(100, f32, f32), after(100, f64, f64), 1) < 1e-5);
  // Masters collect what bf16 parameters would lose.
  CHECK(worst_each(after(100, bf16, bf16), after(100, f64, f64), 1) < 3e-2);
}

TEST_CASE("Muon equals PyTorch's", "[optim]") {
  const auto check = [](const char* run, DType dtype, DType ns_dtype, double tolerance) {
    const std::string key = std::string(run) + '.' + std::string(ct::name(dtype)) + ".steps";
    const Tensor& steps = optim_golden().at(key);
    std::int64_t row = 0;
    for (const std::int64_t t : {1, 2, 3, 8, 32, 100}) {
      INFO(key << ", step " << t);
      CHECK(worst_each(after(t, dtype, ns_dtype), steps.select(0, row++).to_vector<double>(), 1) <=
            tolerance);
    }
  };
  check("muon_exact", f64, f64, 1e-10);
  check("muon_exact", f32, f32, 1e-5);
  // Products are rounded to bf16 in another order: each step differs by about a hundredth of itself.
  check("muon", f32, bf16, 2e-2);
  CHECK(after(3, f32, bf16) == after(3, f32, bf16));
}

TEST_CASE("Muon's state comes back, and wrong options do not", "[optim]") {
  std::vector<Tensor> params = matrices(f32), others = matrices(f32);
  const auto muon = golden_muon(params, bf16), resumed = golden_muon(others, bf16);
  for (std::int64_t t = 1; t <= 6; ++t) {
    if (t == 4) {
      for (std::size_t i = 0; i < params.size(); ++i) others[i].detach().copy_(params[i].detach());
      resumed->load_state_dict(muon->state_dict());
    }
    set_gradients(params, t);
    set_gradients(others, t);
    muon->step();
    if (t >= 4) resumed->step();
  }
  CHECK(all_bytes(params) == all_bytes(others));

  const Tensor vector = zeros({3}, {.requires_grad = true}), matrix = zeros({3, 3}, {.requires_grad = true});
  CHECK_THROWS_AS(Muon({vector}), ShapeError);
  CHECK_THROWS_AS(muon->add_param_group({{vector}, {}}), ShapeError);
  CHECK(muon->group_count() == 2);
  CHECK_THROWS_AS(Muon({matrix}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(Muon({matrix}, {.weight_decay = -1}), ValueError);
  CHECK_THROWS_AS(Muon({matrix}, {.momentum = 1}), ValueError);
  CHECK_THROWS_AS(Muon({matrix}, {.eps = -1}), ValueError);
  CHECK_THROWS_AS(Muon({matrix}, {.ns_steps = 100}), ValueError);
  CHECK_THROWS_AS(Muon({matrix}, {.ns_coefficients = {1, std::nan(""), 1}}), ValueError);
  CHECK_THROWS_AS(Muon({matrix}, {.ns_dtype = i64}), DTypeError);
}

TEST_CASE("Muon on a GPU", "[optim][cuda]") {
  CHECK(worst_each(after(20, f64, f64, cuda(0)), after(20, f64, f64), 1) < 1e-10);
  CHECK(worst_each(after(20, f32, bf16, cuda(0)), after(20, f64, f64), 1) < 1e-2);
}
