#include <cotangent/ops/interop_eigen.h>

#include <cotangent/ops/view/view.h>

#include "tests/catch.h"

using ct::Tensor;

TEST_CASE("matrices keep their elements whatever their storage order", "[eigen]") {
  Eigen::MatrixXf columns(2, 3);  // column-major
  columns << 1, 2, 3, 4, 5, 6;
  const Eigen::Matrix<float, 2, 3, Eigen::RowMajor> rows = columns;
  for (const Tensor& t : {ct::from_eigen(columns), ct::from_eigen(rows), ct::from_eigen(columns * 1.f)}) {
    CHECK(t.shape() == ct::Shape{2, 3});
    CHECK(t.dtype() == ct::f32);
    CHECK(t.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  }
  CHECK(ct::from_eigen(columns.transpose()).to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
  const Tensor t = ct::from_eigen(rows);
  CHECK(ct::to_eigen<Eigen::MatrixXf>(t) == columns);
  CHECK(ct::to_eigen<Eigen::Matrix<float, 2, 3, Eigen::RowMajor>>(t) == rows);
  CHECK(ct::to_eigen<Eigen::MatrixXf>(t.t()) == columns.transpose());
}

TEST_CASE("vectors are of rank 1", "[eigen]") {
  const Eigen::VectorXd v = Eigen::VectorXd::LinSpaced(4, 0, 3);
  const Tensor t = ct::from_eigen(v);
  CHECK(t.shape() == ct::Shape{4});
  CHECK(t.dtype() == ct::f64);
  CHECK(ct::to_eigen<Eigen::VectorXd>(t) == v);
  CHECK(ct::to_eigen<Eigen::RowVectorXd>(t) == v.transpose());
  CHECK(ct::from_eigen(v.transpose()).shape() == ct::Shape{4});
  const Eigen::Matrix<std::int64_t, Eigen::Dynamic, 1> ints = v.cast<std::int64_t>();
  CHECK(ct::from_eigen(ints).dtype() == ct::i64);
  CHECK(ct::from_eigen(Eigen::VectorXf()).numel() == 0);
}

TEST_CASE("options convert and mark", "[eigen]") {
  const Tensor t = ct::from_eigen(Eigen::Matrix2f::Identity(), {.dtype = ct::f64, .requires_grad = true});
  CHECK(t.dtype() == ct::f64);
  CHECK(t.requires_grad());
  CHECK(t.is_leaf());
}

TEST_CASE("a map writes through, also into a transposed view", "[eigen]") {
  Tensor t = ct::zeros({2, 3});
  ct::map_eigen<float>(t)(1, 2) = 5;
  ct::map_eigen<float>(t.t())(0, 1) = 7;
  CHECK(t.to_vector<float>() == std::vector<float>{0, 0, 0, 7, 0, 5});
}

TEST_CASE("wrong types and ranks are refused", "[eigen]") {
  const Tensor t = ct::zeros({2, 3});
  CHECK_THROWS_AS(ct::to_eigen<Eigen::MatrixXd>(t), ct::DTypeError);
  CHECK_THROWS_AS(ct::to_eigen<Eigen::VectorXf>(t), ct::ShapeError);
  CHECK_THROWS_AS(ct::to_eigen<Eigen::Matrix3f>(t), ct::ShapeError);
  CHECK_THROWS_AS(ct::map_eigen<float>(ct::zeros({2})), ct::ShapeError);
}
