#include <cotangent/core/base/philox.h>
#include <cotangent/core/base/rng.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/catch.h"

#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#undef philox4x32  // a macro of its C interface
#define CT_TEST_HAS_RANDOM123 1
#endif

using ct::GeneratorState;

namespace {

constexpr GeneratorState kDraw{0x0123456789abcdefu, 0xfedcba9876543210u};

// The largest distance between the sample's distribution function and `cdf`, times sqrt(n). For the right
// distribution it exceeds 1.95 with probability 0.001; seeds are fixed, so the tests do not flicker.
template <class T, class Cdf>
double kolmogorov_smirnov(std::vector<T> sample, Cdf cdf) {
  std::sort(sample.begin(), sample.end());
  const double n = static_cast<double>(sample.size());
  double worst = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double f = cdf(static_cast<double>(sample[i]));
    worst = std::max(
        {worst, std::abs(f - static_cast<double>(i) / n), std::abs(f - static_cast<double>(i + 1) / n)});
  }
  return worst * std::sqrt(n);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

template <class T>
std::array<double, 4> moments(const std::vector<T>& x) {
  std::array<double, 4> m{};
  for (const T v : x) {
    double power = 1;
    for (double& sum : m) sum += power *= static_cast<double>(v);
  }
  for (double& sum : m) sum /= static_cast<double>(x.size());
  return m;
}

}  // namespace

TEST_CASE("philox4x32-10 gives the published words", "[rng]") {
  // The known answers of the Random123 distribution: all zeros, all ones, and digits of pi.
  const auto words = [](ct::PhiloxBlock b) {
    return std::vector<std::uint32_t>{b.word[0], b.word[1], b.word[2], b.word[3]};
  };
  const std::uint32_t ones = 0xffffffffu;
  CHECK(words(ct::philox4x32(0, 0, 0, 0, 0, 0)) ==
        std::vector<std::uint32_t>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(words(ct::philox4x32(ones, ones, ones, ones, ones, ones)) ==
        std::vector<std::uint32_t>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(words(ct::philox4x32(0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u)) ==
        std::vector<std::uint32_t>{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

#if defined(CT_TEST_HAS_RANDOM123)
TEST_CASE("elements are lanes of Random123's Philox4x32-10", "[rng]") {
  r123::Philox4x32 philox;
  const GeneratorState draws[] = {{0, 0}, {42, 7}, kDraw};
  const std::uint64_t elements[] = {
      0, 1, 2, 3, 4, 1000003, (std::uint64_t{1} << 34) - 1, std::uint64_t{5} << 40};
  for (const GeneratorState& draw : draws)
    for (const std::uint64_t i : elements) {
      const auto block = [&](std::uint64_t b) {
        const r123::Philox4x32::ctr_type counter = {
            {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
             static_cast<std::uint32_t>(draw.offset), static_cast<std::uint32_t>(draw.offset >> 32)}};
        const r123::Philox4x32::key_type key = {
            {static_cast<std::uint32_t>(draw.seed), static_cast<std::uint32_t>(draw.seed >> 32)}};
        return philox(counter, key);
      };
      REQUIRE(ct::philox_word(draw, i) == block(i / 4)[i % 4]);
      const auto wide = block(i / 2);
      const std::size_t lane = 2 * (i % 2);
      REQUIRE(ct::philox_word64(draw, i) == (std::uint64_t{wide[lane]} << 32 | wide[lane + 1]));
    }
}
#endif

TEST_CASE("log, cos and sin agree with the library to a few units in the last place", "[rng]") {
  double worst_log = 0, worst_turn = 0, worst_log64 = 0, worst_turn64 = 0;
  const double two_pi = 6.283185307179586476925;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint32_t w = ct::philox_word(kDraw, i);
    // All of (0, 1], with many values near 0 and near 1.
    const float u = i % 3 == 0 ? std::ldexp(ct::uniform_from(w) + 0.5f, -static_cast<int>(w % 33))
                               : (i % 3 == 1 ? 1.0f - 0x1p-24f * static_cast<float>(w % 5000)
                                             : ct::uniform_from(w) + 0x1p-25f);
    const double exact = std::log(static_cast<double>(u));
    const double scale = std::max(std::abs(exact), 1e-30);
    worst_log = std::max(worst_log, std::abs(static_cast<double>(ct::detail::log_exact(u)) - exact) / scale);
    float c, s;
    ct::detail::cos_sin_turn(w, c, s);
    const double angle = static_cast<double>(w) * 0x1p-32 * two_pi;
    worst_turn = std::max({worst_turn, std::abs(static_cast<double>(c) - std::cos(angle)),
                           std::abs(static_cast<double>(s) - std::sin(angle))});

    const std::uint64_t w64 = ct::philox_word64(kDraw, i);
    const double u64 = i % 2 == 0 ? std::ldexp(ct::uniform_from(w64) + 0.5, -static_cast<int>(w64 % 60))
                                  : 1.0 - 0x1p-53 * static_cast<double>(w64 % 5000);
    const long double exact64 = std::log(static_cast<long double>(u64));
    const long double scale64 = std::max(std::abs(exact64), 1e-30L);
    worst_log64 = std::max(
        worst_log64, static_cast<double>(
                         std::abs(static_cast<long double>(ct::detail::log_exact(u64)) - exact64) / scale64));
    double c64, s64;
    ct::detail::cos_sin_turn(w64, c64, s64);
    const long double angle64 =
        std::ldexp(static_cast<long double>(w64), -64) * 6.283185307179586476925286767L;
    worst_turn64 = std::max({worst_turn64, static_cast<double>(std::abs(c64 - std::cos(angle64))),
                             static_cast<double>(std::abs(s64 - std::sin(angle64)))});
  }
  CHECK(worst_log < 3 * 0x1p-24);
  CHECK(worst_turn < 2 * 0x1p-24);
  CHECK(worst_log64 < 3 * 0x1p-53);
  CHECK(worst_turn64 < 2 * 0x1p-53);
}

TEST_CASE("the bits of normal draws are pinned", "[rng]") {
  // Other compilers, other flags and CUDA must give these bits: a change here breaks every recorded run.
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](std::uint64_t bits) { hash = (hash ^ bits) * 0x100000001b3u; };
  for (std::uint64_t i = 0; i < 10'000; ++i)
    mix(std::bit_cast<std::uint32_t>(ct::philox_normal<float>(kDraw, i)));
  CHECK(hash == 0x20b6e566b721962eu);
  hash = 0xcbf29ce484222325u;
  for (std::uint64_t i = 0; i < 10'000; ++i)
    mix(std::bit_cast<std::uint64_t>(ct::philox_normal<double>(kDraw, i)));
  CHECK(hash == 0x1e3c96cd6f89a632u);
}

TEMPLATE_TEST_CASE("fills have the bits of the single elements, wherever they begin", "[rng]", float,
                   double) {
  for (const std::uint64_t first : {0, 1, 2, 3, 5, 254, 1023}) {
    for (const std::int64_t count : {0, 1, 3, 4, 127, 256, 257, 1030}) {
      std::vector<TestType> u(static_cast<std::size_t>(count) + 1, TestType{-7}), z = u;
      ct::fill_uniform(kDraw, first, count, u.data());
      ct::fill_normal(kDraw, first, count, z.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        REQUIRE(u[at] == ct::philox_uniform<TestType>(kDraw, first + at));
        REQUIRE(z[at] == ct::philox_normal<TestType>(kDraw, first + at));
      }
      REQUIRE(u.back() == TestType{-7});
      REQUIRE(z.back() == TestType{-7});
    }
  }
}

TEST_CASE("fill_words has the bits of the single words", "[rng]") {
  std::vector<std::uint32_t> w(999);
  ct::fill_words(kDraw, 6, 999, w.data());
  for (std::size_t i = 0; i < w.size(); ++i) REQUIRE(w[i] == ct::philox_word(kDraw, 6 + i));
}

TEMPLATE_TEST_CASE("uniform draws are uniform on [0, 1)", "[rng]", float, double) {
  std::vector<TestType> x(100'000);
  ct::fill_uniform({1, 0}, 0, 100'000, x.data());
  CHECK(*std::min_element(x.begin(), x.end()) >= 0);
  CHECK(*std::max_element(x.begin(), x.end()) < 1);
  CHECK(kolmogorov_smirnov(x, [](double v) { return v; }) < 1.95);
  CHECK(ct::uniform_from(std::uint32_t{0xffffffffu}) == 1.0f - 0x1p-24f);
  CHECK(ct::uniform_from(~std::uint64_t{0}) == 1.0 - 0x1p-53);
  CHECK(ct::uniform_from(std::uint64_t{0}) == 0.0);
}

TEMPLATE_TEST_CASE("normal draws are standard normal, tails included", "[rng]", float, double) {
  const std::int64_t n = 1'000'000;
  std::vector<TestType> x(static_cast<std::size_t>(n));
  ct::fill_normal({2, 3}, 0, n, x.data());
  const auto m = moments(x);
  // Four standard errors: sqrt(1, 2, 15, 96) / sqrt(n).
  CHECK(std::abs(m[0]) < 4e-3);
  CHECK(std::abs(m[1] - 1) < 4 * 1.42e-3);
  CHECK(std::abs(m[2]) < 4 * 3.88e-3);
  CHECK(std::abs(m[3] - 3) < 4 * 9.8e-3);
  const auto beyond4 = std::count_if(x.begin(), x.end(), [](TestType v) { return std::abs(v) > 4; });
  CHECK(beyond4 > 32);  // 63.3 are expected
  CHECK(beyond4 < 95);
  double lag = 0;  // neighbours share a radius but are not correlated
  for (std::size_t i = 0; i + 1 < x.size(); i += 2)
    lag += static_cast<double>(x[i]) * static_cast<double>(x[i + 1]);
  CHECK(std::abs(lag / 5e5) < 4 / std::sqrt(5e5));
  x.resize(100'000);
  CHECK(kolmogorov_smirnov(x, normal_cdf) < 1.95);
}

TEST_CASE("the extreme words give finite normal numbers", "[rng]") {
  float a, b;
  ct::normals_from(std::uint32_t{0}, std::uint32_t{0}, a, b);
  CHECK(a == Approx(std::sqrt(66 * std::log(2.0))));
  CHECK(b == 0);
  ct::normals_from(~std::uint32_t{0}, std::uint32_t{0x40000000u}, a, b);
  CHECK(a == 0);
  CHECK(b == 0);
  ct::normals_from(std::uint32_t{0}, std::uint32_t{0x80000000u}, a, b);
  CHECK(a == Approx(-std::sqrt(66 * std::log(2.0))));
  ct::normals_from(std::uint32_t{0}, std::uint32_t{0xc0000000u}, a, b);
  CHECK(b == Approx(-std::sqrt(66 * std::log(2.0))));
  double c, d;
  ct::normals_from(std::uint64_t{0}, std::uint64_t{1} << 62, c, d);
  CHECK(c == 0);
  CHECK(d == Approx(std::sqrt(108 * std::log(2.0))));
  ct::normals_from(~std::uint64_t{0}, ~std::uint64_t{0}, c, d);
  CHECK(std::isfinite(c));
}

TEST_CASE("bounded integers stay in range and hit every value", "[rng]") {
  std::array<int, 7> seen{};
  for (std::uint64_t i = 0; i < 70'000; ++i) {
    const std::int64_t v = ct::philox_integer(kDraw, i, -3, 4);
    REQUIRE(v >= -3);
    REQUIRE(v < 4);
    ++seen[static_cast<std::size_t>(v + 3)];
  }
  for (const int count : seen) CHECK(std::abs(count - 10'000) < 4 * 93);
  CHECK(ct::bounded_from(~std::uint64_t{0}, 10) == 9);
  CHECK(ct::bounded_from(0, 10) == 0);
  CHECK(ct::philox_integer(kDraw, 5, 9, 10) == 9);
  // the widest range there is
  const std::int64_t lowest = INT64_MIN, highest = INT64_MAX;
  int negative = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) negative += ct::philox_integer(kDraw, i, lowest, highest) < 0;
  CHECK(std::abs(negative - 500) < 64);
}

TEST_CASE("bernoulli thresholds cover both ends", "[rng]") {
  CHECK(ct::bernoulli_threshold(0) == 0);
  CHECK(ct::bernoulli_threshold(1) == std::uint64_t{1} << 32);
  CHECK(ct::bernoulli_threshold(0.5) == std::uint64_t{1} << 31);
  CHECK(ct::bernoulli_threshold(-1) == 0);
  CHECK(ct::bernoulli_threshold(2) == std::uint64_t{1} << 32);
}

TEST_CASE("draws, seeds and offsets give different numbers", "[rng]") {
  CHECK(ct::philox_word({1, 0}, 0) != ct::philox_word({2, 0}, 0));
  CHECK(ct::philox_word({1, 0}, 0) != ct::philox_word({1, 1}, 0));
  CHECK(ct::philox_word({1, 0}, 0) != ct::philox_word({std::uint64_t{1} << 32, 0}, 0));
  CHECK(ct::philox_word({1, 1}, 0) != ct::philox_word({1, std::uint64_t{1} << 32}, 0));
}

TEST_CASE("a generator hands out each draw once and can be saved", "[rng]") {
  ct::Generator generator(7);
  CHECK(generator.reserve() == GeneratorState{7, 0});
  CHECK(generator.reserve(3) == GeneratorState{7, 1});
  CHECK(generator.offset() == 4);
  const GeneratorState saved = generator.state();
  generator.reserve();
  generator.set_state(saved);
  CHECK(generator.reserve() == GeneratorState{7, 4});
  const GeneratorState mine = generator.reserve();
  CHECK(generator.give_back(mine));
  CHECK(generator.state() == mine);
  generator.reserve();
  generator.reserve();  // somebody else's
  CHECK_FALSE(generator.give_back(mine));
  CHECK(generator.offset() == mine.offset + 2);
  generator.seed(8);
  CHECK_FALSE(generator.give_back(mine));
  CHECK(generator.state() == GeneratorState{8, 0});
  CHECK(generator.seed() == 8);

  std::vector<std::vector<std::uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken)
    threads.emplace_back([&generator, &mine] {
      for (int i = 0; i < 1000; ++i) mine.push_back(generator.reserve().offset);
    });
  for (auto& thread : threads) thread.join();
  std::vector<std::uint64_t> all;
  for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);
}

TEST_CASE("manual_seed restarts the default generator", "[rng]") {
  const GeneratorState before = ct::default_generator().state();
  ct::manual_seed(42);
  CHECK(ct::default_generator().reserve() == GeneratorState{42, 0});
  CHECK(ct::default_generator().reserve() == GeneratorState{42, 1});
  ct::manual_seed(42);
  CHECK(ct::default_generator().reserve() == GeneratorState{42, 0});
  ct::default_generator().set_state(before);
}
