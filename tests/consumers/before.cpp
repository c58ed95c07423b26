// A program of 2026-11-22: it includes every header at the path that it had then (a file that run.sh makes of
// cmake/CotangentMoved.cmake), and uses what they declared.
#include "old_paths.h"

#include <cotangent/cotangent.h>

// Called by its namespace a function of the program's own goes before the one that has come into ct:: since.
namespace mine {
bool equal(const ct::Tensor& a, const ct::Tensor& b) { return a.shape() == b.shape(); }
}  // namespace mine

int main() {
  ct::Generator generator(1);
  const ct::Tensor x = ct::randn({2, 4}, {.dtype = ct::f64}, generator);
  const ct::Tensor rows = ct::embedding(ct::tensor({1, 0, 1}, {.dtype = ct::i64}), x);
  const auto [values, indices] = ct::topk(rows, 2);
  const ct::nn::LayerNorm norm(4);
  const auto loss = [](const ct::Tensor& a) {
    return ct::mse_loss(ct::relu(ct::where(ct::gt(a, ct::zeros_like(a)), a, a)), a);
  };
  const bool right = mine::equal(values, indices) && values.shape() == ct::Shape{3, 2} &&
                     indices.dtype() == ct::i64 && norm(ct::ones({2, 4})).shape() == ct::Shape{2, 4} &&
                     ct::gradcheck(loss, {ct::ones({3}, {.dtype = ct::f64})}).ok;
  return right ? 0 : 1;
}
