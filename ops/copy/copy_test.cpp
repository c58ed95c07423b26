#include <cotangent/ops/copy/copy.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/engine/walk/calls.h>
#include <cotangent/ops/engine/walk/copy.h>

#include "tests/catch.h"

using ct::Shape;
using ct::Tensor;

namespace {

using Numbers = std::vector<double>;
Numbers values(const Tensor& t) { return t.to_vector<double>(); }
Numbers grad_of(const Tensor& t) { return values(t.grad()); }

const std::vector<ct::DType> kAll = {ct::f32, ct::f64, ct::f16, ct::bf16,
                                     ct::i64, ct::i32, ct::u8,  ct::boolean};

std::vector<ct::Device> devices() {
  std::vector<ct::Device> all{ct::cpu};
  if (ct::cuda_is_available()) all.push_back(ct::cuda());
  return all;
}

// Expected t.to(dtype) for small whole numbers.
double expected(double v, ct::DType dtype) {
  if (dtype == ct::boolean) return v != 0;
  if (dtype == ct::u8) return static_cast<double>(static_cast<std::uint8_t>(static_cast<int>(v)));
  return v;
}

}  // namespace

TEST_CASE("all dtypes convert to all dtypes", "[copy]") {
  // More than one vector and one chunk of work, with a tail.
  std::vector<double> source;
  for (int i = 0; i < 1037; ++i) source.push_back(i % 7 == 0 ? 0 : i % 120 - 19);
  for (const ct::Device device : devices()) {
    for (const ct::DType from : kAll) {
      Tensor x = ct::from_vector(source).to(from);
      std::vector<double> start;
      for (const double v : source) start.push_back(expected(v, from));
      REQUIRE(values(x) == start);
      x = x.to(device);
      for (const ct::DType to : kAll) {
        INFO(ct::name(from) << " to " << ct::name(to) << " on " << ct::to_string(device));
        Numbers want;
        for (const double v : start) want.push_back(expected(v, to));
        REQUIRE(values(x.to(to)) == want);
        // The same through strides, where conversion takes another way.
        REQUIRE(values(x.slice(0, 0, 1036).view({14, 74}).t().to(to)) ==
                values(ct::walk::calls::contiguous(x.slice(0, 0, 1036).view({14, 74}).t()).to(to)));
        REQUIRE(values(x.slice(0, 1, INT64_MAX, 3).to(to)) ==
                values(ct::walk::calls::contiguous(x.slice(0, 1, INT64_MAX, 3)).to(to)));
        REQUIRE(values(x.narrow(0, 1, 900).to(to)) ==
                values(ct::walk::calls::contiguous(x.narrow(0, 1, 900)).to(to)));  // unaligned
      }
    }
  }
}

TEST_CASE("conversion rounds, truncates and saturates as documented", "[copy]") {
  const double inf = INFINITY, nan = NAN;
  for (const ct::Device device : devices()) {
    const auto convert = [&](std::vector<double> in, ct::DType via, ct::DType to) {
      return values(ct::from_vector(in).to(via).to(device).to(to));
    };
    for (const ct::DType via : {ct::f32, ct::f64}) {
      CHECK(convert({2.9, -2.9, 0.5, -0.5}, via, ct::i32) == Numbers{2, -2, 0, 0});
      CHECK(convert({2.9, -2.9, 0.5, -0.5}, via, ct::i64) == Numbers{2, -2, 0, 0});
      CHECK(convert({3.7, 255, 256, -1, 300.5}, via, ct::u8) == Numbers{3, 255, 0, 255, 44});
      CHECK(convert({1e10, -1e10, inf, -inf, nan}, via, ct::i32) ==
            Numbers{2147483647, -2147483648.0, 2147483647, -2147483648.0, 0});
      CHECK(convert({0.0, -0.0, 0.25, nan, -inf}, via, ct::boolean) == Numbers{0, 0, 1, 1, 1});
      const std::vector<std::int64_t> wide = ct::from_vector(std::vector<double>{1e30, -1e30, nan})
                                                 .to(via)
                                                 .to(device)
                                                 .to(ct::i64)
                                                 .to_vector<std::int64_t>();
      CHECK(wide == std::vector<std::int64_t>{INT64_MAX, INT64_MIN, 0});
    }
    // Rounding is to nearest, ties to even; above the largest finite number comes infinity; subnormals are
    // kept.
    CHECK(convert({2049, 2051, 65519, 65520, 5.9604644775390625e-8, 2.98e-8}, ct::f32, ct::f16) ==
          Numbers{2048, 2052, 65504, inf, 5.9604644775390625e-8, 0});
    CHECK(convert({257, 259, 1e38, 3.4e38}, ct::f32, ct::bf16) ==
          Numbers{256, 260, static_cast<double>(static_cast<float>(ct::BFloat16(1e38f))), inf});
    CHECK(convert({1.0 + 1e-9}, ct::f64, ct::f32) == Numbers{1});
    CHECK(std::isnan(convert({nan}, ct::f64, ct::f16)[0]));
    CHECK(std::isnan(convert({nan}, ct::f32, ct::bf16)[0]));
    const Tensor big = ct::tensor({9007199254740993, 4294967297, -1L}).to(device);
    CHECK(big.to(ct::i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 1, -1});
    CHECK(big.to(ct::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 1, 255});
    CHECK(big.to_vector<std::int64_t>()[0] == 9007199254740993);  // no detour through floating point
    // Bytes other than 0 and 1 in a bool tensor from elsewhere count as true.
    std::uint8_t raw[] = {0, 1, 2, 255};
    const Tensor flags = ct::from_blob(raw, {4}, {.dtype = ct::boolean});
    CHECK(values(flags.to(device).to(ct::f32)) == Numbers{0, 1, 1, 1});
  }
}

TEST_CASE("copies of any layout into any layout", "[copy]") {
  // Every permutation of the axes on both sides, with gaps, in all element sizes; sizes that do and do not
  // fill tiles and vectors.
  std::vector<ct::Dims> orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const ct::Device device : devices()) {
    for (const Shape& shape :
         {Shape{3, 5, 7}, Shape{1, 40, 33}, Shape{2, 64, 128}, Shape{16, 1, 70}, Shape{5, 8, 2}}) {
      for (const ct::DType dtype : {ct::u8, ct::f16, ct::f32, ct::f64}) {
        const Tensor source = ct::arange(ct::numel(shape)).to(dtype).view(shape).to(device);
        const Numbers want = values(source);
        const auto laid_out = [&](const ct::Dims& order, std::int64_t gap) {
          Shape permuted = shape;
          ct::Dims inverse = order;
          for (int i = 0; i < 3; ++i) {
            permuted[i] = shape[static_cast<int>(order[i])];
            inverse[static_cast<int>(order[i])] = i;
          }
          permuted[2] += gap;
          const Tensor base = ct::full(permuted, 77, {.dtype = dtype, .device = device});
          return base.narrow(2, 0, permuted[2] - gap).permute(inverse);
        };
        for (const ct::Dims& from : orders) {
          Tensor src = laid_out(from, 0);
          ct::walk::calls::assign(src, source);
          REQUIRE(values(src) == want);
          for (const ct::Dims& to : orders)
            for (const std::int64_t gap : {0, 1, 4}) {
              INFO(shape << ' ' << ct::name(dtype) << " from " << from << " to " << to << " gap " << gap);
              const Tensor dst = laid_out(to, gap);
              ct::walk::calls::assign(dst, src);
              REQUIRE(values(dst) == want);
            }
        }
      }
    }
  }
}

TEST_CASE("a copy writes nothing beside its target", "[copy]") {
  for (const ct::Device device : devices()) {
    for (const ct::DType dtype : kAll) {
      Tensor whole = ct::zeros({6, 67}, {.dtype = dtype, .device = device});
      whole.slice(0, 1, 6, 2).slice(1, 3, 60).copy_(ct::ones({}, {.device = device}));
      double sum = 0;
      for (const double v : values(whole)) sum += v;
      CHECK(sum == 3 * 57);
      CHECK(values(whole.select(0, 1))[2] == 0);
      CHECK(values(whole.select(0, 1))[60] == 0);
      Tensor filled = ct::zeros({5, 7}, {.dtype = dtype, .device = device});
      filled.slice(1, 1, 6, 2).fill_(1);
      sum = 0;
      for (const double v : values(filled)) sum += v;
      CHECK(sum == 15);
    }
  }
}

TEST_CASE("long runs are copied whole from any place of a page to any other", "[copy]") {
  Tensor from = ct::empty({16384}, {.dtype = ct::u8});
  auto* const bytes = from.data<std::uint8_t>();
  for (std::int64_t i = 0; i < from.numel(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 251 + 1);
  for (const std::int64_t start : {0, 1, 4, 60})
    for (const std::int64_t behind : {0, 1, 4, 31, 32, 63, 64, 100, 4095})
      for (const std::int64_t n : {2047, 2048, 2049, 2111, 2113, 4096, 5003}) {
        Tensor to = ct::zeros({16384}, {.dtype = ct::u8});
        to.slice(0, start + behind, start + behind + n).copy_(from.slice(0, start, start + n));
        const auto* const got = to.data<std::uint8_t>();
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < to.numel(); ++i) {
          const std::int64_t k = i - behind;
          wrong += got[i] != (k >= start && k < start + n ? bytes[k] : 0);
        }
        INFO("start " << start << " behind " << behind << " n " << n);
        REQUIRE(wrong == 0);
      }
}

TEST_CASE("large transposes", "[copy]") {
  for (const ct::Device device : devices()) {
    for (const ct::DType dtype : {ct::u8, ct::bf16, ct::i32, ct::i64}) {
      for (const auto& [rows, columns] : {std::pair{513, 1030}, std::pair{512, 1024}, std::pair{1000, 136}}) {
        const Tensor x = ct::arange(std::int64_t{rows} * columns).to(dtype).view({rows, columns}).to(device);
        const std::vector<double> in = values(x);
        const std::vector<double> out = values(x.t().contiguous());
        bool same = true;
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < columns; ++c)
            same = same && out[static_cast<std::size_t>(c * rows + r)] ==
                               in[static_cast<std::size_t>(r * columns + c)];
        CHECK(same);
      }
    }
  }
}

TEST_CASE("clone, contiguous, to", "[copy]") {
  const Tensor x = ct::arange(6.f).view({2, 3});
  CHECK(x.contiguous().is_same(x));
  CHECK(x.to(ct::f32).is_same(x));
  CHECK(x.to(ct::cpu).is_same(x));
  CHECK(x.clone().raw_data() != x.raw_data());
  CHECK(x.t().clone().is_contiguous());
  CHECK(values(x.t().contiguous()) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(x.to(ct::cpu, ct::f64).dtype() == ct::f64);
  CHECK(ct::zeros({0, 3}).t().contiguous().shape() == Shape{3, 0});
  CHECK(ct::zeros({0, 3}).to(ct::i64).numel() == 0);
  CHECK_THROWS_AS(x.to(ct::cuda(15)), ct::DeviceError);
  const Tensor pinned = x.t().pin_memory();
  CHECK(pinned.is_contiguous());
  CHECK(values(pinned) == Numbers{0, 3, 1, 4, 2, 5});
}

TEST_CASE("item and to_vector", "[copy]") {
  for (const ct::Device device : devices()) {
    for (const ct::DType dtype : kAll) {
      const Tensor one = ct::ones({1, 1}, {.dtype = dtype, .device = device});
      CHECK(one.item() == 1);
      CHECK(one.item<int>() == 1);
      CHECK(one.item<bool>());
      CHECK(one.item_scalar().is_floating() == ct::is_floating(dtype));
    }
    CHECK(ct::tensor({1.f, 2.5f}).to(device)[1].item<float>() == 2.5f);
    CHECK(ct::tensor(9007199254740993).to(device).item<std::int64_t>() == 9007199254740993);
    const Tensor x = ct::tensor({{1.f, 0.f}, {-3.f, 4.f}}).to(device);
    CHECK(x.t().to_vector<int>() == std::vector<int>{1, -3, 0, 4});
    CHECK(x.to_vector<bool>() == std::vector<bool>{true, false, true, true});
    CHECK(static_cast<float>(x.to_vector<ct::Half>()[2]) == -3);
    CHECK(ct::zeros({0}).to(device).to_vector<float>().empty());
  }
  CHECK_THROWS_AS(ct::zeros({2}).item(), ct::ShapeError);
  CHECK_THROWS_AS(ct::zeros({0}).item(), ct::ShapeError);
  CHECK_THROWS_WITH(ct::zeros({2}).item(), Catch::Contains("[item] tensor f32[2] has 2 elements"));
}

TEST_CASE("copy_ broadcasts and converts", "[copy]") {
  Tensor x = ct::zeros({2, 3});
  x.copy_(ct::tensor({1, 2, 3}));
  CHECK(values(x) == Numbers{1, 2, 3, 1, 2, 3});
  CHECK(x.impl()->storage->version() == 1);
  x.t().copy_(ct::tensor({{1, 2}, {3, 4}, {5, 6}}));
  CHECK(values(x) == Numbers{1, 3, 5, 2, 4, 6});
  x.copy_(ct::tensor(true));
  CHECK(values(x) == Numbers{1, 1, 1, 1, 1, 1});
  x.copy_(x);
  x.zero_();
  CHECK(values(x) == Numbers{0, 0, 0, 0, 0, 0});
  // Overlapping views of one memory.
  Tensor y = ct::arange(5);
  y.narrow(0, 1, 4).copy_(y.narrow(0, 0, 4));
  CHECK(values(y) == Numbers{0, 0, 1, 2, 3});
  CHECK_THROWS_AS(x.copy_(ct::zeros({3, 2})), ct::ShapeError);
  CHECK_THROWS_AS(x.copy_(ct::zeros({1, 2, 3})), ct::ShapeError);
  CHECK_THROWS_AS(ct::zeros({1}).expand({3}).copy_(ct::zeros({3})), ct::ShapeError);
  CHECK_THROWS_WITH(ct::zeros({1}).expand({3}).copy_(ct::zeros({3})),
                    Catch::Contains("axis 0 of f32[3] is expanded"));
}

TEST_CASE("gradients of conversions arrive in the input's dtype", "[copy]") {
  for (const ct::Device device : devices()) {
    Tensor x = ct::tensor({1.f, 2.f, 3.f}, {.device = device, .requires_grad = true});
    x.to(ct::f64).backward(ct::tensor({1., 2., 4.}, {.dtype = ct::f64, .device = device}));
    CHECK(x.grad().dtype() == ct::f32);
    CHECK(grad_of(x) == Numbers{1, 2, 4});
    x.set_grad({});
    x.to(ct::f16).to(ct::bf16).clone().backward(
        ct::tensor({1., 2., 4.}, {.dtype = ct::bf16, .device = device}));
    CHECK(grad_of(x) == Numbers{1, 2, 4});
    CHECK(!x.to(ct::i64).requires_grad());
  }
}

TEST_CASE("copy_ on the tape", "[copy]") {
  const Tensor a = ct::tensor({1., 2., 3.}, {.dtype = ct::f64, .requires_grad = true});
  Tensor b = ct::tensor({5.f}, {.requires_grad = true});
  Tensor y = a.clone();
  y.copy_(b);  // broadcast and converted: a's gradient ends here
  y.backward(ct::tensor({1., 10., 100.}, {.dtype = ct::f64}));
  CHECK(grad_of(a) == Numbers{0, 0, 0});
  CHECK(grad_of(b) == Numbers{111});
  CHECK(b.grad().dtype() == ct::f32);

  Tensor plain = ct::zeros({2});  // becomes part of the tape
  plain.copy_(b);
  CHECK(plain.requires_grad());
  b.set_grad({});
  plain.backward(ct::ones({2}));
  CHECK(grad_of(b) == Numbers{2});

  Tensor leaf = ct::zeros({2}, {.requires_grad = true});
  CHECK_THROWS_AS(leaf.copy_(ct::ones({2})), ct::AutogradError);
  CHECK_THROWS_AS(leaf.fill_(1), ct::AutogradError);
  {
    const ct::NoGrad guard;
    leaf.copy_(ct::ones({2}));
  }
  CHECK(values(leaf) == Numbers{1, 1});
  CHECK(leaf.is_leaf());
  // A part of a recorded tensor can't take a recorded value: the whole would not know.
  Tensor whole = a.clone();
  CHECK_THROWS_AS(whole.narrow(0, 0, 1).copy_(b), ct::AutogradError);
}

TEST_CASE("fill_ and zero_ stop the gradient", "[copy]") {
  const Tensor a = ct::tensor({1., 2.}, {.dtype = ct::f64, .requires_grad = true});
  Tensor y = a.clone();
  y.fill_(3);
  CHECK(values(y) == Numbers{3, 3});
  y.backward(ct::ones({2}, {.dtype = ct::f64}));
  CHECK(grad_of(a) == Numbers{0, 0});
  Tensor z = ct::ones({3}, {.dtype = ct::u8});
  z.fill_(2.9);
  CHECK(values(z) == Numbers{2, 2, 2});
}

TEST_CASE("an in-place change of a saved tensor is found", "[copy]") {
  const Tensor x = ct::ones({2}, {.requires_grad = true});
  Tensor y = x.to(ct::f64);
  const std::uint32_t before = y.impl()->storage->version();
  {
    const ct::NoGrad guard;
    y.copy_(ct::zeros({2}));
    y.fill_(1);
    y.zero_();
  }
  CHECK(y.impl()->storage->version() == before + 3);
}

TEST_CASE("ops that the tape calls", "[copy]") {
  for (const ct::Device device : devices()) {
    for (const ct::DType dtype : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
      Numbers terms, sums;
      for (int i = 0; i < 70'000; ++i) {
        terms.push_back(i % 100);
        sums.push_back(i % 100 + 0.5);
      }
      const Tensor a = ct::from_vector(terms, {.dtype = dtype, .device = device});
      const Tensor b = ct::full_like(a, 0.5);
      Tensor sum = a;
      ct::detail::add_gradient(sum, b, false);
      CHECK((values(sum) == sums));
      CHECK((values(a) == terms));
      sum = a;
      ct::detail::add_gradient(sum, b, true);
      CHECK(sum.is_same(a));
      CHECK((values(a) == sums));
      CHECK(ct::detail::all_finite(b));
      Tensor part = ct::zeros({4, 5}, {.dtype = dtype, .device = device});
      Tensor view = part.t().slice(0, 1, 5, 2);
      ct::detail::add_gradient(view, ct::ones({1}, {.dtype = dtype, .device = device}).expand({2, 4}), true);
      CHECK(values(part) == Numbers{0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0});
      for (const double bad : {std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(), std::nan("")}) {
        Tensor t = ct::zeros({100'001}, {.dtype = dtype, .device = device});
        CHECK(ct::detail::all_finite(t));
        t.narrow(0, 100'000, 1).fill_(bad);
        CHECK(!ct::detail::all_finite(t));
        CHECK(ct::detail::all_finite(t.narrow(0, 0, 100'000)));
        CHECK(!ct::detail::all_finite(t.slice(0, 0, INT64_MAX, 10)));
      }
      CHECK(values(ct::detail::filled({{2}, dtype, device}, 1)) == Numbers{1, 1});
      CHECK(values(ct::detail::filled({{2}, dtype, device}, 0)) == Numbers{0, 0});
      CHECK(ct::detail::all_finite(ct::zeros({0}, {.dtype = dtype, .device = device})));
    }
    const Tensor largest = ct::full({9}, 65504, {.dtype = ct::f16, .device = device});
    CHECK(ct::detail::all_finite(largest));
  }
}

TEST_CASE("to the GPU and back", "[copy][cuda]") {
  const ct::Device gpu = ct::cuda();
  const Tensor x = ct::arange(1000.f).view({10, 100});
  for (const Tensor& t :
       {x, x.t(), x.slice(1, 3, 90, 7), x.narrow(0, 2, 0), x[3], x.pin_memory(), x.pin_memory().t()}) {
    CHECK(t.to(gpu).device() == gpu);
    CHECK(values(t.to(gpu)) == values(t));
    CHECK(values(t.to(gpu).to(ct::cpu)) == values(t));
    CHECK(values(t.to(gpu, ct::f16).to(ct::cpu, ct::f64)) == values(t));
  }
  Tensor host = ct::zeros({100, 10}, {.dtype = ct::f64});
  host.copy_(x.t().to(gpu));
  CHECK(values(host) == values(x.t()));
  Tensor device = ct::zeros({4, 100}, {.dtype = ct::bf16, .device = gpu});
  device.slice(0, 0, 4, 2).copy_(ct::arange(100).view({1, 100}));
  CHECK(values(device[2]) == values(ct::arange(100)));
  CHECK(values(device[1]) == Numbers(100, 0));
}

TEST_CASE("a fill on the GPU writes its elements and no others, wherever they begin", "[copy][cuda]") {
  for (const ct::DType dtype : kAll) {
    for (const std::int64_t start : {0, 1, 3, 7}) {
      for (const std::int64_t count : {1, 5, 16, 37, 5000}) {
        INFO(dtype << " from " << start << ", " << count);
        Tensor x = ct::zeros({5020}, {.dtype = dtype, .device = ct::cuda()});
        x.narrow(0, start, count).fill_(1);
        Numbers want(5020, 0);
        std::fill_n(want.begin() + start, count, 1);
        CHECK(values(x) == want);
      }
    }
  }
}

TEST_CASE("a strided copy on the GPU of more elements than 32 bits number", "[copy][cuda]") {
  const std::int64_t rows = std::int64_t{1} << 30;
  const Tensor row = ct::arange(1, 4).to(ct::cuda(), ct::u8);
  const Tensor x = row.expand({rows, 3}).contiguous();
  for (const std::int64_t i : {std::int64_t{0}, rows / 2 - 1, rows / 2, rows - 1})
    CHECK(values(x[i]) == Numbers{1, 2, 3});
  CHECK(values(x.select(1, 2).slice(0, 1, rows, rows / 1024)) == Numbers(1024, 3));
}

TEST_CASE("gradients cross devices", "[copy][cuda]") {
  Tensor x = ct::tensor({1.f, 2.f}, {.requires_grad = true});
  x.to(ct::cuda()).backward(ct::tensor({3.f, 4.f}, {.device = ct::cuda()}));
  CHECK(x.grad().is_cpu());
  CHECK(grad_of(x) == Numbers{3, 4});
  const Tensor y = ct::tensor({1.f, 2.f}, {.device = ct::cuda(), .requires_grad = true});
  y.to(ct::cpu, ct::f64).backward(ct::tensor({3.f, 4.f}, {.dtype = ct::f64}).expand({2}));
  CHECK(y.grad().is_cuda());
  CHECK(grad_of(y) == Numbers{3, 4});
  Tensor target = ct::zeros({2, 2}, {.device = ct::cuda()});
  target.copy_(x);  // recorded, from the CPU
  x.set_grad({});
  target.backward(ct::ones({2, 2}, {.device = ct::cuda()}));
  CHECK(grad_of(x) == Numbers{2, 2});
}

TEST_CASE("copies from pinned memory do not wait, and keep their source alive", "[copy][cuda]") {
  const std::int64_t n = 1 << 22;
  std::vector<Tensor> on_gpu;
  for (int i = 0; i < 8; ++i) {
    const Tensor pinned = ct::full({n}, i, {.dtype = ct::f32}).pin_memory();
    REQUIRE(pinned.is_pinned());
    const std::uint64_t before = ct::sync_count();
    on_gpu.push_back(pinned.to(ct::cuda()));  // the pinned block goes back to its cache at once
    CHECK(ct::sync_count() == before);
  }
  for (int i = 0; i < 8; ++i) {
    const Tensor back = on_gpu[static_cast<std::size_t>(i)].to(ct::cpu);
    CHECK(back[0].item() == i);
    CHECK(back[n - 1].item() == i);
  }
}

TEST_CASE("item and copies to the CPU can be made an error", "[copy][cuda]") {
  const Tensor x = ct::ones({1}, {.device = ct::cuda()});
  const ct::SyncPolicyGuard guard(ct::SyncPolicy::error);
  CHECK_THROWS_AS(x.item(), ct::DeviceError);
  CHECK_THROWS_AS(x.to(ct::cpu), ct::DeviceError);
  CHECK_NOTHROW(x.clone().to(ct::f16));
}
