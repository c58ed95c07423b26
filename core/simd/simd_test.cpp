#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <cotangent/core/simd/add_wide.h>
#include <cotangent/core/simd/exp.h>
#include <cotangent/core/simd/shuffle.h>

#include "tests/catch.h"

// Compiled for one machine, as everything: with other values of COTANGENT_MARCH the vectors are of another width.

using namespace ct;

namespace {

// Both are NaN, or the same bits.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

template <class V>
std::vector<typename V::Scalar> lanes_of(const V& x) {
  std::vector<typename V::Scalar> lanes(V::kSize);
  x.store(lanes.data());
  return lanes;
}

// The first n lanes of a vector, for every n, all among them: read, with something else in the others' place, and written.
template <class V, class S>
void check_first_lanes() {
  using T = typename V::Scalar;
  for (int n = 0; n <= V::kSize; ++n) {
    // Not an element more is there than is asked for.
    std::vector<S> from(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) from[static_cast<std::size_t>(i)] = S(static_cast<T>(i + 1));
    const V x = V::load(from.data(), V::first(n));
    for (int i = 0; i < V::kSize; ++i)
      REQUIRE(lanes_of(x)[static_cast<std::size_t>(i)] == static_cast<T>(i < n ? i + 1 : 0));
    std::vector<S> to(static_cast<std::size_t>(n));
    x.store(to.data(), V::first(n));
    for (int i = 0; i < n; ++i)
      REQUIRE(static_cast<T>(to[static_cast<std::size_t>(i)]) == static_cast<T>(i + 1));
    const V padded = V::load(from.data(), V::first(n), T(-7));
    for (int i = 0; i < V::kSize; ++i)
      REQUIRE(lanes_of(padded)[static_cast<std::size_t>(i)] == static_cast<T>(i < n ? i + 1 : -7));
  }
}

// All 16-bit floats are widened as one by one, and what lies at, between and beside them is rounded like that.
template <class S>
void check_conversions() {
  std::vector<S> from(65536 + 5), back(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide(from.size());
  const auto n = static_cast<std::int64_t>(from.size());
  simd::convert_run(from.data(), n, wide.data());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i) wrong += !same(wide[i], static_cast<float>(from[i]));
  CHECK(wrong == 0);
  for (const std::uint32_t low :
       {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    std::vector<float> values(from.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i & 0xffff) << 16 | low);
    simd::convert_run(values.data(), n, back.data());
    for (std::size_t i = 0; i < values.size(); ++i)
      wrong += !same(static_cast<float>(back[i]), static_cast<float>(S(values[i])));
  }
  CHECK(wrong == 0);
}

// Halves of load_pair() hold every number once, and store_pair() puts it back; numbers lie where those of S may.
template <class V, class S>
void check_pairs() {
  constexpr std::int64_t n = 2 * V::kSize;
  std::vector<S> from(n + 1), to(n + 1);
  for (std::int64_t i = 0; i < n; ++i) from[static_cast<std::size_t>(i + 1)] = S(static_cast<float>(i));
  V a, b;
  V::load_pair(from.data() + 1, a, b);
  std::vector<float> all = lanes_of(a);
  for (const float x : lanes_of(b)) all.push_back(x);
  std::ranges::sort(all);
  for (std::int64_t i = 0; i < n; ++i) REQUIRE(all[static_cast<std::size_t>(i)] == static_cast<float>(i));
  V::store_pair(a + 1, b + 1, to.data() + 1);
  for (std::int64_t i = 0; i < n; ++i)
    REQUIRE(static_cast<float>(to[static_cast<std::size_t>(i + 1)]) == static_cast<float>(i + 1));
}

// A vector of two of the machine's does to its lanes what the machine's does.
template <class T>
void check_wide() {
  using V = simd::Vector<T>;
  using W = simd::Vector<T, 2 * simd::kVectorBytes>;
  std::vector<T> from(3 * W::kSize);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(static_cast<int>(i * 7 % 23) - 11);
  const auto check = [&](const auto& f) {
    const auto apply = [&]<class X>(X, std::ptrdiff_t at) {
      const T* const p = from.data() + at;
      return lanes_of(f(X::load(p), X::load(p + W::kSize), X::load(p + 2 * W::kSize)));
    };
    std::vector<T> parts = apply(V(), 0);
    for (const T x : apply(V(), V::kSize)) parts.push_back(x);
    CHECK(apply(W(), 0) == parts);
  };
  check([](auto a, auto b, auto c) { return a + b * c - a / (c + 20); });
  check([](auto a, auto b, auto c) { return fma(a, b, -c); });
  check([](auto a, auto b, auto c) { return where((a < b) & !(c > b), a, b); });
  check([](auto a, auto b, auto c) { return where((a <= b) | (a == c), a, b); });
  check([](auto a, auto b, auto c) { return where((a != b) ^ (a >= c), a, b); });
  check([](auto a, auto b, auto c) { return exp(a) + exp_nonpositive(-(b * b)) * c; });
  const auto larger = [](const auto& a, const auto& b) { return where(b > a, b, a); };
  CHECK(W::load(from.data()).across(larger) == *std::max_element(from.begin(), from.begin() + W::kSize));
}

// The largest error of exp of numbers and of vectors, which are to agree, in units of the last place.
template <class T>
double worst_exp(double low, double high, bool nonpositive) {
  using V = simd::Vector<T>;
  double worst = 0;
  constexpr int kSteps = 20000;
  for (int i = 0; i < kSteps; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / kSteps);
    const T y = nonpositive ? simd::exp_nonpositive(x) : simd::exp(x);
    const V v = nonpositive ? simd::exp_nonpositive(V(x)) : simd::exp(V(x));
    REQUIRE(v.v[V::kSize - 1] == y);
    const long double exact = std::exp(static_cast<long double>(x));
    const T next = std::nextafter(static_cast<T>(exact), T(INFINITY));
    const long double unit = static_cast<long double>(next) - static_cast<long double>(static_cast<T>(exact));
    worst = std::max(worst, static_cast<double>(std::abs(y - exact) / unit));
  }
  return worst;
}

}  // namespace

TEST_CASE("the first lanes of a vector are all that is read and written", "[simd]") {
  check_first_lanes<simd::Vector<float>, float>();
  check_first_lanes<simd::Vector<double>, double>();
  check_first_lanes<simd::Vector<std::int64_t>, std::int64_t>();
  check_first_lanes<simd::FixedVector<float>, float>();
  check_first_lanes<simd::FixedVector<double>, double>();
  check_first_lanes<simd::Vector<float, 2 * simd::kVectorBytes>, float>();
  check_first_lanes<simd::Vector<float, 2 * simd::kVectorBytes>, BFloat16>();
  check_first_lanes<simd::Vector<float>, Half>();
  check_first_lanes<simd::Vector<float>, BFloat16>();
}

TEMPLATE_TEST_CASE("a mask is true somewhere, or nowhere", "[simd]", simd::Vector<float>,
                   simd::Vector<double>, simd::Vector<std::int64_t>) {
  using V = TestType;
  using T = typename V::Scalar;
  T lanes[V::kSize] = {};
  CHECK_FALSE((V::load(lanes) > V(T(0))).any());
  for (T& lane : lanes) {
    lane = 1;
    CHECK((V::load(lanes) > V(T(0))).any());
    lane = 0;
  }
}

TEST_CASE("runs of 16-bit floats are converted like single ones", "[simd]") {
  check_conversions<Half>();
  check_conversions<BFloat16>();
}

TEST_CASE("pairs of vectors", "[simd]") {
  const auto check = []<class V>(V) {
    check_pairs<V, float>();
    check_pairs<V, Half>();
    check_pairs<V, BFloat16>();
  };
  check(simd::Vector<float>());
  check(simd::Vector<float, 2 * simd::kVectorBytes>());
  float from[16];
  for (int i = 0; i < 16; ++i) from[i] = static_cast<float>(i);
  simd::FixedVector<double> low(0.5), high(100);
  simd::add_wide(low, high, simd::FixedVector<float>::load(from));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(lanes_of(low)[i] == static_cast<double>(i) + 0.5);
    CHECK(lanes_of(high)[i] == static_cast<double>(i) + 108);
  }
}

TEST_CASE("vectors of two", "[simd]") {
  check_wide<float>();
  check_wide<double>();
}

TEST_CASE("exp for results of 16 bits", "[simd]") {
  using V = simd::Vector<float>;
  for (int i = 0; i <= 100000; ++i) {
    const float x = -87.3f * static_cast<float>(i) / 100000;
    const double exact = std::exp(static_cast<double>(x));
    REQUIRE(std::abs(static_cast<double>(exp_coarse(V(x)).v[0]) - exact) <= 7e-6 * exact);
  }
  CHECK(exp_coarse(V(0)).v[0] == 1);
  CHECK(exp_coarse(V(-88)).v[0] == 0);
  CHECK(exp_coarse(V(-std::numeric_limits<float>::infinity())).v[0] == 0);
  const auto check_nan = []<class S>(S x) {
    for (int i = 0; i < 65536; ++i) {
      x.bits = static_cast<std::uint16_t>(i);
      const V v(static_cast<float>(x));
      if (std::isnan(v.v[0])) REQUIRE(std::isnan(exp_coarse(v - V(1)).v[0]));
    }
  };
  check_nan(Half());
  check_nan(BFloat16());
}

TEST_CASE("exp of numbers and of vectors", "[simd]") {
  CHECK(worst_exp<float>(-103, 88.7, false) < 1.2);
  CHECK(worst_exp<double>(-744, 709.7, false) < 2);
  CHECK(worst_exp<float>(-87.3, 0, true) < 1.2);
  CHECK(worst_exp<double>(-708.3, 0, true) < 2);
  const auto limits = []<class T>(T) {
    const T infinity = std::numeric_limits<T>::infinity();
    CHECK(simd::exp(infinity) == infinity);
    CHECK(simd::exp(-infinity) == 0);
    CHECK(simd::exp_nonpositive(-infinity) == 0);
    CHECK(std::isnan(simd::exp(std::numeric_limits<T>::quiet_NaN())));
    CHECK(std::isnan(simd::exp_nonpositive(std::numeric_limits<T>::quiet_NaN())));
    CHECK(simd::exp(T(0)) == 1);
    CHECK(simd::exp_nonpositive(T(0)) == 1);
  };
  limits(0.0f);
  limits(0.0);
}

TEST_CASE("a block of vectors is transposed and its lanes are added up", "[simd]") {
  const auto check = []<class T>(T) {
    using V = simd::Vector<T>;
    V rows[V::kSize], sums[V::kSize];
    for (int i = 0; i < V::kSize; ++i)
      for (int j = 0; j < V::kSize; ++j) rows[i].v[j] = sums[i].v[j] = static_cast<T>(100 * i + j);
    simd::transpose(rows);
    for (int i = 0; i < V::kSize; ++i)
      for (int j = 0; j < V::kSize; ++j) REQUIRE(rows[i].v[j] == static_cast<T>(100 * j + i));
    const V sum = simd::lane_sums(sums);
    for (int i = 0; i < V::kSize; ++i)
      REQUIRE(sum.v[i] == static_cast<T>(100 * i * V::kSize + V::kSize * (V::kSize - 1) / 2));
  };
  check(0.0f);
  check(0.0);
}
