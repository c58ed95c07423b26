#include <limits>
#include <vector>

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>

#include "tests/catch.h"

using ct::Tensor;

TEST_CASE("where selects element by element and broadcasts", "[where]") {
  const Tensor c = ct::tensor({true, false, true});
  const Tensor a = ct::tensor({1.0, 2.0, 3.0}), b = ct::tensor({10.0, 20.0, 30.0});
  CHECK(ct::where(c, a, b).to_vector<float>() == std::vector<float>{1, 20, 3});
  CHECK(ct::where(c, a, 0.5).to_vector<float>() == std::vector<float>{1, 0.5, 3});
  CHECK(ct::where(c, -1, b).to_vector<float>() == std::vector<float>{-1, 20, -1});
  const Tensor rows = ct::where(ct::tensor({{true}, {false}}), a, b);
  CHECK(rows.shape() == ct::Shape{2, 3});
  CHECK(rows.to_vector<float>() == std::vector<float>{1, 2, 3, 10, 20, 30});
  CHECK(ct::where(c, ct::tensor({1, 2, 3}), 0.5).dtype() == ct::f32);
  CHECK(ct::where(c, ct::tensor({1, 2, 3}), 5).dtype() == ct::i64);
  CHECK(ct::where(c, a.to(ct::f16), b).dtype() == ct::f32);
  CHECK(ct::where(c, c, ct::logical_not(c)).to_vector<bool>() == std::vector<bool>{true, true, true});
}

TEST_CASE("where sends the cotangent to the chosen side only, whatever the other one holds", "[where]") {
  const Tensor c = ct::tensor({true, false, true});
  Tensor a = ct::tensor({1.0, 2.0, 3.0}), b = ct::tensor(5.0);
  a.set_requires_grad();
  b.set_requires_grad();
  ct::where(c, a, b).backward(ct::tensor({1.0, std::numeric_limits<double>::infinity(), 4.0}));
  CHECK(a.grad().to_vector<float>() == std::vector<float>{1, 0, 4});
  CHECK(b.grad().item<float>() == std::numeric_limits<float>::infinity());
  Tensor d = ct::tensor({1.0, 2.0, 3.0});
  d.set_requires_grad();
  ct::where(c, 0.0, d).backward(ct::tensor({1.0, 2.0, 4.0}));
  CHECK(d.grad().to_vector<float>() == std::vector<float>{0, 2, 0});
}

TEST_CASE("where refuses a condition that is not bool", "[where]") {
  const Tensor x = ct::tensor({1.0});
  CHECK_THROWS_AS(ct::where(x, x, x), ct::DTypeError);
  const Tensor c = ct::tensor({true, false}), bytes = ct::full({2}, 200, {.dtype = ct::u8});
  CHECK_THROWS_WITH(ct::where(c, bytes, 300),
                    "[where] the value 300 does not fit into u8, which holds 0 to 255; pass one of "
                    "those, or use another dtype");
  CHECK(ct::where(c, c, true).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(ct::where(c, false, c).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(ct::where(c, c, 3).to_vector<int>() == std::vector<int>{1, 3});
  CHECK_THROWS_AS(ct::where(ct::tensor({true, false}), ct::zeros({3}), ct::zeros({3})), ct::ShapeError);
}
