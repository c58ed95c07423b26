#include <cotangent/cotangent.h>

#include <book.h>

#include <21_convolution.h>

#include <string>
#include <vector>

// Judges backward() of a depthwise convolution by the library's gradients, over sizes, strides and paddings.
// wrong: dx[a] += g[c] * w[b] ==> dx[a] = g[c] * w[b]
// wrong: dw[b] += g[c] * x[a] ==> dw[b] += g[c] * x[c % x.size()]

namespace {

using ct::Tensor;

void check(const answer::Sizes& s) {
  const std::string of = " of x [" + std::to_string(s.N) + ", " + std::to_string(s.C) + ", " +
                         std::to_string(s.H) + ", " + std::to_string(s.W) + "], filters of " +
                         std::to_string(s.k) + ", stride " + std::to_string(s.stride) + ", padding " +
                         std::to_string(s.pad);
  const Tensor x = ct::randn({s.N, s.C, s.H, s.W}, {.dtype = ct::f64}).set_requires_grad();
  const Tensor w = ct::randn({s.C, 1, s.k, s.k}, {.dtype = ct::f64}).set_requires_grad();
  const Tensor y = ct::conv2d(x, w, {}, {.stride = s.stride, .padding = s.pad, .groups = s.C});
  const Tensor g = ct::randn(y.shape(), {.dtype = ct::f64});
  const std::vector<Tensor> wanted = ct::grad({y}, {x, w}, {g});
  const answer::Numbers xs = x.detach().to_vector<double>(), ws = w.detach().to_vector<double>();
  answer::Numbers dx(xs.size()), dw(ws.size());
  const auto close = [](const answer::Numbers& found, const Tensor& right) {
    return found.size() == static_cast<std::size_t>(right.numel()) &&
           (found.empty() ||
            ct::amax(ct::abs(ct::from_vector(found).reshape(right.shape()) - right)).item() < 1e-10);
  };
  book::claim(close(answer::forward(s, xs, ws), y.detach()), "y" + of + " is the library's");
  answer::backward(s, g.to_vector<double>(), xs, ws, dx, dw);
  book::claim(close(dw, wanted[1]), "dw" + of + " is the library's");
  book::claim(close(dx, wanted[0]), "dx" + of + " is the library's");
  std::printf("right:%s\n", of.c_str());
}

void judge() {
  ct::manual_seed(1);
  check({1, 1, 5, 5, 3, 1, 0});
  check({1, 1, 5, 5, 3, 1, 1});
  check({2, 3, 7, 6, 3, 1, 1});
  check({2, 3, 8, 9, 3, 2, 1});
  check({1, 2, 9, 7, 5, 3, 2});
  check({3, 2, 4, 4, 1, 2, 0});
  check({1, 2, 2, 2, 5, 1, 2});
}

}  // namespace

int main() { return book::run(judge); }
