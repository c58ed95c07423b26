#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

// A chain of layers that counts: how many values are held at a time, and how many layers are computed.

namespace book {

class Chain {
 public:
  explicit Chain(int layers) : layers_(layers), dw(static_cast<std::size_t>(layers)) {}

  /// Input of a layer, which its backward needs. Held as long as it lives.
  class Value {
   public:
    Value(Chain& chain, double x) : chain_(&chain), x_(x) { chain.hold(1); }
    Value(const Value& other) : Value(*other.chain_, other.x_) {}
    Value(Value&& other) noexcept : chain_(std::exchange(other.chain_, nullptr)), x_(other.x_) {}
    Value& operator=(Value other) noexcept {
      std::swap(chain_, other.chain_);
      std::swap(x_, other.x_);
      return *this;
    }
    ~Value() {
      if (chain_) chain_->hold(-1);
    }
    double x() const { return x_; }

   private:
    Chain* chain_;
    double x_;
  };

  int layers() const { return layers_; }
  Value input(double x) { return Value(*this, x); }
  /// y = tanh(w_i x) of layer i.
  Value forward(int i, const Value& x) {
    ++forwards;
    return Value(*this, std::tanh(w(i) * x.x()));
  }
  /// From the cotangent g of layer i's y that of its x; adds to dw_i.
  double backward(int i, const Value& x, double g) {
    const double y = std::tanh(w(i) * x.x()), inner = g * (1 - y * y);
    dw[static_cast<std::size_t>(i)] += inner * x.x();
    ++backwards;
    held_over_time.push_back(held_);
    return inner * w(i);
  }

 private:
  int layers_, held_ = 0;
  double w(int i) const { return 1 + 0.1 * std::cos(i); }
  void hold(int change) {
    held_ += change;
    most_held = std::max(most_held, held_);
    if (change > 0) held_over_time.push_back(held_);
  }

 public:
  std::vector<double> dw;
  int most_held = 0, forwards = 0, backwards = 0;
  std::vector<int> held_over_time;
};

}  // namespace book
