// Values that gdb is to show (tests/checks/gdb.sh).
#include <cotangent/cotangent.h>

#include <cotangent/core/base/inline_vector.h>

namespace {
[[gnu::noinline]] void stop() { asm volatile(""); }
}  // namespace

int main() {
  using namespace ct;
  const Tensor x = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}).view({2, 3});
  const Tensor turned = x.t(), part = x.slice(1, 1, 3), half = x.to(f16), low = part.to(bf16), none;
  const Tensor large = arange(0, 100, 1, {.dtype = i64}), mask = x > 2,
               leaf = ones({2}, {.requires_grad = true});
  const Ref<Storage> storage = x.impl()->storage;
  InlineVector<int, 2> list;
  for (const int i : {7, 8, 9}) list.emplace_back(i);
  [[maybe_unused]] const Shape shape = x.shape();
  stop();
}
