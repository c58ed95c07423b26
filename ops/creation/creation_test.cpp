#include <cotangent/ops/creation/creation.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <cotangent/core/base/philox.h>
#include <cotangent/ops/testing/allocators.h>
#include <cotangent/ops/view/view.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using ct::Shape;
using ct::Tensor;

namespace {

template <class T>
std::vector<T> list(std::initializer_list<T> values) {
  return values;
}
using ct::testing::values;
std::vector<std::int64_t> integers(const Tensor& t) { return t.to_vector<std::int64_t>(); }

// Every dtype, by name.
const std::vector<ct::DType> kAll = {ct::f32, ct::f64, ct::f16, ct::bf16,
                                     ct::i64, ct::i32, ct::u8,  ct::boolean};

}  // namespace

TEST_CASE("constant tensors", "[creation]") {
  CHECK(ct::empty({2, 3}).shape() == Shape{2, 3});
  CHECK(ct::empty({}).numel() == 1);
  CHECK(values(ct::zeros({2, 2})) == list<double>({0, 0, 0, 0}));
  for (const ct::DType dtype : kAll) {
    const Tensor t = ct::ones({3}, {.dtype = dtype});
    CHECK(t.dtype() == dtype);
    CHECK(values(t) == list<double>({1, 1, 1}));
    CHECK(values(ct::zeros_like(t)) == list<double>({0, 0, 0}));
    CHECK(ct::full_like(t, 3).dtype() == dtype);
  }
  CHECK(ct::full({2}, 2.5).dtype() == ct::f32);
  CHECK(ct::full({2}, 2).dtype() == ct::i64);
  CHECK(ct::full({2}, true).dtype() == ct::boolean);
  CHECK(values(ct::full({2}, 2.5, {.dtype = ct::f16})) == list<double>({2.5, 2.5}));
  CHECK(ct::scalar(4).dim() == 0);
  CHECK(ct::zeros({0, 3}).numel() == 0);
  CHECK(values(ct::eye(2, 3)) == list<double>({1, 0, 0, 0, 1, 0}));
  CHECK(values(ct::eye(3, 2, {.dtype = ct::i32})) == list<double>({1, 0, 0, 1, 0, 0}));
  CHECK(ct::eye(0).shape() == Shape{0, 0});
  CHECK(ct::ones({2}, {.requires_grad = true}).requires_grad());
}

TEST_CASE("like-tensors take shape, dtype and device, not the gradient", "[creation]") {
  const Tensor x = ct::ones({2, 3}, {.dtype = ct::f64, .requires_grad = true});
  for (const Tensor& t : {ct::empty_like(x), ct::zeros_like(x), ct::ones_like(x), ct::full_like(x, 2),
                          ct::rand_like(x), ct::randn_like(x)}) {
    CHECK(t.shape() == x.shape());
    CHECK(t.dtype() == ct::f64);
    CHECK(!t.requires_grad());
  }
  CHECK(ct::zeros_like(x.t()).is_contiguous());
}

TEST_CASE("creation refuses what makes no sense", "[creation]") {
  CHECK_THROWS_AS(ct::zeros({2, -1}), ct::ShapeError);
  CHECK_THROWS_AS(ct::empty({INT64_MAX, 4}), ct::ShapeError);
  CHECK_THROWS_WITH(ct::arange(INT64_MIN, INT64_MAX, 1), Catch::Contains("that is too many"));
  CHECK_THROWS_AS(ct::empty({INT64_MAX / 2 + 1}), ct::OutOfMemoryError);  // 2^64 bytes are not 0
  CHECK_THROWS_AS(ct::eye(-1), ct::ShapeError);
  CHECK_THROWS_AS(ct::ones({2}, {.dtype = ct::i64, .requires_grad = true}), ct::DTypeError);
  CHECK_THROWS_AS(ct::ones({2}, {.device = ct::cuda(15)}), ct::DeviceError);
  CHECK_THROWS_WITH(ct::zeros({2, -1}), Catch::Contains("[zeros] shape [2, -1] has a negative size"));
}

TEST_CASE("what an integer dtype can't hold is refused, or saturates where it is converted", "[creation]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(ct::full({2}, nan, {.dtype = ct::i32}), ct::ValueError);
  CHECK_THROWS_AS(ct::full({2}, 300, {.dtype = ct::u8}), ct::ValueError);
  CHECK_THROWS_AS(ct::full({2}, -1, {.dtype = ct::u8}), ct::ValueError);
  CHECK_THROWS_AS(ct::full({2}, std::int64_t{1} << 40, {.dtype = ct::i32}), ct::ValueError);
  CHECK_THROWS_AS(ct::zeros({2}, {.dtype = ct::i64}).fill_(1e19), ct::ValueError);
  CHECK_THROWS_WITH(ct::zeros({2}, {.dtype = ct::u8}).fill_(256),
                    "[fill_] the value 256 does not fit into u8, which holds 0 to 255; pass one of "
                    "those, or use another dtype");
  CHECK(ct::full({1}, 255.9, {.dtype = ct::u8}).item<int>() == 255);
  CHECK(ct::full({1}, INT64_MIN, {.dtype = ct::i64}).item<std::int64_t>() == INT64_MIN);
  CHECK(ct::full({1}, 2147483647, {.dtype = ct::i32}).item<int>() == 2147483647);
  CHECK(ct::full({1}, -0x1p63, {.dtype = ct::i64}).item<std::int64_t>() == INT64_MIN);
  CHECK_THROWS_AS(ct::full({1}, 0x1p63, {.dtype = ct::i64}), ct::ValueError);
  CHECK_THROWS_AS(ct::full({1}, -2147483649.0, {.dtype = ct::i32}), ct::ValueError);
  CHECK_THROWS_AS(ct::full({1}, ~std::uint64_t{0}, {.dtype = ct::i64}), ct::ValueError);
  CHECK(ct::full({1}, std::uint64_t{1} << 63).item() == 0x1p63);
  CHECK_THROWS_WITH(ct::full_like(ct::zeros({2}, {.dtype = ct::u8}), 300),
                    "[full_like] the value 300 does not fit into u8, which holds 0 to 255; pass one of "
                    "those, or use another dtype");
  CHECK_THROWS_WITH(ct::full({2}, 2147483647.5 + 1, {.dtype = ct::i32}),
                    Catch::Contains("the value 2147483648.5 does not fit"));

  const auto both = [](double value, auto zero) {
    using T = decltype(zero);
    const ct::Tensor t = ct::full({}, value, {.dtype = ct::f64});  // converted by the host, and by the op
    CHECK(t.template item<T>() == t.to(ct::dtype_of<T>).template item<T>());
    return t.template item<T>();
  };
  CHECK(both(1e30, std::int32_t{}) == INT32_MAX);
  CHECK(both(-1e30, std::int64_t{}) == INT64_MIN);
  CHECK(both(nan, std::int64_t{}) == 0);
  CHECK(both(-2.9, std::int32_t{}) == -2);
}

TEST_CASE("arange counts like Python's range", "[creation]") {
  CHECK(integers(ct::arange(4)) == list<std::int64_t>({0, 1, 2, 3}));
  CHECK(ct::arange(4).dtype() == ct::i64);
  CHECK(ct::arange(4.0).dtype() == ct::f32);
  CHECK(integers(ct::arange(1, 8, 3)) == list<std::int64_t>({1, 4, 7}));
  CHECK(integers(ct::arange(7, 1, -3)) == list<std::int64_t>({7, 4}));
  CHECK(integers(ct::arange(INT64_MAX - 1, INT64_MAX)) == list<std::int64_t>({INT64_MAX - 1}));
  CHECK(integers(ct::arange(INT64_MIN, INT64_MAX, INT64_MAX)) ==
        list<std::int64_t>({INT64_MIN, -1, INT64_MAX - 1}));
  CHECK(ct::arange(3, 3).numel() == 0);
  CHECK(values(ct::arange(0, 1, 0.25, {.dtype = ct::f64})) == list<double>({0, 0.25, 0.5, 0.75}));
  CHECK(values(ct::arange(1.5, 3)) == list<double>({1.5, 2.5}));
  CHECK(values(ct::arange(3, {.dtype = ct::bf16})) == list<double>({0, 1, 2}));
  CHECK_THROWS_AS(ct::arange(0, 4, 0), ct::ValueError);
  CHECK_THROWS_AS(ct::arange(0, 4, -1), ct::ValueError);
  CHECK_THROWS_AS(ct::arange(4, 0, 1), ct::ValueError);
  CHECK_THROWS_AS(ct::arange(INFINITY), ct::ValueError);
  CHECK_THROWS_AS(ct::arange(0, 1e300, 1e-300), ct::ValueError);
  CHECK_THROWS_AS(ct::arange(2, {.dtype = ct::boolean}), ct::DTypeError);
}

TEST_CASE("linspace meets both ends exactly", "[creation]") {
  CHECK(values(ct::linspace(0, 1, 5, {.dtype = ct::f64})) == list<double>({0, 0.25, 0.5, 0.75, 1}));
  CHECK(values(ct::linspace(3, -3, 3)) == list<double>({3, 0, -3}));
  CHECK(values(ct::linspace(2, 9, 1)) == list<double>({2}));
  CHECK(ct::linspace(0, 1, 0).numel() == 0);
  for (const int n : {2, 7, 10, 49, 1000}) {
    const std::vector<double> v = values(ct::linspace(0.1, 0.7, n, {.dtype = ct::f64}));
    CHECK(v.front() == 0.1);
    CHECK(v.back() == 0.7);
    CHECK(std::is_sorted(v.begin(), v.end()));
  }
  CHECK_THROWS_AS(ct::linspace(0, 1, -1), ct::ValueError);
}

TEST_CASE("random tensors are elements of one draw", "[creation]") {
  ct::Generator g(3), same(3);
  const Tensor u = ct::rand({5, 7}, {}, g);
  const ct::GeneratorState draw{3, 0};
  for (int i = 0; i < 35; ++i)
    REQUIRE(u.data<float>()[i] == ct::philox_uniform<float>(draw, static_cast<std::uint64_t>(i)));
  CHECK(values(ct::rand({5, 7}, {}, same)) == values(u));
  CHECK(values(ct::rand({5, 7}, {}, same)) != values(u));  // the next draw
  const Tensor z = ct::randn({3000}, {.dtype = ct::f64}, g);
  for (int i = 0; i < 3000; ++i)
    REQUIRE(z.data<double>()[i] == ct::philox_normal<double>({3, 1}, static_cast<std::uint64_t>(i)));
  ct::manual_seed(11);
  const Tensor first = ct::rand({3});
  ct::manual_seed(11);
  CHECK(values(ct::rand({3})) == values(first));
  CHECK_THROWS_AS(ct::rand({3}, {.dtype = ct::i64}), ct::DTypeError);
}

TEST_CASE("uniform numbers of 16-bit types stay below 1", "[creation]") {
  ct::Generator g(5), h(5);
  const std::vector<double> f16 = values(ct::rand({200'000}, {.dtype = ct::f16}, g));
  const std::vector<double> f32 = values(ct::rand({200'000}, {}, h));
  CHECK(*std::max_element(f16.begin(), f16.end()) == 1 - 0x1p-11);
  CHECK(*std::min_element(f16.begin(), f16.end()) == 0);
  for (std::size_t i = 0; i < f16.size(); ++i) REQUIRE(f16[i] == std::floor(f32[i] * 2048) / 2048);
  const std::vector<double> bf16 = values(ct::rand({10'000}, {.dtype = ct::bf16}, g));
  CHECK(*std::max_element(bf16.begin(), bf16.end()) == 1 - 0x1p-8);
}

TEST_CASE("uniform_ and normal_ scale and shift", "[creation]") {
  ct::Generator g(1);
  for (const ct::DType dtype : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
    Tensor t = ct::empty({10'000}, {.dtype = dtype});
    std::vector<double> v = values(ct::uniform_(t, -0.5, 0.25, g));
    CHECK(*std::min_element(v.begin(), v.end()) >= -0.5);
    CHECK(*std::max_element(v.begin(), v.end()) < 0.25);
    CHECK(std::accumulate(v.begin(), v.end(), 0.0) / 1e4 ==
          Approx(-0.125).margin(4 * 0.75 / std::sqrt(12e4)));
    v = values(ct::normal_(t, 2, 0.5, g));
    CHECK(std::accumulate(v.begin(), v.end(), 0.0) / 1e4 == Approx(2).margin(4 * 0.5 / 100));
    CHECK(values(ct::uniform_(t, 3, 3, g))[17] == 3);
    // Mean and standard deviation of the exponential distribution are 1 / rate, and e^-1 of it lies above them.
    v = values(ct::exponential_(t, 4, g));
    CHECK(*std::min_element(v.begin(), v.end()) > 0);
    CHECK(std::accumulate(v.begin(), v.end(), 0.0) / 1e4 == Approx(0.25).margin(4 * 0.25 / 100));
    const auto above = static_cast<double>(std::ranges::count_if(v, [](double x) { return x > 0.25; }));
    CHECK(above / 1e4 == Approx(std::exp(-1)).margin(4 * 0.0048));
  }
  // Into a strided view, and only there.
  Tensor whole = ct::zeros({4, 6});
  Tensor part = whole.slice(1, 1, 6, 2);
  ct::uniform_(part, 1, 2, g);
  const std::vector<double> v = values(whole);
  for (std::size_t i = 0; i < v.size(); ++i) CHECK((v[i] != 0) == (i % 2 == 1));
  Tensor leaf = ct::zeros({2}, {.requires_grad = true});
  CHECK_THROWS_AS(ct::normal_(leaf, 0, 1), ct::AutogradError);
  CHECK_THROWS_AS(ct::uniform_(whole, 1, 0), ct::ValueError);
  CHECK_THROWS_AS(ct::normal_(whole, 1, -1), ct::ValueError);
  CHECK_THROWS_AS(ct::exponential_(whole, 0), ct::ValueError);
  Tensor ints = ct::zeros({2}, {.dtype = ct::i64});
  CHECK_THROWS_AS(ct::uniform_(ints, 0, 1), ct::DTypeError);
  Tensor wide = ct::zeros({1}).expand({3});
  CHECK_THROWS_AS(ct::uniform_(wide, 0, 1), ct::ShapeError);
}

TEST_CASE("randint and randperm", "[creation]") {
  ct::Generator g(9);
  const Tensor t = ct::randint(-2, 3, {10'000}, {}, g);
  CHECK(t.dtype() == ct::i64);
  std::vector<int> seen(5, 0);
  for (const std::int64_t v : integers(t)) ++seen.at(static_cast<std::size_t>(v + 2));
  for (const int n : seen) CHECK(std::abs(n - 2000) < 4 * 40);
  CHECK(ct::randint(0, 2, {3}, {.dtype = ct::f32}, g).dtype() == ct::f32);
  CHECK_THROWS_AS(ct::randint(3, 3, {2}), ct::ValueError);

  std::vector<std::int64_t> p = integers(ct::randperm(1000, {}, g));
  CHECK(!std::is_sorted(p.begin(), p.end()));
  std::sort(p.begin(), p.end());
  for (std::size_t i = 0; i < p.size(); ++i) REQUIRE(p[i] == static_cast<std::int64_t>(i));
  CHECK(ct::randperm(0).numel() == 0);
  CHECK_THROWS_AS(ct::randperm(-1), ct::ValueError);
}

TEST_CASE("randint and randperm refuse numbers that the dtype does not hold", "[creation]") {
  struct Limit {
    ct::DType dtype;
    std::int64_t low, high;
  };
  constexpr std::int64_t one = 1;
  for (const auto& [dtype, low, high] :
       {Limit{ct::u8, 0, 255}, Limit{ct::boolean, 0, 1}, Limit{ct::i32, INT32_MIN, INT32_MAX},
        Limit{ct::bf16, -256, 256}, Limit{ct::f16, -2048, 2048}, Limit{ct::f32, -one << 24, one << 24},
        Limit{ct::f64, -one << 53, one << 53}}) {
    CAPTURE(name(dtype));
    ct::Generator g(3);
    const ct::TensorOptions options{.dtype = dtype};
    CHECK_NOTHROW(ct::randint(low, high + 1, {4}, options, g));
    CHECK_THROWS_AS(ct::randint(low, high + 2, {4}, options, g), ct::ValueError);
    CHECK_THROWS_AS(ct::randint(low - 1, high, {4}, options, g), ct::ValueError);
    CHECK_THROWS_AS(ct::randperm(high + 2, options, g), ct::ValueError);
    CHECK(g.offset() == 1);
  }
  CHECK_NOTHROW(ct::randint(INT64_MIN, INT64_MAX, {4}));
  CHECK_THROWS_WITH(ct::randperm(300, {.dtype = ct::u8}),
                    "[randperm] numbers from 0 to 299 were asked for as u8, which holds those from 0 to 255; "
                    "choose a wider dtype");
  std::vector<std::int64_t> all = integers(ct::randperm(256, {.dtype = ct::u8}).to(ct::i64));
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == static_cast<std::int64_t>(i));
}

TEST_CASE("random tensors that can't be made take no random numbers", "[creation]") {
  ct::Generator g(3);
  CHECK_THROWS_AS(ct::randperm(INT64_MAX, {}, g), ct::OutOfMemoryError);
  CHECK_THROWS_AS(ct::randperm(INT64_MAX / 16, {}, g), ct::OutOfMemoryError);
  CHECK_THROWS_AS(ct::randperm(4, {.requires_grad = true}, g), ct::DTypeError);
  CHECK_THROWS_AS(ct::rand({2}, {.dtype = ct::i64}, g), ct::DTypeError);
  Tensor ints = ct::zeros({2}, {.dtype = ct::i64}), leaf = ct::zeros({2}, {.requires_grad = true}),
         wide = ct::zeros({1}).expand({3});
  CHECK_THROWS_AS(ct::normal_(ints, 0, 1, g), ct::DTypeError);
  CHECK_THROWS_AS(ct::normal_(leaf, 0, 1, g), ct::AutogradError);
  CHECK_THROWS_AS(ct::normal_(wide, 0, 1, g), ct::ShapeError);
  CHECK_THROWS_AS(ct::uniform_(wide, 0, 1, g), ct::ShapeError);
  Tensor turned = ct::zeros({3, 4}).t();
  {
    const ct::AllocatorGuard guard(
        ct::cpu, std::make_shared<ct::testing::FailingAllocator>(ct::allocator(ct::cpu), 1, 1000));
    CHECK_THROWS_AS(ct::uniform_(turned, 0, 1, g), ct::OutOfMemoryError);
  }
  CHECK(g.offset() == 0);
}

TEST_CASE("literals", "[creation]") {
  const Tensor m = ct::tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  CHECK(m.shape() == Shape{3, 2});
  CHECK(m.dtype() == ct::f32);
  CHECK(values(m) == list<double>({1, 2, 3, 4, 5, 6}));
  CHECK(ct::tensor({1, 2}).dtype() == ct::i64);
  CHECK(ct::tensor({1.0, 2.0}).dtype() == ct::f32);
  CHECK(ct::tensor({true, false}).dtype() == ct::boolean);
  CHECK(ct::tensor({1.0, 0.1}, {.dtype = ct::f64}).data<double>()[1] == 0.1);
  CHECK(ct::tensor({{{1, 2}}, {{3, 4}}}).shape() == Shape{2, 1, 2});
  CHECK(ct::tensor({{{{1}, {2}}}}).shape() == Shape{1, 1, 2, 1});
  CHECK(ct::tensor(5).dim() == 0);
  CHECK(ct::tensor(5).item<int>() == 5);
  CHECK(ct::tensor(true).item<bool>());
  CHECK(ct::tensor({9007199254740993}).item<std::int64_t>() == 9007199254740993);
  CHECK_THROWS_AS(ct::tensor({{1, 2}, {3}}), ct::ShapeError);
  CHECK_THROWS_WITH(ct::tensor({{1}, {2, 3}}), Catch::Contains("must have the same length"));
}

TEST_CASE("values from vectors and spans", "[creation]") {
  CHECK(ct::from_vector(std::vector<float>{1, 2, 3}).shape() == Shape{3});
  const Tensor t = ct::from_vector(std::vector<double>{1, 2, 3, 4}, {2, 2});
  CHECK(t.dtype() == ct::f64);
  CHECK(t.select(0, 1).to_vector<double>() == list<double>({3, 4}));
  CHECK(ct::from_vector(std::vector<int>{1}).dtype() == ct::i32);
  CHECK(ct::from_vector(std::vector<long long>{1}).dtype() == ct::i64);
  CHECK(ct::from_vector(std::vector<std::size_t>{7}).item<int>() == 7);
  CHECK(ct::from_vector(std::vector<bool>{true, false}).dtype() == ct::boolean);
  CHECK(ct::from_vector(std::vector<bool>{true, false}).to_vector<bool>() == list<bool>({true, false}));
  CHECK(ct::from_vector(std::vector<ct::Half>{ct::Half(1.5f)}).dtype() == ct::f16);
  CHECK(ct::from_vector(std::vector<float>{}, {0, 3}).shape() == Shape{0, 3});
  const float raw[] = {1, 2, 3, 4};
  const Tensor copy = ct::from_span<float>(raw, {2, 2}, {.dtype = ct::f64, .requires_grad = true});
  CHECK(copy.dtype() == ct::f64);
  CHECK(copy.requires_grad());
  CHECK_THROWS_AS(ct::from_span<float>(raw, {3}), ct::ShapeError);
  CHECK_THROWS_WITH(ct::from_span<float>(raw, {3}), Catch::Contains("got 4 values for shape [3]"));
}

TEST_CASE("memory of others is used in place and released once", "[creation]") {
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    Tensor row;
    {
      const Tensor t = ct::from_blob(memory.data(), {2, 3}, {}, [&] { ++released; });
      row = t.select(0, 1);
    }
    CHECK(released == 0);
    row.fill_(9);
    CHECK(memory == list<float>({1, 2, 3, 9, 9, 9}));
  }
  CHECK(released == 1);
  const Tensor columns = ct::from_blob(memory.data(), {3, 2}, ct::Strides{1, 3});
  CHECK(values(columns) == list<double>({1, 9, 2, 9, 3, 9}));
  CHECK(ct::from_blob(nullptr, {0}).numel() == 0);
  CHECK_THROWS_AS(ct::from_blob(nullptr, {1}), ct::ValueError);
  CHECK_THROWS_AS(ct::from_blob(memory.data(), {2}, ct::Strides{1, 1}), ct::ShapeError);
  CHECK_THROWS_AS(ct::from_blob(memory.data(), {2}, ct::Strides{-1}), ct::ShapeError);
}

TEST_CASE("a GPU creates the same bits", "[creation][cuda]") {
  const ct::Device gpu = ct::cuda();
  for (const ct::DType dtype : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
    for (const std::int64_t n : {1, 7, 4096, 100'003}) {
      ct::Generator g(4), h(4);
      const auto same = [&](const Tensor& a, const Tensor& b) { return values(a) == values(b); };
      CHECK(same(ct::rand({n}, {.dtype = dtype}, g), ct::rand({n}, {.dtype = dtype, .device = gpu}, h)));
      CHECK(same(ct::randn({n}, {.dtype = dtype}, g), ct::randn({n}, {.dtype = dtype, .device = gpu}, h)));
      Tensor a = ct::empty({n}, {.dtype = dtype}), b = ct::empty({n}, {.dtype = dtype, .device = gpu});
      CHECK(same(ct::uniform_(a, -0.3, 1.7, g), ct::uniform_(b, -0.3, 1.7, h)));
      CHECK(same(ct::normal_(a, 0.1, 0.02, g), ct::normal_(b, 0.1, 0.02, h)));
      CHECK(same(ct::exponential_(a, 1.5, g), ct::exponential_(b, 1.5, h)));
      CHECK(same(ct::linspace(-1, 3, n, {.dtype = dtype}),
                 ct::linspace(-1, 3, n, {.dtype = dtype, .device = gpu})));
      CHECK(same(ct::arange(0, 0.01 * static_cast<double>(n), 0.01, {.dtype = dtype}),
                 ct::arange(0, 0.01 * static_cast<double>(n), 0.01, {.dtype = dtype, .device = gpu})));
    }
  }
  ct::Generator g(4), h(4);
  CHECK(integers(ct::randint(-5, 1'000'000'007, {9999}, {}, g)) ==
        integers(ct::randint(-5, 1'000'000'007, {9999}, {.device = gpu}, h)));
  CHECK(integers(ct::randperm(9999, {}, g)) == integers(ct::randperm(9999, {.device = gpu}, h)));
  for (const ct::DType dtype : kAll) {
    CHECK(values(ct::eye(5, 7, {.dtype = dtype, .device = gpu})) == values(ct::eye(5, 7, {.dtype = dtype})));
    CHECK(values(ct::full({1003}, 1, {.dtype = dtype, .device = gpu})) ==
          values(ct::full({1003}, 1, {.dtype = dtype})));
  }
  CHECK(ct::tensor({{1, 2}, {3, 4}}, {.device = gpu}).to_vector<int>() == list<int>({1, 2, 3, 4}));
}

TEST_CASE("from_blob refuses strides beyond all memory", "[creation]") {
  using namespace ct;
  float x = 1;
  for (const Strides& strides : {Strides{INT64_MAX}, Strides{INT64_MAX / 2}, Strides{INT64_MAX / 8}})
    CHECK_THROWS_AS(from_blob(&x, {3}, strides), ShapeError);
  CHECK_THROWS_AS(from_blob(&x, {2, 2}, Strides{INT64_MAX / 2, INT64_MAX / 2}), ShapeError);
  CHECK(from_blob(&x, {1}, Strides{INT64_MAX}).item<float>() == 1);
  CHECK(from_blob(&x, {0, 3}, Strides{INT64_MAX, INT64_MAX}).numel() == 0);
}
