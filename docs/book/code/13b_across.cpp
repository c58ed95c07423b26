#include <cotangent/cotangent.h>

#include <book.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// Chapter 13b: sums down columns of kernels that own rows, for layer_norm and for attention's dq.

namespace {

using Size = std::size_t;

/// Rows of x and g, with each row's mean and 1 / deviation.
struct Problem {
  Size rows, columns;
  std::vector<float> x, g, w, mean, rstd;

  Problem(Size n, Size c) : rows(n), columns(c), x(n * c), g(n * c), w(c), mean(n), rstd(n) {
    for (Size i = 0; i < n * c; ++i)
      x[i] = std::sin(0.7f * static_cast<float>(i + 1)),
      g[i] = std::cos(1.3f * static_cast<float>(i * i % 10007));
    for (Size j = 0; j < c; ++j) w[j] = 1 + 0.01f * static_cast<float>(j);
    for (Size n = 0; n < rows; ++n) {
      double sum = 0, squares = 0;
      for (Size j = 0; j < c; ++j) sum += x[n * c + j];
      for (Size j = 0; j < c; ++j) squares += std::pow(x[n * c + j] - sum / static_cast<double>(c), 2);
      mean[n] = static_cast<float>(sum / static_cast<double>(c));
      rstd[n] = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(c) + 1e-5));
    }
  }
  float normalized(Size n, Size j) const { return (x[n * columns + j] - mean[n]) * rstd[n]; }
};

/// Rows are added to dw as they come.
std::vector<float> as_they_come(const Problem& p, const std::vector<Size>& arrival) {
  std::vector<float> dw(p.columns);
  for (const Size n : arrival)
    for (Size j = 0; j < p.columns; ++j) dw[j] += p.g[n * p.columns + j] * p.normalized(n, j);
  return dw;
}

/// Block b has a dw of its own for the rows b, b + blocks, ..., whenever it runs; those are added in the order of the blocks.
std::vector<float> in_two_stages(const Problem& p, const std::vector<Size>& arrival, Size blocks) {
  std::vector<std::vector<float>> parts(blocks);
  for (const Size b : arrival) {
    if (b >= blocks) continue;
    std::vector<Size> own;
    for (Size n = b; n < p.rows; n += blocks) own.push_back(n);
    parts[b] = as_they_come(p, own);
  }
  std::vector<float> dw(p.columns);
  for (const auto& part : parts)
    for (Size j = 0; j < p.columns; ++j) dw[j] += part[j];
  return dw;
}

void columns() {
  book::section("columns");
  const Size n = 1024, c = 64, blocks = 16;
  const Problem p(n, c);
  std::set<std::vector<float>> atomics, stages;
  std::mt19937 draw(1);
  std::vector<Size> arrival(n);
  for (int run = 0; run < 10; ++run) {
    for (Size i = 0; i < n; ++i) arrival[i] = i;
    for (Size i = n; i > 1; --i) std::swap(arrival[i - 1], arrival[draw() % i]);
    atomics.insert(as_they_come(p, arrival)), stages.insert(in_two_stages(p, arrival, blocks));
  }
  std::printf("dw and db of layer_norm, ten orders of arrival\n");
  std::printf("                             bytes a number of x   different results\n");
  const auto row = [](const char* name, double bytes, Size results) {
    std::printf("%-28s %20.2f %19zu\n", name, bytes, results);
  };
  // x and g are read and dx is written, 12 bytes; a kernel of columns reads x and g again.
  row("columns in a kernel apart", 12 + 8, 1);
  row("added as they come", 12, atomics.size());
  const double parts =
      2 * 2 * 4.0 * 132 / 16384;  // dw and db of 132 blocks, written and read, beside 16384 rows
  row("a dw for each of 132 blocks", 12 + parts, stages.size());
  book::claim(atomics.size() > 1 && stages.size() == 1, "only the order of arrival shows in the bits");

  const auto size = [](Size s) { return static_cast<std::int64_t>(s); };
  const ct::Tensor x = ct::from_vector(p.x, {size(n), size(c)}), g = ct::from_vector(p.g, {size(n), size(c)}),
                   w = ct::from_vector(p.w).set_requires_grad(), b = ct::zeros({size(c)});
  ct::sum(ct::layer_norm(x, w, b, 1e-5) * g).backward();
  const double off = ct::amax(ct::abs(w.grad() - ct::from_vector(*stages.begin()))).item();
  book::claim(off < 1e-3, "dw is the library's");
}

/// A walk over blocks of queries: the one that block `j` of the keys has at a step, or -1 if it has none any more.
using Walk = int (*)(int j, int step, int blocks);

int from_the_first(int, int step, int blocks) { return step < blocks ? step : -1; }
int from_the_diagonal(int j, int step, int blocks) { return j + step < blocks ? j + step : -1; }
int around(int j, int step, int blocks) { return step < blocks ? (j + step) % blocks : -1; }

/// For each block of keys the queries that it has at each time, -1 while it waits: a query takes one block at a time, and of two
/// that want it the later block of keys goes first.
std::vector<std::vector<int>> schedule(Walk walk, int blocks) {
  std::vector<std::vector<int>> times(static_cast<Size>(blocks));
  std::vector<int> step(static_cast<Size>(blocks));
  for (bool more = true; more;) {
    more = false;
    std::set<int> taken;
    for (int j = blocks - 1; j >= 0; --j) {
      const Size at = static_cast<Size>(j);
      const int query = walk(j, step[at], blocks);
      if (query < 0) continue;
      more = true;
      const bool free = taken.insert(query).second;
      times[at].push_back(free ? query : -1);
      step[at] += free;
    }
  }
  return times;
}

void turns() {
  book::section("turns");
  struct Way {
    const char* name;
    Walk walk;
  };
  const Way ways[] = {{"all, from the first", from_the_first},
                      {"masked, from the diagonal", from_the_diagonal},
                      {"all, around", around}};
  std::printf("blocks %23s %23s %23s\n", ways[0].name, ways[1].name, ways[2].name);
  for (const int blocks : {4, 8, 32}) {
    std::printf("%6d", blocks);
    for (const Way& way : ways) {
      Size end = 0, waits = 0;
      for (const auto& times : schedule(way.walk, blocks)) {
        end = std::max(end, times.size());
        waits += static_cast<Size>(std::count(times.begin(), times.end(), -1));
      }
      std::printf("%10zu steps, %4zu waits", end, waits);
      book::claim((waits == 0) == (way.walk != from_the_first), "only those wait that begin at one place");
    }
    std::printf("\n");
  }
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 190' font-family='sans-serif' "
         "font-size='11'>\n<rect width='800' height='190' fill='white'/>\n";
  double left = 20;
  for (const Way& way : ways) {
    out << "<text x='" << left << "' y='18' font-size='13'>" << way.name << "</text>\n";
    const auto all = schedule(way.walk, 6);
    for (Size j = 0; j < all.size(); ++j)
      for (Size t = 0; t < all[j].size(); ++t) {
        const double x = left + 22 * static_cast<double>(t), y = 30 + 24 * static_cast<double>(j);
        out << "<rect x='" << x << "' y='" << y << "' width='20' height='20' stroke='#557' fill='"
            << (all[j][t] < 0 ? "#fff" : "#d6e4f7") << "'/>";
        if (all[j][t] >= 0)
          out << "<text x='" << x + 10 << "' y='" << y + 14 << "' text-anchor='middle'>" << all[j][t]
              << "</text>";
      }
    out << '\n';
    left += way.walk == from_the_first ? 290 : 220;
  }
  book::figure("13b-turns", out.str() + "</svg>\n");
}

void chapter() {
  columns();
  turns();
}

}  // namespace

int main() { return book::run(chapter); }
