#pragma once

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <vector>

// A tape of numbers: a record of what was computed, from which derivatives are computed afterwards. Chapter 2 walks
// through it.

namespace book {

/// The record of a computation, one node for each number that was made.
class Tape {
 public:
  /// One number that a node was made from: which one, and the derivative of the node with respect to it.
  struct Input {
    std::size_t from;
    double slope;
  };
  struct Node {
    const char* op;
    double value;
    std::size_t count;  // of its inputs: none, one or two
    Input inputs[2];
  };

  /// Writes a node down and returns its number. A node can only be made from numbers that are there already, so `from` is
  /// always smaller than the number of the node itself: all that follows rests on that.
  std::size_t record(const char* op, double value, std::initializer_list<Input> inputs) {
    Node node{op, value, 0, {}};
    for (const Input& in : inputs) node.inputs[node.count++] = in;
    nodes_.push_back(node);
    return nodes_.size() - 1;
  }

  /// d(node)/d(n) for every n: from the youngest to the oldest, each node hands its share to what it was made from.
  std::vector<double> backward(std::size_t node) {
    std::vector<double> g(nodes_.size(), 0.0);
    g[node] = 1;
    for (std::size_t n = node + 1; n-- > 0;)
      for (const Input& in : inputs(n)) {
        g[in.from] += g[n] * in.slope;  // += and not =: a number may have been used twice
        ++multiplications;
      }
    return g;
  }

  /// d(n)/d(node) for every n: from the oldest to the youngest, each node collects from what it was made from.
  std::vector<double> forward(std::size_t node) {
    std::vector<double> d(nodes_.size(), 0.0);
    d[node] = 1;
    for (std::size_t n = node + 1; n < nodes_.size(); ++n)
      for (const Input& in : inputs(n)) {
        d[n] += in.slope * d[in.from];
        ++multiplications;
      }
    return d;
  }

  const Node& operator[](std::size_t n) const { return nodes_[n]; }
  std::size_t size() const { return nodes_.size(); }
  long multiplications = 0;  // that both walks have made

 private:
  struct Inputs {
    const Input *first, *last;
    const Input* begin() const { return first; }
    const Input* end() const { return last; }
  };
  Inputs inputs(std::size_t n) const { return {nodes_[n].inputs, nodes_[n].inputs + nodes_[n].count}; }

  std::vector<Node> nodes_;
};

/// A number on a tape. Computations with it are recorded there.
struct Var {
  Tape* tape;
  std::size_t at;
  double value() const { return (*tape)[at].value; }
};

/// A number that nothing was computed from.
inline Var input(Tape& tape, double value) { return {&tape, tape.record("input", value, {})}; }

inline Var operator+(Var a, Var b) {
  return {a.tape, a.tape->record("add", a.value() + b.value(), {{a.at, 1}, {b.at, 1}})};
}
inline Var operator-(Var a, Var b) {
  return {a.tape, a.tape->record("sub", a.value() - b.value(), {{a.at, 1}, {b.at, -1}})};
}
inline Var operator*(Var a, Var b) {
  return {a.tape, a.tape->record("mul", a.value() * b.value(), {{a.at, b.value()}, {b.at, a.value()}})};
}
inline Var operator*(double c, Var a) { return {a.tape, a.tape->record("mul", c * a.value(), {{a.at, c}})}; }
inline Var exp(Var a) {
  const double y = std::exp(a.value());
  return {a.tape, a.tape->record("exp", y, {{a.at, y}})};
}
inline Var log(Var a) {
  return {a.tape, a.tape->record("log", std::log(a.value()), {{a.at, 1 / a.value()}})};
}
inline Var tanh(Var a) {
  const double y = std::tanh(a.value());
  return {a.tape, a.tape->record("tanh", y, {{a.at, 1 - y * y}})};
}

}  // namespace book
