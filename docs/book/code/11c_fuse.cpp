#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <algorithm>
#include <cmath>
#include <vector>

// Chapter 11c: what a layer's passes over its result cost, forward and back, and what they cost inside of the products.

namespace {

void picture() {
  svg::Curve forward{"bias and ReLU, of the product", "#36a", {}, {}},
      back{"the mask, of both products", "#c33", {}, {}};
  for (double k = 32; k <= 4096; k *= 2) {
    const double share = 8 / 4.2e12 / (2 * k / 45e12);
    forward.x.push_back(std::log2(k)), back.x.push_back(std::log2(k));
    forward.y.push_back(100 * share), back.y.push_back(100 * share * 12 / 8 / 2);
  }
  book::figure("11c-passes", svg::chart("A pass of its own, in per cent of the products", "log2 of k",
                                        "per cent", {forward, back}));
}

/// A matrix that counts how often it is read or written.
struct Watched {
  std::size_t rows, columns;
  std::vector<double> values;
  long moved = 0;
  Watched(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  double& operator()(std::size_t i, std::size_t j) { return ++moved, values[i * columns + j]; }
};

/// c(i, j) = sum_p a(i, p) b(p, j) in tiles: an operand's number is read once for each tile that wants it.
template <class A, class B, class C>
void in_tiles(std::size_t m, std::size_t n, std::size_t k, A&& a, B&& b, C&& c) {
  constexpr std::size_t kTile = 16;
  for (std::size_t i0 = 0; i0 < m; i0 += kTile)
    for (std::size_t j0 = 0; j0 < n; j0 += kTile) {
      double sum[kTile][kTile] = {};
      for (std::size_t p = 0; p < k; ++p) {
        double from_a[kTile], from_b[kTile];
        for (std::size_t e = 0; e < kTile; ++e) from_a[e] = a(i0 + e, p), from_b[e] = b(p, j0 + e);
        for (std::size_t i = 0; i < kTile; ++i)
          for (std::size_t j = 0; j < kTile; ++j) sum[i][j] += from_a[i] * from_b[j];
      }
      for (std::size_t i = 0; i < kTile; ++i)
        for (std::size_t j = 0; j < kTile; ++j) c(i0 + i, j0 + j, sum[i][j]);
    }
}

enum class Mask { pass, loads, store };

/// y = relu(x w), z = y v, and from dz the gradients dx and dw, which it returns; counts what is moved of g and y on the way back.
std::vector<double> way_back(Mask where, std::size_t m, std::size_t n, std::size_t k, long& moved) {
  Watched x(m, k), w(k, n), v(n, k), dz(m, k), y(m, n), g(m, n), dx(m, k), dw(k, n);
  double pace = 0.3;
  for (Watched* each : {&x, &w, &v, &dz}) {
    pace += 0.4;
    for (std::size_t i = 0; i < each->values.size(); ++i)
      each->values[i] = std::sin(pace * static_cast<double>(i + 1));
  }
  const auto masked = [&](std::size_t i, std::size_t j, double value) { return y(i, j) > 0 ? value : 0.0; };
  in_tiles(m, n, k, x, w, [&](auto i, auto j, double s) { y(i, j) = std::max(s, 0.0); });
  y.moved = g.moved = 0;
  in_tiles(
      m, n, k, dz, [&](auto p, auto j) { return v(j, p); },
      [&](auto i, auto j, double s) { g(i, j) = where == Mask::store ? masked(i, j, s) : s; });
  if (where == Mask::pass)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const double value = masked(i, j, g(i, j));
        g(i, j) = value;
      }
  const auto load = [&](auto i, auto j) { return where == Mask::loads ? masked(i, j, g(i, j)) : g(i, j); };
  in_tiles(
      m, k, n, load, [&](auto p, auto j) { return w(j, p); },
      [&](auto i, auto j, double s) { dx(i, j) = s; });
  in_tiles(
      k, n, m, [&](auto i, auto p) { return x(p, i); }, load,
      [&](auto i, auto j, double s) { dw(i, j) = s; });
  moved = y.moved + g.moved;

  const auto theirs = [](const Watched& of) {
    return ct::from_vector(of.values,
                           {static_cast<std::int64_t>(of.rows), static_cast<std::int64_t>(of.columns)})
        .set_requires_grad();
  };
  const ct::Tensor tx = theirs(x), tw = theirs(w),
                   product = ct::matmul(ct::relu(ct::matmul(tx, tw)), theirs(v));
  ct::sum(product * theirs(dz).detach()).backward();
  const auto off = [](const ct::Tensor& a, const Watched& b) {
    return ct::amax(ct::abs(a.view(-1) - ct::from_vector(b.values))).item();
  };
  book::claim(off(tx.grad(), dx) < 1e-9 && off(tw.grad(), dw) < 1e-9, "the gradients are the library's");
  dx.values.insert(dx.values.end(), dw.values.begin(), dw.values.end());
  return dx.values;
}

void back() {
  book::section("back");
  std::printf("moved of g and y, in passes over one of them; tiles of 16 x 16\n");
  std::printf("  k   mask in a pass   in the loads   as g is stored\n");
  for (const std::size_t k : {16, 32, 64}) {
    const std::size_t m = 64, n = 48;
    long pass = 0, loads = 0, store = 0;
    const std::vector<double> one = way_back(Mask::pass, m, n, k, pass);
    book::claim(one == way_back(Mask::loads, m, n, k, loads) && one == way_back(Mask::store, m, n, k, store),
                "all ways have the same bits");
    const auto passes_of = [&](long moved) {
      return static_cast<double>(moved) / static_cast<double>(m * n);
    };
    std::printf("%3zu %16.0f %14.0f %16.0f\n", k, passes_of(pass), passes_of(loads), passes_of(store));
    book::claim(store < pass && store < loads, "as g is stored costs least");
  }
}

void passes() {
  book::section("passes");
  constexpr double kRate = 45e12, kMemory = 4.2e12;  // operations and bytes a second that a kernel reaches
  std::printf("    k   product   one more pass over y   of the product\n");
  for (const double k : {64., 256., 1024., 4096.}) {
    constexpr double kNumbers = 16384. * 8192;
    const double product = 2 * kNumbers * k / kRate * 1e3, pass = 8 * kNumbers / kMemory * 1e3;
    std::printf("%5.0f %6.2f ms %19.2f ms %15.0f %%\n", k, product, pass, 100 * pass / product);
  }
}

void chapter() {
  passes();
  back();
  picture();
}

}  // namespace

int main() { return book::run(chapter); }
