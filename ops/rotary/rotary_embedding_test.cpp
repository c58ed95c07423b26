#include <cotangent/ops/rotary/rotary_embedding.h>

#include <cmath>
#include <vector>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::check;
using testing::leaf;
using testing::values;
using V = std::vector<double>;

Tensor waves(const Shape& shape, double phase) { return testing::waves(shape, phase, 2); }

Tensor positions(const V& v, DType dtype = i64) {
  return values({static_cast<std::int64_t>(v.size())}, v).to(dtype);
}

}  // namespace

TEST_CASE("rotary_embedding turns pairs", "[rotary_embedding]") {
  const testing::In in{GENERATE(f64, f32)};
  // D = 4: pair 0 turns by the position, pair 1 by a hundredth of it.
  const double c = std::cos(3.0), s = std::sin(3.0), k = std::cos(0.03), z = std::sin(0.03);
  const Tensor x = in.values({1, 4}, {1, 2, 5, 7});
  in.check(rotary_embedding(x, positions({3})), {c - 5 * s, 2 * k - 7 * z, s + 5 * c, 2 * z + 7 * k});
  in.check(rotary_embedding(x, positions({3}, i32), {.interleaved = true}),
           {c - 2 * s, s + 2 * c, 5 * k - 7 * z, 5 * z + 7 * k});
  in.check(rotary_embedding(x, positions({0})), {1, 2, 5, 7});
  // The first two alone.
  in.check(rotary_embedding(x, positions({3}), {.rotary_dim = 2}), {c - 2 * s, s + 2 * c, 5, 7});
  // With base 9, pair 1 turns by a third.
  const double k1 = std::cos(1.0), z1 = std::sin(1.0);
  in.check(rotary_embedding(x, positions({3}), {.base = 9}),
           {c - 5 * s, 2 * k1 - 7 * z1, s + 5 * c, 2 * z1 + 7 * k1});
}

TEST_CASE("rotary_embedding: positions of each row, or of each batch", "[rotary_embedding]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor x = in.waves({2, 3, 4, 6}, 0, 2);
  const Tensor all = rotary_embedding(x, positions({5, 1, 0, 9}));
  const Tensor own = rotary_embedding(x, in.values({2, 4}, {5, 1, 0, 9, 2, 2, 7, 3}).to(i64));
  in.check(own[0], all[0].to_vector<double>());
  in.check(own[1], rotary_embedding(x[1], positions({2, 2, 7, 3})).to_vector<double>());
  in.check(all.narrow(2, 3, 1), rotary_embedding(x.narrow(2, 3, 1), positions({9})).to_vector<double>());
}

TEST_CASE("rotary_embedding depends on distances alone", "[rotary_embedding]") {
  const Tensor q = waves({1, 64}, 0), k = waves({1, 64}, 2);
  const auto score = [&](double i, double j) {
    return rotary_embedding(q, positions({i})).matmul(rotary_embedding(k, positions({j})).t()).item();
  };
  REQUIRE(std::abs(score(7, 3) - score(104, 100)) < 1e-10);
  REQUIRE(std::abs(score(7, 3) - score(7, 4)) > 1e-3);
}

TEST_CASE("rotary_embedding reads any strides", "[rotary_embedding]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor packed = in.waves({2, 5, 3, 24}, 1, 2);  // [B, T, H, 3 D]
  const Tensor view = packed.narrow(-1, 8, 8).transpose(1, 2), at = positions({0, 3, 1, 4, 2});
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.interleaved = interleaved};
    const V want = rotary_embedding(view.contiguous(), at, options).to_vector<double>();
    in.check(rotary_embedding(view, at, options), want);
    in.check(rotary_embedding(view.transpose(2, 3).contiguous().transpose(2, 3), at, options), want);
    // Two axes of heads, in any order.
    const Tensor five = in.waves({2, 3, 1, 4, 5, 8}, 3, 2);
    in.check(rotary_embedding(five.transpose(1, 3), at, options),
             rotary_embedding(five.transpose(1, 3).contiguous(), at, options).to_vector<double>());
    in.check(rotary_embedding(five.narrow(1, 1, 2), at, options),
             rotary_embedding(five.narrow(1, 1, 2).contiguous(), at, options).to_vector<double>());
  }
}

TEST_CASE("the gradient of rotary_embedding turns back", "[rotary_embedding]") {
  const testing::In in{GENERATE(f64, f32)};
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.interleaved = interleaved, .rotary_dim = 6};
    Tensor x = leaf(in.waves({2, 3, 4, 8}, 0, 2));
    const Tensor at = positions({5, 1, 0, 9}), y = rotary_embedding(x, at, options);
    y.backward(y.detach());
    in.check(x.grad(), x.to_vector<double>());
    REQUIRE(y.grad_fn_name() == "rotary_embedding");
  }
}

TEST_CASE("rotary_embedding scales frequencies as Llama 3.1 does", "[rotary_embedding]") {
  // Base 2^16 and D = 8: frequencies 1, 1/16, 1/256, 1/4096, that is waves of 6, 101, 1608 and 25736. With an
  // original length of 4096 and factors 1 and 4, the first is shorter than 1024 and kept, so is the second,
  // the last is longer than 4096 and divided by 8; the third is in between.
  const RotaryOptions options{.base = 65536,
                              .scaling = {.kind = RotaryScaling::Kind::llama3,
                                          .factor = 8,
                                          .low_frequency_factor = 1,
                                          .high_frequency_factor = 4,
                                          .original_length = 4096}};
  const double smooth = (4096.0 / (2 * std::acos(-1.0) * 256) - 1) / 3;
  const double f[4] = {1, 1 / 16.0, ((1 - smooth) / 8 + smooth) / 256, 1 / 4096.0 / 8};
  const Tensor y = rotary_embedding(values({1, 8}, {1, 1, 1, 1, 0, 0, 0, 0}), positions({100}), options);
  V want;
  for (const double v : f) want.push_back(std::cos(100 * v));
  for (const double v : f) want.push_back(std::sin(100 * v));
  check(y, want, 1e-12);
  const Tensor z = rotary_embedding(values({1, 2}, {1, 0}), positions({3}),
                                    {.scaling = {.kind = RotaryScaling::Kind::linear, .factor = 4}});
  check(z, {std::cos(0.75), std::sin(0.75)});
}

TEST_CASE("rotary_embedding refuses what does not fit", "[rotary_embedding]") {
  const Tensor x = waves({2, 3, 8}, 0), at = positions({0, 1, 2});
  REQUIRE_THROWS_AS(rotary_embedding(x, positions({0, 1})), ShapeError);
  REQUIRE_THROWS_AS(rotary_embedding(x, values({3, 3}, V(9, 0.0)).to(i64)), ShapeError);
  REQUIRE_THROWS_AS(rotary_embedding(x, at.to(f64)), DTypeError);
  REQUIRE_THROWS_AS(rotary_embedding(x, at, {.rotary_dim = 3}), ValueError);
  REQUIRE_THROWS_AS(rotary_embedding(x, at, {.base = -1}), ValueError);
  using Kind = RotaryScaling::Kind;
  REQUIRE_THROWS_AS(rotary_embedding(x, at, {.base = INFINITY}), ValueError);
  REQUIRE_THROWS_AS(rotary_embedding(x, at, {.scaling = {.kind = Kind::linear, .factor = INFINITY}}),
                    ValueError);
  REQUIRE_THROWS_AS(
      rotary_embedding(x, at, {.scaling = {.kind = Kind::llama3, .high_frequency_factor = INFINITY}}),
      ValueError);
  REQUIRE_THROWS_AS(rotary_embedding(waves({3, 514}, 0), at), ValueError);
}

TEST_CASE("every path of rotary_embedding on CUDA agrees with the CPU", "[rotary_embedding][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 2e-6 : dtype == f16 ? 2e-3 : 1.6e-2;
    for (const std::int64_t d : {2, 6, 16, 64, 80, 128, 512})
      for (const std::int64_t heads : {1, 3, 32})
        for (const bool interleaved : {false, true})
          for (const bool part : {false, true}) {
            INFO(dtype << " d " << d << " heads " << heads << " interleaved " << interleaved << " part "
                       << part);
            const RotaryOptions options{.interleaved = interleaved, .rotary_dim = part ? d / 4 * 2 : 0};
            const Tensor packed = waves({2, 7, heads, d}, 1).to(dtype),
                         g = waves({2, heads, 7, d}, 2).to(dtype);
            Tensor at = waves({2, 7}, 5).to(i64);
            // Positions of f32 are judged by angles of f32.
            const DType exact = dtype == f64 ? f64 : f32;
            const auto run = [&](const Device device, const DType type) {
              Tensor x = leaf(packed.to(type).to(device));
              const Tensor y = rotary_embedding(x.transpose(1, 2), at.to(device), options);
              y.backward(g.to(type).to(device));
              return std::pair{y, x.grad()};
            };
            const auto [want, want_grad] = run(cpu, exact);
            const auto [got, got_grad] = run(cuda(0), dtype);
            check(got, want.to_vector<double>(), tolerance);
            check(got_grad, want_grad.to_vector<double>(), tolerance);
          }
  }
}
