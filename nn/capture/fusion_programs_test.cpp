#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>

#include "tests/fusion_testing.h"

// Random programs with groups of calls in one pass, and one by one.

using namespace ct;
using namespace ct::testing;

namespace {

Shape shape_of(unsigned number, Device device) {
  return number % 7 == 0 ? Shape{3, 16, 44} : number % 3 == 0 ? Shape{45, 47} : shape_on(device);
}

Tensor by_rows(int which, const Tensor& x, const Tensor& row) {
  switch (which % 10) {
    case 0: return softmax(x, -1);
    case 1: return log_softmax(x, -1);
    case 2: return layer_norm(x);
    case 3: return layer_norm(x, row, row);
    case 4: return rms_norm(x, row);
    case 5: return x - amax(x, -1, true);
    case 6: return x * logsumexp(x, -1, true);
    case 7: return softmax(x, 0);
    case 8: return x + sum(x * 0.01, -1, true) * norm(x * 0.01, 2, -1, true);
    default: return x - mean(x, -1, true);
  }
}

Tensor loss_of(unsigned number, const Tensor& v, const Tensor& target) {
  if (v.shape() != target.shape() || v.dim() < 2) return mean(v);
  const Reduction reduction = number % 2 ? Reduction::mean : Reduction::sum;
  switch (number % 8) {
    case 1:
    case 2: return mse_loss(v, target, {.reduction = reduction});
    case 3: return bce_with_logits(v, sigmoid(target), {.reduction = reduction});
    case 4: return cross_entropy(v, softmax(target, 1), {.reduction = reduction});
    case 5:
    case 6: return cross_entropy(v, argmax(target, 1), {.label_smoothing = number % 3 ? 0 : 0.1});
    default: return number % 16 == 7 ? l1_loss(v, target, {.reduction = reduction}) : mean(v);
  }
}

// A program that a number tells, of formulas, of calls that go over rows, and of what breaks groups: products, views, changes in place, casts.
Make random_program(unsigned number, Device device) {
  return [=] {
    struct Instruction {
      int kind, a, b, which;
      double number;
    };
    std::mt19937 random(number);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const DType dtype = number % 5 == 3 ? f64 : number % 5 == 4 ? (number % 2 ? bf16 : f16) : f32;
    const bool trains = number % 3 != 0;
    const Shape shape = shape_of(number, device);
    const std::int64_t last = shape[shape.size() - 1];
    std::vector<Instruction> list;
    for (int n = 4 + below(14); n > 0; --n)
      list.push_back({below(trains ? 14 : 17), below(5), below(5), below(100), 0.25 + 0.5 * below(4)});
    Program p;
    for (int i = 0; i < 2; ++i) {
      const Tensor t = parameter(device, dtype, 1.0 + i + number, shape);
      p.state.push_back(trains ? t : t.detach());
    }
    const Tensor row = parameter(device, dtype, 3.0 + number, {last}),
                 matrix = (waves({last, last}, 0.1 * number) * 0.1).to(dtype).to(device);
    p.state.push_back(trains ? row : row.detach());
    p.step = [=, state = p.state](const Tensor& given) -> std::vector<Tensor> {
      std::vector<Tensor> v{given.to(dtype).clone(), state[0], state[1], state[2]};
      const auto any = [&](int back) -> const Tensor& {
        return v[v.size() - 1 - static_cast<std::size_t>(back) % v.size()];
      };
      const auto whole = [&](int back) -> const Tensor& {
        const Tensor& t = any(back);
        return t.shape() == shape ? t : v[0];
      };
      for (const Instruction& i : list) {
        const Tensor a = any(i.a), b = any(i.b), w = whole(i.a);
        switch (i.kind) {
          case 0:
          case 1:
          case 2: {
            Tensor (*const unary[])(const Tensor&) = {tanh, sigmoid, relu, silu,  neg,      abs,       square,
                                                      sin,  erf,     sign, floor, softsign, logsigmoid};
            v.push_back(unary[static_cast<std::size_t>(i.which) % std::size(unary)](a));
            break;
          }
          case 3: v.push_back(gelu(a)); break;
          case 4: v.push_back(i.which % 2 ? a * i.number : i.number - a); break;
          case 5: v.push_back(maximum(a, i.number) + a); break;
          case 6: v.push_back(a + b); break;
          case 7: v.push_back(a * b); break;
          case 8: v.push_back(i.which % 2 ? a - b : minimum(a, b)); break;
          case 9: v.push_back(where(gt(a, b), a, b * 0.5)); break;
          case 10: v.push_back(a.to(i.which % 2 ? f32 : bf16).to(dtype)); break;
          case 11: v.push_back(by_rows(i.which, w, state[2])); break;
          case 12: v.push_back(i.which % 2 ? matmul(w, matrix) : dropout(w, 0.25)); break;
          case 13:
            v.push_back(i.which % 2 ? w.reshape({-1}).view(shape)
                                    : w.transpose(-1, -2).contiguous().transpose(-1, -2));
            break;
          default: {
            Tensor t = i.which % 3 == 0   ? w
                       : i.which % 3 == 1 ? w.slice(0, 1, shape[0])
                                          : w.slice(-1, 0, last - 1);
            t.mul_(i.number);
            i.which % 2 ? t.add_(0.25) : t.tanh_();
            if (i.kind == 15) t.sub_(t.detach().clone() * 0.5);
            if (i.kind == 16 && i.which % 3 == 1) t.copy_(w.slice(0, 0, shape[0] - 1) * 0.5);
          }
        }
      }
      std::vector<Tensor> results{v.back() * 0.5, loss_of(number, v.back(), v[0].detach())};
      if (!trains) return results;
      std::vector<Tensor> leaves{state[0], state[1], state[2]};
      if (!results[1].requires_grad()) return results;
      const auto g = grad({results[1]}, leaves, {}, {.allow_unused = true});
      const NoGrad off;
      for (std::size_t k = 0; k < leaves.size(); ++k)
        if (g[k].defined()) leaves[k].mul_(0.99).sub_(g[k] * 0.1);
      return results;
    };
    return p;
  };
}

// COTANGENT_PROGRAMS=10000 runs as many, and 500-600 those.
void check_random(Device device, unsigned count, bool fuses = true) {
  unsigned first = 0, last = count;
  if (const char* const given = std::getenv("COTANGENT_PROGRAMS")) {
    const std::string text(given);
    const std::size_t dash = text.find('-');
    last = static_cast<unsigned>(std::stoul(text.substr(dash == std::string::npos ? 0 : dash + 1)));
    if (dash != std::string::npos) first = static_cast<unsigned>(std::stoul(text));
  }
  const Fusion all("all");
  std::size_t fused = 0;
  for (unsigned number = first; number < last; ++number) {
    const Make make = random_program(number, device);
    const Shape shape = shape_of(number, device);
    std::vector<Tensor> in = inputs_of(device, f32, shape);
    if (number % 11 == 2)
      for (Tensor& x : in) {
        std::vector<double> v = values(x.to(cpu));
        v[0] = NAN, v[1] = INFINITY, v[2] = -0.0, v[3] = -INFINITY;
        x = values(x.shape(), v, f32).to(device);
      }
    const StepRun plain = run(make, in, {.enabled = false}), captured = run(make, in, {});
    fused += captured.account.find("one pass over") != std::string::npos;
    INFO("program " << number << '\n' << captured.account);
    for (std::size_t i = 0; i < in.size(); ++i) REQUIRE((captured.steps[i] == plain.steps[i]));
  }
  CHECK((fuses ? fused > (last - first) / 4 : fused == 0));
}

}  // namespace

TEST_CASE("Random captured programs end in the bits of plain ones", "[capture][fuse]") {
  check_random(cpu, 2000);
}
TEST_CASE("Random captured programs end in the bits of plain ones on a GPU", "[capture][fuse][cuda]") {
  check_random(cuda(0), 60);
}
TEST_CASE("Random captured programs on a GPU without a compiler end in the bits of plain ones",
          "[capture][fuse][cuda]") {
  const NoCompiler none;
  check_random(cuda(0), 60, false);
}
