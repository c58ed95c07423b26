#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

// A formula of elementwise steps in one pass over memory: between its steps, an element's values lie in registers.

namespace answer {

/// A step: '+' a + b, '*' a b, 't' tanh(a). Values are numbered: the inputs first, then what each step gives.
struct Step {
  char op;
  std::size_t a, b;
};

/// A matrix, or with `broadcast` a row that stands for every row of one: its stride from row to row is 0.
struct Input {
  std::vector<double> numbers;
  bool broadcast;
  mutable long reads = 0;

  std::size_t place(std::size_t i, std::size_t j, std::size_t columns) const {
    return (broadcast ? 0 : i * columns) + j;
  }
  double read(std::size_t i, std::size_t j, std::size_t columns) const {
    ++reads;
    return numbers[place(i, j, columns)];
  }
};

/// The values of one element: its inputs, and what each step gives of them. The last one is y.
inline std::vector<double> element(const std::vector<Step>& steps, const std::vector<Input>& inputs,
                                   std::size_t i, std::size_t j, std::size_t columns) {
  std::vector<double> v;
  for (const Input& input : inputs) v.push_back(input.read(i, j, columns));
  for (const Step& s : steps)
    v.push_back(s.op == '+' ? v[s.a] + v[s.b] : s.op == '*' ? v[s.a] * v[s.b] : std::tanh(v[s.a]));
  return v;
}

/// y [rows, columns] in one pass.
inline std::vector<double> forward(const std::vector<Step>& steps, const std::vector<Input>& inputs,
                                   std::size_t rows, std::size_t columns) {
  std::vector<double> y;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) y.push_back(element(steps, inputs, i, j, columns).back());
  return y;
}

/// The gradient of each input, as large as the input, from the cotangent g of y. In one pass: each element of an input is
/// read once, and values between are computed again, not kept.
inline std::vector<std::vector<double>> backward(const std::vector<Step>& steps,
                                                 const std::vector<Input>& inputs,
                                                 const std::vector<double>& g, std::size_t rows,
                                                 std::size_t columns) {
  std::vector<std::vector<double>> result;
  for (const Input& input : inputs) result.emplace_back(input.numbers.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      const std::vector<double> v = element(steps, inputs, i, j, columns);
      std::vector<double> d(v.size());  // the cotangent of each value
      d.back() = g[i * columns + j];
      for (std::size_t n = steps.size(); n-- > 0;) {
        const Step& s = steps[n];
        const double cotangent = d[inputs.size() + n];
        d[s.a] = cotangent;  // yours: each op has derivatives of its own, and a value may be used twice
      }
      for (std::size_t k = 0; k < inputs.size(); ++k)
        result[k][inputs[k].place(i, j, columns)] = d[k];  // yours: of a row that stands for many
    }
  return result;
}

}  // namespace answer
