#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"

// Code of a first hour, as it comes to mind.

using namespace ct;

namespace {

using Numbers = std::vector<double>;
Numbers numbers_of(const Tensor& t) { return t.to_vector<double>(); }

}  // namespace

TEST_CASE("tensor() takes what holds numbers", "[first_hour]") {
  const std::vector<float> list{1, 2, 3};
  const std::vector<std::vector<int>> rows{{1, 2}, {3, 4}, {5, 6}};
  const float array[2][2] = {{1, 2}, {3, 4}};
  CHECK(tensor(list).dtype() == f32);
  CHECK(numbers_of(tensor(list)) == Numbers{1, 2, 3});
  CHECK(tensor(rows).dtype() == i64);
  CHECK(tensor(rows).shape() == Shape{3, 2});
  CHECK(numbers_of(tensor(rows)) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(tensor(array).shape() == Shape{2, 2});
  CHECK(tensor(std::span(list)).shape() == Shape{3});
  CHECK(tensor(std::array<double, 2>{1, 2}).dtype() == f32);
  CHECK(numbers_of(tensor(std::vector<double>{0.1}, f64)) == Numbers{0.1});
  CHECK(tensor(std::vector<bool>{true, false}).dtype() == boolean);
  CHECK(numbers_of(tensor(std::vector<bool>{true, false})) == Numbers{1, 0});
  CHECK(tensor(std::vector<std::vector<float>>{}).shape() == Shape{0});
  CHECK(tensor(std::vector<std::vector<float>>(2)).shape() == Shape{2, 0});
  CHECK(numbers_of(tensor(std::vector<std::int8_t>{-128, 127})) == Numbers{-128, 127});
  CHECK(numbers_of(tensor(std::vector<std::uint16_t>{65535})) == Numbers{65535});
  CHECK(numbers_of(tensor(std::vector<std::uint32_t>{4294967295u})) == Numbers{4294967295.0});
  CHECK(tensor(std::vector<Half>{Half(1.5f)}, {.requires_grad = true}).requires_grad());
  CHECK_THROWS_AS(tensor(std::vector<std::vector<int>>{{1}, {2, 3}}), ShapeError);
  CHECK_THROWS_WITH(tensor(std::vector<std::uint64_t>{1ull << 63}), Catch::Contains("2^63 - 1"));
  CHECK_THROWS_AS(tensor(std::vector<int>{1}, {.requires_grad = true}), DTypeError);
}

TEST_CASE("literals mix integers and floating values", "[first_hour]") {
  CHECK(tensor({1, 2.5, 3u}).dtype() == f32);
  CHECK(numbers_of(tensor({1, 2.5, 3u})) == Numbers{1, 2.5, 3});
  CHECK(tensor({{1, 2}, {3.5, 4}}).shape() == Shape{2, 2});
  CHECK(tensor({true, 2}).dtype() == i64);
  CHECK(tensor({true, false}).dtype() == boolean);
  CHECK(tensor({}).shape() == Shape{0});
  CHECK(tensor({}).dtype() == f32);
  CHECK(tensor({{}, {}}).shape() == Shape{2, 0});
  CHECK(tensor({{{{1.5}}}}).shape() == Shape{1, 1, 1, 1});
  CHECK(tensor(2.5, f64).shape().empty());
  CHECK(tensor({1, 2}, f64).dtype() == f64);
  CHECK(numbers_of(tensor({INT64_MAX - 1}) - INT64_MAX) == Numbers{-1});
  CHECK_THROWS_AS(tensor({{1, 2}, {3}}), ShapeError);
  CHECK_THROWS_WITH(tensor({{1, 2}, 3}), Catch::Contains("a number stands beside a list"));
  CHECK_THROWS_AS(tensor({1, {2, 3}}), ShapeError);
}

TEST_CASE("numbers without a dtype of their own are stored in one that holds them", "[first_hour]") {
  const Tensor small = from_vector(std::vector<std::int8_t>{-128, 127});
  CHECK(small.dtype() == i32);
  CHECK(numbers_of(small) == Numbers{-128, 127});
  CHECK(numbers_of(from_vector(std::vector<std::uint16_t>{65535}, f32)) == Numbers{65535});
  CHECK(from_vector(std::vector<std::uint32_t>{4294967295u}).dtype() == i64);
  CHECK(numbers_of(from_vector(std::vector<std::uint32_t>{4294967295u}, {1, 1})) == Numbers{4294967295.0});
  std::vector<float> own{1, 2};
  CHECK(numbers_of(from_span(std::span(own), {2})) == Numbers{1, 2});
  CHECK(from_span(std::span(own), {2}, f64).dtype() == f64);
  CHECK_THROWS_AS(from_vector(std::vector<std::uint64_t>{UINT64_MAX}), ValueError);
}

TEST_CASE("a dtype and sizes stand by themselves", "[first_hour]") {
  CHECK(zeros({2, 3}, f64).dtype() == f64);
  CHECK(ones({2}, i32, cpu).dtype() == i32);
  CHECK(zeros(2, 3).shape() == Shape{2, 3});
  CHECK(ones(2, 3, 4, f64).shape() == Shape{2, 3, 4});
  CHECK(numbers_of(ones(1, 2, f64)) == Numbers{1, 1});
  manual_seed(3);
  const Tensor drawn = randn(2, 3);
  manual_seed(3);
  CHECK(equal(drawn, randn({2, 3})));
  CHECK(rand(2, 0, f64).dtype() == f64);
  CHECK(numbers_of(full({2}, 1.5, f64)) == Numbers{1.5, 1.5});
  CHECK(numbers_of(arange(1, 3, f64)) == Numbers{1, 2});
  CHECK(eye(2, 3, i64).dtype() == i64);
  CHECK(randint(0, 5, {2}, i32).dtype() == i32);
  CHECK_THROWS_AS(zeros(2, -3), ShapeError);
}

TEST_CASE("where of two numbers, the smaller of two tensors, padding with a number", "[first_hour]") {
  const Tensor mask = tensor({true, false});
  CHECK(where(mask, 1.0, 0.0).dtype() == f32);
  CHECK(numbers_of(where(mask, 1.0, 0.0)) == Numbers{1, 0});
  CHECK(where(mask, 1, 0).dtype() == i64);
  CHECK(where(mask, 1, 0.5).dtype() == f32);
  CHECK(where(mask, true, false).dtype() == boolean);
  CHECK_THROWS_AS(where(tensor({1, 0}), 1.0, 0.0), DTypeError);

  const Tensor x = tensor({1, 5}, f64).requires_grad_(), y = tensor({3, 3}, f64);
  CHECK(numbers_of(min(x, y)) == Numbers{1, 3});
  CHECK(numbers_of(x.max(y)) == Numbers{3, 5});
  CHECK(numbers_of(grad(min(x, y).sum(), x)) == Numbers{1, 0});
  CHECK_THROWS_AS(max(x, zeros({3})), ShapeError);

  CHECK(numbers_of(pad(tensor({1.5}), {1, 1}, 7.0)) == Numbers{7, 1.5, 7});
  CHECK(numbers_of(pad(tensor({1}), {1, 0}, 7)) == Numbers{7, 1});
  CHECK_THROWS_AS(pad(tensor({1}), {1, 0}, 300000000000000000000.0), ValueError);
}

TEST_CASE("grad of one loss", "[first_hour]") {
  const Tensor x = tensor({2.0}, f64).requires_grad_(), y = tensor({3.0}, f64).requires_grad_();
  const Tensor g = grad((x * x * y).sum(), x, {.create_graph = true});
  CHECK(numbers_of(g) == Numbers{12});
  CHECK(numbers_of(grad(g.sum(), x)) == Numbers{6});
  const std::vector<Tensor> both = grad((x * y).sum(), {x, y});
  CHECK(numbers_of(both[1]) == Numbers{2});
  CHECK(numbers_of(grad(x * y, x, tensor({10.0}, f64))) == Numbers{30});
  CHECK(numbers_of(grad({(x * y).sum()}, {x, y})[0]) == Numbers{3});
  CHECK(!grad(x.sum(), y, {.allow_unused = true}).defined());
  CHECK_THROWS_AS(grad(x.sum(), y), AutogradError);
}

TEST_CASE("tensors as indices", "[first_hour]") {
  const Tensor x = tensor({{1, 2}, {3, 4}, {5, 6}}, f64).requires_grad_();
  CHECK(numbers_of(x[x > 3]) == Numbers{4, 5, 6});
  CHECK(numbers_of(x[tensor({2, 0, -1})]) == Numbers{5, 6, 1, 2, 5, 6});
  CHECK(numbers_of(x[tensor({true, false, true})]) == Numbers{1, 2, 5, 6});
  CHECK(numbers_of(grad(x[x > 3].sum(), x)) == Numbers{0, 0, 0, 1, 1, 1});
  CHECK_THROWS_AS(x[tensor({3})], IndexError);
  CHECK_THROWS_AS(x[tensor({0.5})], DTypeError);
  Tensor y = zeros({3});
  CHECK_THROWS_WITH(y[y > -1] = 1, Catch::Contains("index_put_"));
  CHECK_THROWS_AS(y[tensor({0, 1})] += 1, ValueError);
  CHECK_THROWS_AS((x * 2)[x > 3] = 1, ValueError);  // recorded as well: nothing is lost in silence
}

TEST_CASE("functions in place are members", "[first_hour]") {
  Tensor x = zeros({3});
  const Tensor mask = tensor({true, false, true});
  CHECK(numbers_of(x.masked_fill_(mask, tensor(2.f))) == Numbers{2, 0, 2});
  CHECK(numbers_of(x.masked_scatter_(mask, tensor({5.f, 6.f}))) == Numbers{5, 0, 6});
  CHECK(numbers_of(x.index_copy_(0, tensor({1}), tensor({4.f}))) == Numbers{5, 4, 6});
  CHECK(numbers_of(x.index_add_(0, tensor({1}), tensor({1.f}), 3)) == Numbers{5, 7, 6});
  CHECK(numbers_of(x.scatter_(0, tensor({0}), 9)) == Numbers{9, 7, 6});
  CHECK(x.uniform_(2, 3).is_same(x));
  CHECK((x >= 2).all().item<bool>());
  CHECK(x.normal_(5, 0).eq(5).all().item<bool>());
  CHECK((x.exponential_() > 0).all().item<bool>());
  CHECK_THROWS_AS(x.uniform_(1, 0), ValueError);
}

TEST_CASE("containers of vectors", "[first_hour]") {
  manual_seed(1);
  std::vector<nn::AnyModule> mixed{nn::Linear(2, 3), nn::ReLU(), relu};
  const nn::Sequential net(mixed), same(std::vector<nn::Linear>{nn::Linear(2, 2), nn::Linear(2, 1)});
  CHECK(net.size() == 3);
  CHECK(net(ones({1, 2})).shape() == Shape{1, 3});
  CHECK(same.named_parameters()[2].name == "1.weight");
  CHECK(nn::Sequential(std::vector<nn::AnyModule>{}).size() == 0);
  CHECK(nn::ModuleList<nn::Linear>(std::vector{nn::Linear(2, 2)}).parameters().size() == 2);
}

TEST_CASE("hooks that return nothing", "[first_hour]") {
  const Tensor x = tensor({2.0}, f64).requires_grad_();
  double seen = 0;
  x.register_hook([&seen, calls = 0](const Tensor& g) mutable { seen = g.item() + calls++; });
  x.register_hook([](const Tensor& g) { return g * 2; });
  (x * 3).sum().backward();
  CHECK(seen == 3);
  CHECK(numbers_of(x.grad()) == Numbers{6});
  CHECK_THROWS_AS(x.register_hook(std::function<void(const Tensor&)>()), ValueError);
  nn::Linear layer(1, 1);
  int calls = 0;
  layer.register_forward_hook(
      [&calls, more = 1](const nn::Module&, const Tensor&, const Tensor&) mutable { calls += more++; });
  layer(ones({1, 1}));
  layer(ones({1, 1}));
  CHECK(calls == 3);
  CHECK_THROWS_AS(
      layer.register_forward_hook(std::function<void(const nn::Module&, const Tensor&, const Tensor&)>()),
      ValueError);
}

namespace {

struct Ragged {
  std::int64_t size() const { return 3; }
  std::pair<Tensor, int> get(std::int64_t i) const { return {ones({i + 1}), static_cast<int>(i)}; }
};
struct RaggedTensors {
  std::int64_t size() const { return 3; }
  Tensor get(std::int64_t i) const { return ones({i + 1}); }
};

}  // namespace

TEST_CASE("examples of several lengths are collated", "[first_hour]") {
  const auto collate = [](const std::vector<std::pair<Tensor, int>>& examples) {
    std::vector<Tensor> rows;
    std::vector<int> labels;
    for (const auto& [row, label] : examples) {
      rows.push_back(pad(row, {0, 3 - row.size(0)}, -1.0));
      labels.push_back(label);
    }
    return std::pair(stack(rows), tensor(labels));
  };
  for (const int workers : {0, 2}) {
    data::DataLoader loader(Ragged{}, {.batch_size = 2, .workers = workers}, collate);
    std::vector<Numbers> rows, labels;
    for (const auto& [x, y] : loader) {
      rows.push_back(numbers_of(x));
      labels.push_back(numbers_of(y));
    }
    CHECK(rows == std::vector<Numbers>{{1, -1, -1, 1, 1, -1}, {1, 1, 1}});
    CHECK(labels == std::vector<Numbers>{{0, 1}, {2}});
  }
  data::DataLoader plain(RaggedTensors{}, {.batch_size = 2});
  CHECK_THROWS_WITH(plain.begin(), Catch::Contains("collates them"));
}

TEST_CASE("gradcheck takes what value_and_grad takes", "[first_hour]") {
  const Tensor x = tensor({0.5, -1.5}, f64), y = tensor({2.0, 3.0}, f64);
  const TensorsFunction product = [](const std::vector<Tensor>& v) { return (v[0] * v[1]).sum(); };
  const auto squares = [](const Tensor& t) { return (t * t).sum(); };
  CHECK(numbers_of(value_and_grad(product, {x, y}).gradients[0]) == Numbers{2, 3});
  CHECK(gradcheck(product, {x, y}).ok);
  CHECK(gradgradcheck(product, {x, y}).ok);
  CHECK(gradcheck([](const std::vector<Tensor>& v) { return v[0] * v[1]; }, {x, y}).ok);
  CHECK(gradcheck(squares, x).ok);
  CHECK(gradgradcheck(squares, x).ok);
  CHECK(!gradcheck([](const Tensor& t) { return t * t.detach(); }, x).ok);
  CHECK(!gradcheck([](const std::vector<Tensor>& v) { return v[0] * v[0].detach(); }, {x}).ok);
}

TEST_CASE("a parameter has the members of its tensor", "[first_hour]") {
  struct Net : nn::Module {
    nn::Parameter w = parameter("w", tensor({{1, 2}, {3, 4}}, f64));
  };
  const Net net;
  const nn::Parameter& w = net.w;
  CHECK(w.shape() == Shape{2, 2});
  CHECK(w.size(-1) == 2);
  CHECK(w.dtype() == f64);
  CHECK(w.requires_grad());
  CHECK(numbers_of(w.sum({0, 1}, true)) == Numbers{10});
  CHECK(numbers_of(w[1]) == Numbers{3, 4});
  CHECK(numbers_of(w[w > 2]) == Numbers{3, 4});
  CHECK(w.view({-1}).shape() == Shape{4});
  CHECK(w.to_vector<float>().size() == 4);
  CHECK(!w.grad().defined());
  w.square().sum().backward();
  CHECK(numbers_of(w.grad()) == Numbers{2, 4, 6, 8});
  CHECK(numbers_of(grad(w.sum(), w)) == Numbers{1, 1, 1, 1});
  CHECK_THROWS_AS(w -= 1, AutogradError);
  const NoGrad guard;
  w -= 0.5 * w.grad();
  CHECK(numbers_of(net.parameters()[0]) == Numbers{0, 0, 0, 0});
  w.fill_(3);
  CHECK(numbers_of(w) == Numbers{3, 3, 3, 3});
  w[0] = 1;
  CHECK(numbers_of(w) == Numbers{1, 1, 3, 3});
  CHECK_THROWS_AS(nn::Parameter().shape(), Error);
}
