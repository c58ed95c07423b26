#include <book.h>

#include <18_one_gpu.h>

#include <cmath>
#include <string>
#include <vector>

// Judges back() on chains of many lengths: gradients to the bit, the values that are held, and the layers that are computed.
// wrong: first + (last - first + 1) / 2 ==> last - 1
// wrong: (last - first + 1) / 2 ==> 1

namespace {

using book::Chain;

void check(int n) {
  Chain all(n), yours(n);
  const Chain::Value a = all.input(0.5), x = yours.input(0.5);
  std::vector<Chain::Value> inputs{a};
  for (int i = 0; i + 1 < n; ++i) inputs.push_back(all.forward(i, inputs.back()));
  double g = 1;
  for (int i = n; i-- > 0;) g = all.backward(i, inputs[static_cast<std::size_t>(i)], g);
  const double dx = answer::back(yours, x, 0, n, 1);

  const int depth = static_cast<int>(std::ceil(std::log2(n)));
  const int held = depth + 3, forwards = n * (depth + 1) / 2;
  std::printf("%5d layers: %3d values held, at most %2d wanted; %6d computed, at most %5d wanted\n", n,
              yours.most_held, held, yours.forwards, forwards);
  const std::string of = " of a chain of " + std::to_string(n);
  book::claim(yours.backwards == n, "each layer" + of + " goes back once");
  book::claim(dx == g, "the cotangent of x" + of + " has its bits");
  book::claim(yours.dw == all.dw, "the gradients" + of + " have their bits");
  book::claim(yours.most_held <= held, "not more than log2 n + 3 values" + of + " are held");
  book::claim(yours.forwards <= forwards, "not more than n (log2 n + 1) / 2 layers" + of + " are computed");
}

void judge() {
  for (const int n : {1, 2, 3, 4, 7, 16, 33, 100, 1000}) check(n);
  std::printf("right: 1000 layers, and a dozen values\n");
}

}  // namespace

int main() { return book::run(judge); }
