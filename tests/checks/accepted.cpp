// Everyday code of a consumer: it compiles at -O3 with all warnings on, without any. Read by api.sh.

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/indexing/index.h>
#include <cotangent/ops/indexing/rearrange.h>
#include <cotangent/ops/reduce/reduce.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace ct;

struct Named {
  Shape shape;
  std::string name;
};

bool is_matrix(const Tensor& t) {
  return t.shape() == Shape{2, 3, 4} || t.shape() == Shape{} || Shape{2} == Shape{3};
}
Shape turned(const Tensor& t) {
  Shape shape = t.dim() > 2 ? Shape{1, 2, 3} : t.shape();
  std::swap(shape[0], shape[1]);
  return shape == Shape{3} ? Shape{} : shape;
}
std::vector<Named> named(const std::vector<std::size_t>& sizes, int n) {
  Shape grown;
  for (int i = 0; i < n; ++i) grown.push_back(i);
  return {{sizes, "a"}, {{sizes.size(), 3}, "b"}, {grown, "c"}, {contiguous_strides(grown), "d"}};
}
std::vector<Tensor> written(Tensor& x, const Tensor& y) {
  x[0] = y;
  x[0][1] = 3.f;
  x.slice(1, 0, 2) += y;
  x.index({0, Slice(None, 2), Ellipsis, None}) = y;
  x.index_put_({Slice(), y > 0, y.to(i64)}, 3);
  if (y > 0 && !y) x[1] = x[0];
  return grad({x}, {y});
}
std::vector<Tensor> first_hour(const Tensor& x, const Tensor& mask, const std::vector<float>& list) {
  const Tensor loss = grad(x.sum(), x)[mask];
  return {tensor(list),          tensor({{1, 2.5}, {3, 4}}),
          zeros({2, 3}, f64),    randn(2, 3),
          where(mask, 1.0, 0.0), min(x, loss),
          pad(x, {1, 1}, 7.0),   full(2, 1, f64),
          tensor({1, 2}, i32),   max(x, x[mask])};
}
std::array<Shape, 3> several() { return {Shape{1}, Shape{2, 3}, Shape{}}; }
bool alike(const Tensor& t, bool keep) {
  Shape want;
  want.push_back(3);
  if (keep) want.push_back(1);
  return t.shape() == want;
}

Shape reversed(const Shape& shape) {
  Shape turned = shape;
  std::reverse(turned.begin(), turned.end());
  return turned;
}

int main() {
  std::cout << reversed({1, 2}) << several()[1];
  const Tensor x = ones({2, 3});
  CT_CHECK(x.shape() == (Shape{2, 3}), ShapeError, "main", "got ", x.shape());
}
