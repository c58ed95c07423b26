#pragma once

// Prelude of the code in docs/pytorch.md: its variables, and functions that compare a result with numbers.

#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

using namespace ct;

struct Cube : Function<Cube> {
  static std::vector<Tensor> forward(FunctionContext& context, const std::vector<Tensor>& in) {
    context.save_for_backward({in[0]});
    return {in[0] * in[0] * in[0]};
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& g) {
    const Tensor x = context.saved()[0];
    return {g[0] * 3 * x * x};
  }
};

/// Each row begins with these.
struct Given {
  Tensor x = tensor({{-1.f, 0.f, 2.f}, {3.f, -4.f, 0.5f}});
  Tensor y = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  Tensor z = tensor({1.f, std::numeric_limits<float>::quiet_NaN(), 3.f});
  Tensor p = tensor({0.25f, 0.5f});
  Tensor u = tensor({1.f, -1.f});
  Tensor i = tensor({2, 0}, {.dtype = i64});
  Tensor w = tensor({{1.f, 2.f}, {3.f, 4.f}}).set_requires_grad(true);
  Tensor loss = sum(w * w);
  Tensor image = arange(16, {.dtype = f32}).reshape({1, 1, 4, 4});
  std::vector<float> values{1, 2, 3};
  /// Parameters with a gradient: {1, 2} and {3, 4}.
  std::vector<Tensor> params{tensor({1.f, 2.f}).set_requires_grad(true)};
  static Tensor cube(const Tensor& t) { return t * t * t; }
  static Tensor sum_of_cubes(const Tensor& t) { return sum(t * t * t); }

  Given() { sum(params[0] * tensor({3.f, 4.f})).backward(); }
};

inline int wrong = 0;

/// Numbers of a result: a tensor's elements, those of several tensors one after the other.
template <class T>
std::vector<double> numbers(const T& got, std::size_t count) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return got.to(f64).template to_vector<double>();
  } else if constexpr (std::is_arithmetic_v<T>) {
    return {static_cast<double>(got)};
  } else if constexpr (std::is_pointer_v<T>) {
    return {got, got + count};
  } else {
    std::vector<double> all;
    const auto add = [&](const auto& part) {
      for (double number : numbers(part, count)) all.push_back(number);
    };
    if constexpr (requires { got.second; }) {
      add(got.first);
      add(got.second);
    } else {
      for (const auto& part : got) add(part);
    }
    return all;
  }
}

template <class T>
void same(const char* name, const T& got, const std::vector<double>& want) {
  const std::vector<double> have = numbers(got, want.size());
  bool right = have.size() == want.size();
  for (std::size_t k = 0; right && k < want.size(); ++k)
    right = std::abs(have[k] - want[k]) <= 1e-5 * (1 + std::abs(want[k]));
  if (right) return;
  wrong = 1;
  std::printf("%s gives", name);
  for (double number : have) std::printf(" %g", number);
  std::printf("\n");
}

/// Runs a row; what it throws is wrong.
template <class Row>
void guarded(const char* name) try {
  Row().run();
} catch (const std::exception& error) {
  wrong = 1;
  std::printf("%s throws: %s\n", name, error.what());
}
