#include <cotangent/cotangent.h>

#include <book.h>

#include <11c_fuse.h>

#include <cmath>
#include <vector>

// Judges store(), load() and load_back() inside of the products of two layers, by the library's gradients.
// wrong: return sum + bias; ==> return (sum + bias) / (1 + std::exp(-sum - bias));
// wrong: (1 + kept * (1 - p)) ==> (1 + kept * p)

namespace {

using Size = std::size_t;

/// c(i, j) = sum_p a(i, p) b(p, j)
template <class A, class B, class C>
void product(Size m, Size n, Size k, A&& a, B&& b, C&& c) {
  for (Size i = 0; i < m; ++i)
    for (Size j = 0; j < n; ++j) {
      double sum = 0;
      for (Size p = 0; p < k; ++p) sum += a(i, p) * b(p, j);
      c(i, j, sum);
    }
}

struct Matrix {
  Size columns;
  std::vector<double> values;
  Matrix(Size rows, Size columns, double pace) : columns(columns), values(rows * columns) {
    for (Size i = 0; i < values.size(); ++i) values[i] = 2 * std::sin(pace * static_cast<double>(i + 1));
  }
  double& operator()(Size i, Size j) { return values[i * columns + j]; }
  ct::Tensor tensor() const {
    return ct::from_vector(values, {static_cast<std::int64_t>(values.size() / columns),
                                    static_cast<std::int64_t>(columns)})
        .set_requires_grad();
  }
};

void judge() {
  const Size m = 5, k = 4, n = 6, out = 3;
  Matrix x(m, k, 0.7), w(k, n, 1.3), b(1, n, 0.9), v(n, out, 1.7), dz(m, out, 0.4);
  Matrix kept(m, n, 0), z(m, out, 0), g(m, n, 0), dx(m, k, 0), dw(k, n, 0), dv(n, out, 0);
  const auto y = [&](Size i, Size j) { return answer::load(kept(i, j)); };
  const auto back = [&](Size i, Size j) { return answer::load_back(g(i, j), kept(i, j)); };
  product(m, n, k, x, w, [&](Size i, Size j, double s) { kept(i, j) = answer::store(s, b(0, j)); });
  product(m, out, n, y, v, [&](Size i, Size j, double s) { z(i, j) = s; });
  product(
      m, n, out, dz, [&](Size p, Size j) { return v(j, p); }, [&](Size i, Size j, double s) { g(i, j) = s; });
  product(
      n, out, m, [&](Size i, Size p) { return y(p, i); }, dz,
      [&](Size i, Size j, double s) { dv(i, j) = s; });
  product(
      m, k, n, back, [&](Size p, Size j) { return w(j, p); },
      [&](Size i, Size j, double s) { dx(i, j) = s; });
  product(
      k, n, m, [&](Size i, Size p) { return x(p, i); }, back,
      [&](Size i, Size j, double s) { dw(i, j) = s; });

  const ct::Tensor tx = x.tensor(), tw = w.tensor(), tv = v.tensor();
  const ct::Tensor theirs = ct::matmul(ct::silu(ct::matmul(tx, tw) + b.tensor().detach()), tv);
  ct::sum(theirs * dz.tensor().detach()).backward();
  const auto same = [](const char* name, Matrix& ours, const ct::Tensor& wanted) {
    const double off = ct::amax(ct::abs(ours.tensor().detach() - wanted)).item();
    std::printf("%-2s is off by %.1e\n", name, off);
    book::claim(off < 1e-10, std::string(name) + " is the library's");
  };
  same("z", z, theirs.detach());
  same("dv", dv, tv.grad());
  same("dx", dx, tx.grad());
  same("dw", dw, tw.grad());
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
