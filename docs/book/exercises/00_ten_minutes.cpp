#include <cotangent/cotangent.h>

#include <book.h>

#include <00_ten_minutes.h>

// Judges parameters_of() by modules of the library.
// wrong: (hidden * out + out) ==> hidden * out
// wrong: (in * hidden + hidden) ==> in * hidden

namespace {

void judge() {
  const std::int64_t sizes[][3] = {{2, 16, 1}, {3, 5, 7}, {784, 128, 10}};
  for (const auto& [in, hidden, out] : sizes) {
    const ct::nn::Sequential model(ct::nn::Linear(in, hidden), ct::nn::Tanh(), ct::nn::Linear(hidden, out));
    long long theirs = 0;
    for (const ct::Tensor& p : model.parameters()) theirs += p.numel();
    const auto ours = static_cast<long long>(answer::parameters_of(in, hidden, out));
    std::printf("%3lld to %3lld to %2lld: yours %lld, the module's %lld\n", static_cast<long long>(in),
                static_cast<long long>(hidden), static_cast<long long>(out), ours, theirs);
    book::claim(ours == theirs, "the numbers are equal");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
