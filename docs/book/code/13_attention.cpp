#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>
#include <network.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// Chapter 13: attention with all scores in memory, and block by block, forward and back.

namespace {

using book::Matrix;
using ct::Tensor;

/// A matrix between inputs and results. Counts how many numbers such matrices hold at most.
struct Between : Matrix {
  static inline std::size_t held = 0, most = 0;
  Between(std::size_t rows, std::size_t columns) : Matrix(rows, columns) {
    most = std::max(most, held += rows * columns);
  }
  Between(const Between&) = delete;
  ~Between() { held -= rows * columns; }
};

double dot(const Matrix& a, std::size_t i, const Matrix& b, std::size_t j) {
  double sum = 0;
  for (std::size_t c = 0; c < a.columns; ++c) sum += a(i, c) * b(j, c);
  return sum;
}

/// y = softmax(scale q k^T) v as the formula reads: q, k and v [T, D], scores and probabilities [T, T].
Matrix plain(const Matrix& q, const Matrix& k, const Matrix& v, double scale) {
  const std::size_t T = q.rows;
  Between s(T, T), p(T, T);
  Matrix y(T, v.columns);
  for (std::size_t i = 0; i < T; ++i) {
    double m = -INFINITY, sum = 0;
    for (std::size_t j = 0; j < T; ++j) s(i, j) = scale * dot(q, i, k, j), m = std::max(m, s(i, j));
    for (std::size_t j = 0; j < T; ++j) sum += std::exp(s(i, j) - m);
    for (std::size_t j = 0; j < T; ++j) p(i, j) = std::exp(s(i, j) - m) / sum;
    for (std::size_t j = 0; j < T; ++j)
      for (std::size_t c = 0; c < v.columns; ++c) y(i, c) += p(i, j) * v(j, c);
  }
  return y;
}

constexpr std::size_t kBlock = 16;  // of queries and of keys; T is a multiple of it

/// The same, and lse_i = log sum_j exp(s_ij), with a block of scores at a time. The state of a query after some keys is
/// the largest score m, the sum of exponentials z, and the sum of values so weighted, in y: all three relative to m.
Matrix flash(const Matrix& q, const Matrix& k, const Matrix& v, double scale, std::vector<double>& lse) {
  const std::size_t T = q.rows, D = v.columns;
  Matrix y(T, D);
  Between scores(kBlock, kBlock), m(1, kBlock), z(1, kBlock);
  for (std::size_t i0 = 0; i0 < T; i0 += kBlock) {
    for (std::size_t i = 0; i < kBlock; ++i) m(0, i) = -INFINITY, z(0, i) = 0;
    for (std::size_t j0 = 0; j0 < T; j0 += kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i)
        for (std::size_t j = 0; j < kBlock; ++j) scores(i, j) = scale * dot(q, i0 + i, k, j0 + j);
      for (std::size_t i = 0; i < kBlock; ++i) {
        double top = m(0, i);
        for (std::size_t j = 0; j < kBlock; ++j) top = std::max(top, scores(i, j));
        const double shrink = std::exp(m(0, i) - top);
        m(0, i) = top, z(0, i) *= shrink;
        for (std::size_t c = 0; c < D; ++c) y(i0 + i, c) *= shrink;
        for (std::size_t j = 0; j < kBlock; ++j) {
          const double e = std::exp(scores(i, j) - top);
          z(0, i) += e;
          for (std::size_t c = 0; c < D; ++c) y(i0 + i, c) += e * v(j0 + j, c);
        }
      }
    }
    for (std::size_t i = 0; i < kBlock; ++i) {
      lse[i0 + i] = m(0, i) + std::log(z(0, i));
      for (std::size_t c = 0; c < D; ++c) y(i0 + i, c) /= z(0, i);
    }
  }
  return y;
}

/// Adds the gradients to dq, dk and dv, from the cotangent g of y. Each P_ij is found again from lse.
void flash_back(const Matrix& g, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& y,
                const std::vector<double>& lse, double scale, Matrix& dq, Matrix& dk, Matrix& dv) {
  for (std::size_t i = 0; i < q.rows; ++i) {
    const double delta = dot(g, i, y, i);
    for (std::size_t j = 0; j < k.rows; ++j) {
      const double p = std::exp(scale * dot(q, i, k, j) - lse[i]);
      const double ds = p * (dot(g, i, v, j) - delta);
      for (std::size_t c = 0; c < v.columns; ++c) dv(j, c) += p * g(i, c);
      for (std::size_t c = 0; c < q.columns; ++c) {
        dq(i, c) += scale * ds * k(j, c);
        dk(j, c) += scale * ds * q(i, c);
      }
    }
  }
}

// --- one query, by hand ---

void steps() {
  book::section("steps");
  struct Pair {
    double score, value;
  };
  const std::vector<std::vector<Pair>> blocks = {{{1, 10}, {2, 20}}, {{4, 30}, {3, 40}}, {{0, 50}, {2, 60}}};
  double m = -INFINITY, s = 0, y = 0;
  std::printf("scores   values   maximum   all is multiplied by   sum of e   sum of e v   y so far\n");
  for (const std::vector<Pair>& block : blocks) {
    double top = m;
    for (const Pair& pair : block) top = std::max(top, pair.score);
    const double shrink = std::exp(m - top);
    m = top, s *= shrink, y *= shrink;
    for (const Pair& pair : block) s += std::exp(pair.score - m), y += std::exp(pair.score - m) * pair.value;
    std::printf("%.0f, %.0f %8.0f, %.0f %9.0f %22.4f %10.4f %12.4f %10.4f\n", block[0].score, block[1].score,
                block[0].value, block[1].value, m, shrink, s, y, y / s);
  }
  const Tensor p = ct::softmax(ct::tensor({1.0, 2.0, 4.0, 3.0, 0.0, 2.0}).to(ct::f64), 0);
  const double whole = ct::sum(p * ct::tensor({10.0, 20.0, 30.0, 40.0, 50.0, 60.0})).item<double>();
  std::printf("softmax of all six, times the values: %.4f\n", whole);
  book::claim(std::abs(y / s - whole) < 1e-12, "block by block it is the same");
}

// --- against the library ---

Matrix matrix_of(const Tensor& t) {
  Matrix m(static_cast<std::size_t>(t.size(-2)), static_cast<std::size_t>(t.size(-1)));
  m.values = t.detach().contiguous().to_vector<double>();
  return m;
}

double difference(const Matrix& a, const Matrix& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    most = std::max(most, std::abs(a.values[i] - b.values[i]));
  return most;
}

void memory() {
  book::section("memory");
  std::printf("   T   numbers in between, all scores   block by block   lse, kept for the way back\n");
  svg::Curve all{"all scores", "#c33", {}, {}}, blocks{"block by block, with lse", "#36a", {}, {}};
  constexpr std::size_t D = 8;
  const double scale = 1 / std::sqrt(static_cast<double>(D));
  ct::manual_seed(1);
  for (const std::size_t T : {32, 64, 128, 256, 512}) {
    const auto draw = [&] { return ct::randn({1, 1, static_cast<std::int64_t>(T), D}, {.dtype = ct::f64}); };
    const Tensor q = draw().set_requires_grad(), k = draw().set_requires_grad(),
                 v = draw().set_requires_grad();
    const Tensor y = ct::scaled_dot_product_attention(q, k, v), g = draw();
    y.backward(g);
    const Matrix qm = matrix_of(q), km = matrix_of(k), vm = matrix_of(v), gm = matrix_of(g);

    Between::most = 0;
    book::claim(difference(plain(qm, km, vm, scale), matrix_of(y)) < 1e-12,
                "all scores at once: the library's result");
    const std::size_t of_all = Between::most;
    Between::most = 0;
    std::vector<double> lse(T);
    const Matrix ym = flash(qm, km, vm, scale, lse);
    book::claim(difference(ym, matrix_of(y)) < 1e-12, "block by block: the library's result");
    const std::size_t of_blocks = Between::most;
    std::printf("%4zu %32zu %16zu %28zu\n", T, of_all, of_blocks, lse.size());
    book::claim(of_all == 2 * T * T && of_blocks == kBlock * (kBlock + 2),
                "2 T^2, and a block, whatever T is");

    Matrix dq(T, D), dk(T, D), dv(T, D);
    flash_back(gm, qm, km, vm, ym, lse, scale, dq, dk, dv);
    for (const auto& [mine, theirs] : {std::pair(&dq, &q), std::pair(&dk, &k), std::pair(&dv, &v)})
      book::claim(difference(*mine, matrix_of(theirs->grad())) < 1e-12, "gradients from lse: the library's");
    const double x = std::log2(static_cast<double>(T));
    all.x.push_back(x), all.y.push_back(std::log2(static_cast<double>(of_all)));
    blocks.x.push_back(x), blocks.y.push_back(std::log2(static_cast<double>(of_blocks + T)));
  }
  std::printf("y, dq, dk and dv are ct::scaled_dot_product_attention's, to 1e-12\n");
  book::figure("13-memory", svg::chart("What attention holds besides its inputs and results", "log2 T",
                                       "log2 of numbers", {all, blocks}));
}

// --- what memory and tensor cores would allow ---

void bounds() {
  book::section("bounds");
  constexpr double kUnits = 989e12, kMemory = 4.8e12, D = 64, kHeads = 32;  // of an H200, in bf16
  std::printf("    T   products   scores written and read   q, k, v and y\n");
  for (const double T : {1024., 4096., 16384.})
    std::printf("%5.0f %7.2f ms %22.2f ms %12.3f ms\n", T, kHeads * 4 * T * T * D / kUnits * 1e3,
                kHeads * 4 * T * T * 2 / kMemory * 1e3, kHeads * 4 * T * D * 2 / kMemory * 1e3);
}

void chapter() {
  steps();
  memory();
  bounds();
}

}  // namespace

int main() { return book::run(chapter); }
