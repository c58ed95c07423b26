#include <cotangent/ops/testing/samples.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

namespace ct {
namespace {

template <class T, class F>
Tensor make(const Shape& shape, F&& value) {
  Tensor t = Tensor::allocate(shape, dtype_of<T>, cpu);
  T* data = t.data<T>();
  for (std::int64_t i = 0; i < t.numel(); ++i) data[i] = value();
  return t;
}

}  // namespace

// SplitMix64 (Steele, Lea, Flood 2014), its upper 53 bits as a number in [0, 1).
double SampleMaker::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

Tensor SampleMaker::normal(const Shape& shape) {
  // Values keep a distance from 0 and from one another, so that small differences never cross the kink of
  // |x| or exchange the places of two candidates of max(). Beyond 2.5 there are none: exp and pow stay small.
  const double gap = std::min(1e-3, 0.5 / static_cast<double>(1 + numel(shape)));
  std::set<double> taken;
  return make<double>(shape, [&] {
    while (true) {
      const double radius = std::sqrt(-2 * std::log(1 - next()));
      const double v = radius * std::cos(2 * std::numbers::pi * next());
      if (std::abs(v) < 0.05 || std::abs(v) > 2.5) continue;
      const auto above = taken.lower_bound(v - gap);
      if (above != taken.end() && *above < v + gap) continue;
      taken.insert(v);
      return v;
    }
  });
}

Tensor SampleMaker::uniform(const Shape& shape, double low, double high) {
  return make<double>(shape, [&] { return low + (high - low) * next(); });
}

Tensor SampleMaker::index(const Shape& shape, std::int64_t limit) {
  return make<std::int64_t>(shape,
                            [&] { return static_cast<std::int64_t>(next() * static_cast<double>(limit)); });
}

Tensor SampleMaker::mask(const Shape& shape) {
  return make<bool>(shape, [&] { return next() < 0.5; });
}

Tensor SampleMaker::values(const Shape& shape, std::initializer_list<double> values) {
  CT_CHECK(static_cast<std::int64_t>(values.size()) == numel(shape), ShapeError, "sample", "got ",
           values.size(), " values for shape ", shape, "; one per element is needed");
  auto next_value = values.begin();
  return make<double>(shape, [&] { return *next_value++; });
}

}  // namespace ct
