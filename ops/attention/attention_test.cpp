#include <cotangent/ops/attention/attention.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/dropout.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/softmax/softmax.h>

#include "tests/attention_testing.h"
#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using namespace testing::attention;
using testing::largest_difference;
using V = std::vector<double>;

void compare_with_composite(const Sizes& sizes, DType dtype, const AttentionOptions& options,
                            double tolerance) {
  CAPTURE(sizes.queries, sizes.keys, sizes.dim, sizes.heads, sizes.kv_heads);
  const Inputs in(sizes, dtype);
  const GeneratorState draw = options.generator.state();
  const std::vector<Tensor> got = run(scaled_dot_product_attention, in, options);
  options.generator.set_state(draw);
  const std::vector<Tensor> want = run(composite, in, options);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(largest_difference(got[i], want[i]) < tolerance);
  }
}

// ---- the layouts of results and cotangents ----

// `g` as it may come: packed by heads, packed by positions (as a projection of all heads leaves it), and in
// ways that no fast kernel reads where it lies.
std::vector<Tensor> laid_out(const Tensor& g) {
  const NoGrad guard;
  Shape wide = g.shape();
  wide[3] = 2 * wide[3] + 1;
  const Tensor base = zeros(wide, {.dtype = g.dtype(), .device = g.device()});
  Tensor apart = base.slice(3, 1, INT64_MAX, 2), shifted = base.clone().narrow(3, 1, g.size(3));
  apart.copy_(g);
  shifted.copy_(g);
  return {g.contiguous(), g.transpose(1, 2).contiguous().transpose(1, 2), apart, shifted,
          g.permute({3, 0, 2, 1}).contiguous().permute({1, 3, 2, 0})};
}

// Result and gradients on `device`; the gradients must have the same bits however the cotangent lies.
std::vector<Tensor> run_layouts(const Inputs& in, const AttentionOptions& o, Device device) {
  std::vector<Tensor> leaves{in.q.to(device).detach(), in.k.to(device).detach(), in.v.to(device).detach()};
  const Tensor mask = o.mask.defined() ? o.mask.to(device).detach() : Tensor{};
  if (mask.defined() && is_floating(mask.dtype())) leaves.push_back(mask);
  for (Tensor& t : leaves) t.set_requires_grad();
  o.generator.set_state({21, 0});
  const AttentionOptions options{mask, o.causal, o.causal_offset, o.dropout_p, o.scale, o.generator};
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
  const Shape s = y.shape();
  CHECK(y.strides() == Strides{s[2] * s[1] * s[3], s[3], s[1] * s[3], 1});
  Generator generator(17);
  const Tensor g = randn(s, {.dtype = f64}, generator).to(device, y.dtype());
  std::vector<Tensor> first;
  for (const Tensor& cotangent : laid_out(g)) {
    CAPTURE(cotangent.strides());
    const Tensor outputs[] = {y}, cotangents[] = {cotangent};
    const std::vector<Tensor> grads = grad(outputs, leaves, cotangents, {.retain_graph = true});
    if (first.empty()) first = grads;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      CAPTURE(i);
      CHECK(grads[i].to_vector<double>() == first[i].to_vector<double>());
    }
  }
  first.insert(first.begin(), y);
  return first;
}

// Nothing hidden, causal, dropout, bool mask, additive mask with a gradient: on CUDA, each with the kernels
// that take it.
constexpr int kVariants = 5;
AttentionOptions variant_of(int variant, const Sizes& s, Generator& generator) {
  Generator mask_of(4);
  AttentionOptions o{.generator = generator};
  o.causal = variant == 1 || variant == 2;
  o.causal_offset = s.keys - s.queries;
  if (variant == 2) o.dropout_p = 0.2;
  if (variant == 3) o.mask = lower_triangle(s.queries, s.keys, 9);
  if (variant == 4) o.mask = randn({s.heads, s.queries, s.keys}, {.dtype = f32}, mask_of);
  return o;
}

}  // namespace

TEST_CASE("attention of two keys, by hand", "[attention]") {
  // Scores 0 and ln 3: probabilities 1/4 and 3/4.
  const double ln3 = std::log(3.0);
  Tensor q = full({1, 1, 1, 1}, 1.0, {.dtype = f64}), k = full({1, 1, 2, 1}, 0.0, {.dtype = f64});
  Tensor v = full({1, 1, 2, 1}, 1.0, {.dtype = f64});
  k.data<double>()[1] = ln3;
  v.data<double>()[1] = 5;
  for (Tensor* t : {&q, &k, &v}) t->set_requires_grad();
  const Tensor y = scaled_dot_product_attention(q, k, v);
  CHECK(y.item() == Approx(4).epsilon(1e-15));  // 1/4 + 15/4
  y.backward(full({1, 1, 1, 1}, 1.0, {.dtype = f64}));
  // dP = (1, 5), dS = P (dP - 4) = (-3/4, 3/4)
  CHECK(v.grad().to_vector<double>()[0] == Approx(0.25));
  CHECK(v.grad().to_vector<double>()[1] == Approx(0.75));
  CHECK(k.grad().to_vector<double>()[0] == Approx(-0.75));
  CHECK(k.grad().to_vector<double>()[1] == Approx(0.75));
  CHECK(q.grad().item() == Approx(0.75 * ln3));
}

TEST_CASE("attention agrees with softmax between two products", "[attention]") {
  const Sizes plain{2, 4, 2, 100, 130, 40}, blocks{1, 2, 2, 150, 150, 64}, short_queries{2, 6, 2, 7, 300, 32},
      few{1, 4, 1, 1, 1100, 80};
  for (const auto& [dtype, tolerance] : {std::pair{f64, 1e-13}, std::pair{f32, 2e-5}})
    for (const Sizes& s : {plain, blocks, short_queries, few}) {
      compare_with_composite(s, dtype, {}, tolerance);
      compare_with_composite(s, dtype, {.causal = true, .causal_offset = s.keys - s.queries}, tolerance);
      compare_with_composite(s, dtype, {.causal = true, .causal_offset = 3, .scale = 0.5}, tolerance);
      Generator generator(5);
      compare_with_composite(s, dtype, {.mask = randn({s.heads, 1, s.keys}, {.dtype = dtype}, generator)},
                             2 * tolerance);
      compare_with_composite(
          s, dtype,
          {.mask = randn({s.batch, 1, s.queries, s.keys}, {.dtype = dtype}, generator), .causal = true},
          tolerance);
      const Tensor seen = lower_triangle(s.queries, s.keys, 5).unsqueeze(0).unsqueeze(0);
      compare_with_composite(s, dtype, {.mask = seen}, tolerance);
    }
}

TEST_CASE("attention drops what dropout of the whole matrix drops", "[attention]") {
  Generator generator(9);
  for (const Sizes& s : {Sizes{2, 4, 2, 70, 130, 16}, Sizes{2, 2, 1, 1, 700, 16}}) {
    compare_with_composite(s, f64, {.dropout_p = 0.3, .generator = generator}, 1e-13);
    compare_with_composite(
        s, f32, {.causal = true, .causal_offset = 60, .dropout_p = 0.5, .generator = generator}, 2e-5);
  }
  const std::uint64_t before = generator.offset();
  const Inputs in({1, 1, 1, 2, 2, 4}, f32);
  scaled_dot_product_attention(in.q, in.k, in.v, {.generator = generator});
  CHECK(generator.offset() == before);
  scaled_dot_product_attention(in.q, in.k, in.v, {.dropout_p = 0.1, .generator = generator});
  CHECK(generator.offset() == before + 1);
}

TEST_CASE("attention has the same bits for any number of threads", "[attention]") {
  const int threads = num_threads();
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const Sizes& s :
         {Sizes{1, 2, 1, 130, 600, 24}, Sizes{3, 4, 4, 33, 33, 32}, Sizes{2, 4, 2, 1, 900, 64}}) {
      Generator mask_of(8);
      const AttentionOptions options{.mask = randn({s.queries, s.keys}, {.dtype = f32}, mask_of),
                                     .causal = true,
                                     .causal_offset = s.keys - s.queries};
      const Inputs in(s, dtype);
      set_num_threads(1);
      const std::vector<Tensor> one = run(scaled_dot_product_attention, in, options);
      set_num_threads(4);
      const std::vector<Tensor> four = run(scaled_dot_product_attention, in, options);
      for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(one[i].to_vector<double>() == four[i].to_vector<double>());
    }
  set_num_threads(threads);
}

TEST_CASE("attention of a query that sees nothing is 0, and so are its gradients", "[attention]") {
  for (const std::int64_t queries : {2, 20}) {
    const Inputs in({1, 1, 1, queries, 70, 16}, f32);
    Tensor mask = Tensor::allocate({queries, 70}, boolean, cpu);
    for (std::int64_t j = 0; j < mask.numel(); ++j) mask.data<bool>()[j] = j >= 70;  // query 0 sees nothing
    const std::vector<Tensor> r = run(scaled_dot_product_attention, in, {.mask = mask});
    const V y = r[0].to_vector<double>(), dq = r[1].to_vector<double>();
    for (std::size_t d = 0; d < 16; ++d) {
      CHECK(y[d] == 0);
      CHECK(dq[d] == 0);
      CHECK(y[16 + d] != 0);
      CHECK(dq[16 + d] != 0);
    }
    for (const Tensor& t : r)
      for (const double x : t.to_vector<double>()) REQUIRE(std::isfinite(x));
    const std::vector<Tensor> none =
        run(scaled_dot_product_attention, in, {.causal = true, .causal_offset = -queries});
    for (const Tensor& t : none)
      for (const double x : t.to_vector<double>()) REQUIRE(x == 0);
  }
}

TEST_CASE("a NaN reaches the queries that see it, and no others", "[attention]") {
  for (const std::int64_t queries : {3, 40}) {
    const Inputs in({1, 1, 1, queries, queries, 16}, f32);
    in.k.data<float>()[16 * 2] = std::numeric_limits<float>::quiet_NaN();  // of key 2
    for (const bool by_mask : {false, true}) {
      const Tensor mask = by_mask ? lower_triangle(queries, queries, 0) : Tensor{};
      const V y = scaled_dot_product_attention(in.q, in.k, in.v, {.mask = mask, .causal = !by_mask})
                      .to_vector<double>();
      for (std::int64_t i = 0; i < queries; ++i)
        CHECK(std::isnan(y[static_cast<std::size_t>(16 * i)]) == (i >= 2));
    }
  }
}

TEST_CASE("causal offsets beyond all positions are as the nearest that matters", "[attention]") {
  for (const std::int64_t queries : {3, 70}) {
    const Inputs in({1, 1, 1, queries, queries, 16}, f32);
    const auto with = [&](std::int64_t offset) {
      return scaled_dot_product_attention(in.q, in.k, in.v, {.causal = true, .causal_offset = offset})
          .to_vector<double>();
    };
    CHECK(with(INT64_MAX) == scaled_dot_product_attention(in.q, in.k, in.v).to_vector<double>());
    CHECK(with(INT64_MIN) == V(static_cast<std::size_t>(16 * queries), 0.0));
  }
}

TEST_CASE("attention reads views of a packed projection where they lie", "[attention]") {
  for (const DType dtype : {f32, bf16}) {
    const std::int64_t batch = 2, length = 90, heads = 3, dim = 32;
    Generator generator(2);
    const Tensor packed = randn({batch, length, 3, heads, dim}, {.dtype = f32}, generator).to(dtype);
    const auto part = [&](int i) { return packed.select(2, i).transpose(1, 2); };
    const Tensor q = part(0), k = part(1), v = part(2);
    const Tensor want =
        scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous(), {.causal = true});
    const std::uint64_t before = memory_stats(cpu).requests;
    const Tensor got = scaled_dot_product_attention(q, k, v, {.causal = true});
    CHECK(memory_stats(cpu).requests - before == 2);  // the two results, no copies
    CHECK(got.to_vector<double>() == want.to_vector<double>());
  }
}

TEST_CASE("attention writes rows of all heads side by side, and reads cotangents as they come",
          "[attention]") {
  Generator generator(21);
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const Sizes& s : {Sizes{2, 4, 2, 67, 70, 24}, Sizes{2, 2, 2, 1, 9, 8}, Sizes{1, 1, 1, 33, 33, 16}})
      for (int variant = 0; variant < kVariants; ++variant) {
        CAPTURE(dtype, s.queries, variant);
        run_layouts(Inputs(s, dtype), variant_of(variant, s, generator), cpu);
      }
  // The views that models make next cost nothing.
  const Inputs in({2, 3, 3, 5, 5, 8}, f32);
  const Tensor y = scaled_dot_product_attention(in.q, in.k, in.v);
  const std::size_t before = memory_stats(cpu).requests;
  const Tensor joined = y.transpose(1, 2).reshape({2, 5, 24});
  CHECK(memory_stats(cpu).requests == before);
  CHECK(joined.is_contiguous());
  CHECK(joined.impl()->storage == y.impl()->storage);
  CHECK(scaled_dot_product_attention(in.q.narrow(2, 0, 1), in.k, in.v).is_contiguous());
}

TEST_CASE("one step of generation gives the last row of the whole", "[attention]") {
  const Sizes s{2, 8, 2, 40, 40, 64};
  const Inputs in(s, f32);
  const Tensor whole = scaled_dot_product_attention(in.q, in.k, in.v, {.causal = true});
  const Tensor step =
      scaled_dot_product_attention(in.q.narrow(2, 39, 1), in.k, in.v, {.causal = true, .causal_offset = 39});
  CHECK(largest_difference(step, whole.narrow(2, 39, 1)) < 2e-6);
}

TEST_CASE("attention needs memory for its inputs and results, not for the scores", "[attention]") {
  const std::int64_t length = 4096, dim = 16;
  const Inputs in({1, 2, 2, length, length, dim}, f32);
  std::vector<Tensor> leaves{in.q, in.k, in.v};
  for (Tensor& t : leaves) t.set_requires_grad();
  const std::size_t before = memory_stats(cpu).in_use;
  reset_peak_stats(cpu);
  const Tensor y = scaled_dot_product_attention(in.q, in.k, in.v, {.causal = true});
  y.backward(y.detach());
  const std::size_t used = memory_stats(cpu).peak_in_use - before;
  const auto one = static_cast<std::size_t>(in.q.nbytes());  // 512 KiB; the scores of a head are 64 MiB
  CHECK(used < 16 * one);
}

TEST_CASE("attention refuses what does not fit", "[attention]") {
  const Tensor q = ones({1, 2, 3, 4}), wide = ones({1, 2, 3, 4}, {.dtype = f64});
  CHECK_THROWS_AS(scaled_dot_product_attention(q, wide, wide), DTypeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q, q, {.dropout_p = -0.1}), ValueError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q, q, {.scale = std::nan("")}), ValueError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q.select(0, 0), q), ShapeError);
}

TEST_CASE("attention that fails draws nothing", "[attention]") {
  Generator generator(1);
  const Tensor q = ones({1, 2, 3, 4});
  CHECK_THROWS_AS(
      scaled_dot_product_attention(q, q, q, {.mask = ones({2, 3}), .dropout_p = 0.5, .generator = generator}),
      ShapeError);
  CHECK(generator.offset() == 0);
}

TEST_CASE("attention on CUDA agrees with the CPU", "[attention][cuda]") {
  const std::pair<DType, double> dtypes[] = {{f64, 1e-12}, {f32, 2e-5}, {f16, 6e-3}, {bf16, 5e-2}};
  const Sizes sizes[] = {{2, 4, 2, 100, 130, 40}, {1, 2, 2, 257, 257, 64}, {1, 2, 1, 64, 300, 128},
                         {1, 2, 2, 70, 70, 256},  {2, 6, 2, 1, 1000, 128}, {1, 3, 3, 33, 65, 17}};
  for (const auto& [dtype, tolerance] : dtypes)
    for (const Sizes& s : sizes)
      for (int variant = 0; variant < 5; ++variant) {
        CAPTURE(dtype, s.queries, s.keys, s.dim, variant);
        Generator generator(21), mask_of(4);
        AttentionOptions options{.generator = generator};
        options.causal = variant == 1 || variant == 3;
        options.causal_offset = variant == 1 ? s.keys - s.queries : 2;
        if (variant == 2) options.mask = randn({s.heads, s.queries, s.keys}, {.dtype = f32}, mask_of);
        if (variant == 3) options.dropout_p = 0.2;
        if (variant == 4) options.mask = lower_triangle(s.queries, s.keys, 9);
        const Inputs in(s, dtype);
        const std::vector<Tensor> want = run(scaled_dot_product_attention, in, options);
        Inputs there = in;
        there.q = in.q.to(cuda(0)), there.k = in.k.to(cuda(0)), there.v = in.v.to(cuda(0));
        AttentionOptions moved{options.mask.defined() ? options.mask.to(cuda(0)) : Tensor{},
                               options.causal,
                               options.causal_offset,
                               options.dropout_p,
                               options.scale,
                               generator};
        generator.set_state({21, 0});
        const std::vector<Tensor> got = run(scaled_dot_product_attention, there, moved);
        for (std::size_t i = 0; i < got.size(); ++i) {
          CAPTURE(i);
          CHECK(largest_difference(got[i].to(f64).to(cpu), want[i].to(f64)) < tolerance * (i == 4 ? 4 : 1));
        }
      }
}

TEST_CASE("gradients of a packed projection are written where they belong", "[attention][cuda]") {
  for (const DType dtype : {f16, bf16, f32})
    for (const std::int64_t dim : {16, 32, 64, 80, 96, 128, 200, 256})
      for (int variant = 0; variant < 4; ++variant)
        for (const int parts : {3, 2}) {  // two: v is a tensor of its own, as it is for other packings
          const Sizes s{2, 3, 3, 133, 133, dim};
          CAPTURE(dtype, dim, variant, parts);
          Generator generator(21), values(5);
          AttentionOptions o = variant_of(variant, s, generator);
          if (o.mask.defined()) o.mask = o.mask.to(cuda(0));
          const Tensor packed = randn({s.batch, s.queries, 3, s.heads, dim}, {.dtype = f32}, values)
                                    .to(cuda(0), dtype)
                                    .set_requires_grad();
          const Tensor g =
              randn({s.batch, s.heads, s.queries, dim}, {.dtype = f32}, values).to(cuda(0), dtype);
          const auto gradients = [&](bool apart) {
            std::vector<Tensor> x = packed.unbind(2);
            for (std::size_t i = 0; i < x.size(); ++i) {
              x[i] = x[i].transpose(1, 2);
              if (apart || static_cast<int>(i) >= parts) x[i] = x[i].contiguous();
            }
            generator.set_state({21, 0});
            const Tensor outputs[] = {scaled_dot_product_attention(x[0], x[1], x[2], o)}, cotangents[] = {g};
            const Tensor inputs[] = {packed, x[0], x[1], x[2]};
            return grad(outputs, inputs, cotangents);
          };
          const std::vector<Tensor> want = gradients(true), got = gradients(false);
          for (std::size_t i = 0; i < got.size(); ++i) {
            CAPTURE(i);
            CHECK(got[i].to_vector<double>() == want[i].to_vector<double>());
          }
          CHECK(got[0].is_contiguous());
          const bool as_one = parts == 3 && dtype != f32;
          for (std::size_t i = 1; i < 4; ++i)
            CHECK((got[i].impl()->storage == got[0].impl()->storage) == as_one);
        }
}

// Every kernel there is: by dtype, head dimension (17: not for tensor cores) and variant.
TEST_CASE("attention on CUDA writes and reads any layout as the CPU does", "[attention][cuda]") {
  const std::pair<DType, double> dtypes[] = {{f64, 1e-12}, {f32, 2e-5}, {f16, 6e-3}, {bf16, 5e-2}};
  Generator generator(21);
  for (const auto& [dtype, tolerance] : dtypes)
    for (const std::int64_t dim : {16, 17, 32, 64, 80, 96, 128, 200, 256})
      for (const Sizes& s : {Sizes{2, 4, 2, 135, 141, dim}, Sizes{1, 3, 3, 1, 65, dim}})
        for (int variant = 0; variant < kVariants; ++variant) {
          CAPTURE(dtype, dim, s.queries, variant);
          const Inputs in(s, dtype);
          const AttentionOptions options = variant_of(variant, s, generator);
          const std::vector<Tensor> want = run_layouts(in, options, cpu),
                                    got = run_layouts(in, options, cuda(0));
          REQUIRE(got.size() == want.size());
          for (std::size_t i = 0; i < got.size(); ++i) {
            CAPTURE(i);
            CHECK(largest_difference(got[i].to(f64).to(cpu), want[i].to(f64)) < tolerance * (i == 4 ? 4 : 1));
          }
        }
}

TEST_CASE("what a mask hides counts for nothing on CUDA, not even where it is NaN", "[attention][cuda]") {
  for (const DType dtype : {f32, bf16, f16})
    for (const std::int64_t queries : {3, 200}) {
      const Inputs in({1, 2, 1, queries, queries, 16}, f32);
      in.k.data<float>()[16 * 2] = std::numeric_limits<float>::quiet_NaN();  // of key 2
      const Tensor seen = lower_triangle(queries, queries, 0);
      const Tensor added = where(seen, zeros({}), full({}, -std::numeric_limits<float>::infinity()));
      for (const Tensor& mask : {seen, added, added.to(dtype)}) {
        const V y = scaled_dot_product_attention(in.q.to(dtype).to(cuda(0)), in.k.to(dtype).to(cuda(0)),
                                                 in.v.to(dtype).to(cuda(0)), {.mask = mask.to(cuda(0))})
                        .to_vector<double>();
        for (std::int64_t i = 0; i < 2 * queries; ++i) {
          CAPTURE(dtype, queries, i);
          CHECK(std::isnan(y[static_cast<std::size_t>(16 * i)]) == (i % queries >= 2));
        }
      }
    }
}
