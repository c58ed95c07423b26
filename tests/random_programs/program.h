#pragma once

#include <cotangent/cotangent.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Random programs of ops, made from a number: values, gradients and second derivatives of a program are held to each other
// here (programs_test.cpp), and to PyTorch's where that is installed (replay.py). README.md has the commands.

namespace ct::random_programs {

/// Result of a call: a tensor or several.
struct Results {
  std::vector<Tensor> list;
  Results(Tensor t) : list{std::move(t)} {}
  Results(std::vector<Tensor> ts) : list(std::move(ts)) {}
  Results(ValuesIndices v) : list{std::move(v.values), std::move(v.indices)} {}
};

/// A call can't be made of the operands so far; another is tried.
struct Skip {};

/// One program while it is made, or made again. An op asks it for operands and attributes: the first time they are drawn,
/// and remembered as numbers; to run the program again is to answer with these numbers.
class Draw {
 public:
  /// The leaves hold values of a normal distribution, moved by `step` along a fixed direction.
  Draw(std::uint64_t seed, Device device, double step)
      : seed_(seed), device_(device), step_(step), random_(seed) {}

  using Values = std::vector<double>;
  /// An f64 operand of such a rank whose values are as they should.
  Tensor x(int least_rank = 0, int most_rank = 8, const std::function<bool(const Values&)>& fits = {});
  /// One with values in [low, high]; one with none within 1e-6 of these, of a multiple of 1 / 2, or of each other.
  Tensor within(double low, double high);
  Tensor away(const std::vector<double>& from);
  Tensor off_steps();
  Tensor distinct(int least_rank = 0);
  /// One that `fits` holds for, of any dtype.
  Tensor any(const std::function<bool(const Tensor&)>& fits);
  /// An f64 operand that broadcasts with `other` to few elements; one of its shape.
  Tensor beside(const Tensor& other, double low = -1e9, double high = 1e9);
  Tensor like(const Tensor& other);
  Tensor mask_for(const Tensor& other);
  /// A new f64 input; a new operand of indices in [0, limit), all different if wanted. No gradients for the latter.
  Tensor leaf(const Shape& shape);
  Tensor indices(const Shape& shape, std::int64_t limit, bool distinct = false);

  // Attributes, by the names that PyTorch has for them.
  std::int64_t whole(const char* name, std::int64_t low, std::int64_t high);
  std::int64_t dim(const char* name, const Tensor& of);
  bool flag(const char* name) { return whole_as(name, 0, 1, {"false", "true"}) == 1; }
  double real(const char* name, const std::vector<double>& choices);
  std::int64_t choice(const char* name, const std::vector<std::string>& names);
  /// Numbers in brackets.
  void list(const char* name, const std::vector<std::int64_t>& numbers);
  /// Some axes of `of`, at least one.
  Dims dims(const char* name, const Tensor& of);
  /// A number in [low, high] that PyTorch is not told.
  std::int64_t number(std::int64_t low, std::int64_t high);

 private:
  friend struct Program;
  std::int64_t operand(const std::function<bool(const Tensor&)>& fits);
  std::int64_t whole_as(const char* name, std::int64_t low, std::int64_t high,
                        const std::vector<std::string>& names);
  void note(const char* name, const std::string& value);
  Tensor add_constant(const char* kind, Tensor t, const std::string& values);

  std::uint64_t seed_;
  Device device_;
  double step_;
  std::mt19937_64 random_;
  std::vector<Tensor> values_;
  std::vector<bool> is_leaf_;
  std::vector<std::string> lines_;  // of JSON
  // State of the current call.
  std::string operands_, attributes_;
  std::vector<std::int64_t> decisions_;
  std::size_t next_ = 0;
  bool again_ = false;
};

/// An op of random programs. `name` is PyTorch's, but for those that replay.py spells out.
struct Op {
  std::string name;
  std::function<Results(Draw&)> run;
};
/// All of them, in a fixed order.
const std::vector<Op>& ops();
void add_elementwise(std::vector<Op>& ops);
void add_shapes(std::vector<Op>& ops);
void add_layers(std::vector<Op>& ops);

/// A program and what it gives.
struct Program {
  /// Makes program `seed`.
  explicit Program(std::uint64_t seed, Device device = cpu);
  /// Runs it again with its leaves moved by `step` along the fixed direction.
  Program again(double step) const;
  /// One line: the text of the program, its values, its gradients and second derivatives.
  std::string json() const;

  std::uint64_t seed;
  Device device;
  struct Call {
    std::size_t op;
    std::vector<std::int64_t> decisions;
  };
  std::vector<Call> calls;
  std::vector<std::string> refused;  // what ops said to calls that could not be made
  std::vector<std::string> lines;
  std::vector<Tensor> values;
  std::vector<Tensor> leaves, directions;
  double loss = 0;
  /// Gradients by the backward kernels, by the rules, and those of a weighted sum of gradients. Undefined where there is
  /// none.
  std::vector<Tensor> gradients, by_rules, seconds;

 private:
  Program() = default;
  void differentiate(const Draw& draw);
};

}  // namespace ct::random_programs
