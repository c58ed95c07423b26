#include <cotangent/cotangent.h>

#include <book.h>
#include <warp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// Chapter 10, without a GPU: trees, the banks that they read, and the effect of the order on the bits.

namespace {

/// Eight lanes: each adds what the lane has whose number differs in one bit.
void lanes() {
  book::section("lanes");
  std::vector<int> v = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto row = [&](const char* name) {
    std::printf("%-10s", name);
    for (const int value : v) std::printf("%4d", value);
    std::printf("\n");
  };
  row("lanes hold");
  for (const std::size_t offset : {4, 2, 1}) {
    const std::vector<int> of_others = v;
    for (std::size_t lane = 0; lane < 8; ++lane) v[lane] += of_others[lane ^ offset];
    row(("offset " + std::to_string(offset)).c_str());
  }
  for (const int value : v) book::claim(value == 36, "every lane has the sum");
}

/// A way to add 256 words of shared memory: the word that thread t adds to another in the step of distance s, or -1.
struct Tree {
  const char* name;
  bool from_far;  // begins with s = 128, else with s = 1
  long (*word)(long t, long s);
};

const Tree kTrees[] = {
    {"modulo", false, [](long t, long s) { return t % (2 * s) == 0 ? t + s : -1; }},
    {"dense", false, [](long t, long s) { return 2 * s * t + s < 256 ? 2 * s * t + s : -1; }},
    {"halves", true, [](long t, long s) { return t < s ? t + s : -1; }}};

/// Warps that have work in a step, and the turns in which shared memory serves the slowest of them.
std::pair<int, int> cost(const Tree& tree, long s) {
  int warps = 0, turns = 0;
  for (long first = 0; first < 256; first += 32) {
    std::vector<long> words;
    for (long t = first; t < first + 32; ++t)
      if (tree.word(t, s) >= 0) words.push_back(tree.word(t, s));
    warps += words.empty() ? 0 : 1;
    turns = std::max(turns, book::bank_turns(words));
  }
  return {warps, turns};
}

void trees() {
  book::section("trees");
  std::printf("step   pairs   modulo: warps, turns   dense: warps, turns   halves: warps, turns\n");
  int total[3] = {};
  for (int step = 0; step < 8; ++step) {
    std::printf("%4d %7d", step + 1, 128 >> step);
    for (int i = 0; i < 3; ++i) {
      const auto [warps, turns] = cost(kTrees[i], kTrees[i].from_far ? 128 >> step : 1 << step);
      std::printf(" %14d %6d", warps, turns);
      total[i] += warps * turns;
    }
    std::printf("\n");
  }
  std::printf("warps times turns %12d %21d %21d\n", total[0], total[1], total[2]);
  book::claim(total[2] < total[0] && total[2] < total[1], "the tree of halves costs least");
}

/// Both trees over 16 words: which words are left after each step, and what was added to what.
void picture() {
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 270' font-family='sans-serif' "
         "font-size='12'>\n"
         "<rect width='100%' height='100%' fill='white'/>\n";
  for (int side = 0; side < 2; ++side) {
    const int left = 12 + 380 * side;
    out << "<text x='" << left << "' y='18'>" << (side == 0 ? "neighbours first" : "halves first")
        << "</text>\n";
    for (int step = 0; step <= 4; ++step) {
      const int y = 30 + 52 * step, distance = side == 0 ? 1 << step : 8 >> step;
      for (int word = 0; word < 16; ++word) {
        const bool left_over = side == 0 ? word % (1 << step) == 0 : word < 16 >> step;
        out << "<rect x='" << left + 22 * word << "' y='" << y
            << "' width='18' height='18' stroke='#557' fill='" << (left_over ? "#d6e4f7" : "#fff") << "'/>";
        const bool adds = step < 4 && (side == 0 ? word % (2 << step) == 0 : word < distance);
        if (adds)
          out << "<path stroke='#c33' d='M" << left + 22 * word + 9 << ' ' << y + 52 << "V" << y + 18 << "M"
              << left + 22 * word + 9 << ' ' << y + 52 << "L" << left + 22 * (word + distance) + 9 << ' '
              << y + 18 << "'/>";
      }
      out << '\n';
    }
  }
  book::figure("10-trees", out.str() + "</svg>\n");
}

/// Numbers of very different sizes, the same on every machine.
std::vector<float> numbers(std::size_t n) {
  std::mt19937 draw(1);
  std::vector<float> x;
  for (std::size_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(draw()) / 4294967296.0;
    x.push_back(
        static_cast<float>((draw() % 2 == 0 ? 1 : -1) * std::ldexp(1 + unit, static_cast<int>(draw() % 8))));
  }
  return x;
}

float tree_sum(const std::vector<float>& x, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return x[begin];
  const std::size_t middle = begin + (end - begin) / 2;
  return tree_sum(x, begin, middle) + tree_sum(x, middle, end);
}

void orders() {
  book::section("orders");
  const std::vector<float> x = numbers(4096);
  double exact = 0;
  for (const float value : x) exact += value;
  std::set<float> as_they_come, in_a_tree;
  std::set<std::int64_t> whole;
  double worst = 0;
  std::mt19937 draw(2);
  for (int run = 0; run < 10; ++run) {
    std::vector<std::size_t> arrival(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) arrival[i] = i;
    for (std::size_t i = x.size(); i > 1; --i) std::swap(arrival[i - 1], arrival[draw() % i]);
    float sum = 0;
    std::int64_t of_whole = 0;
    std::vector<float> partial(x.size());
    for (const std::size_t i : arrival) {
      sum += x[i];                                          // at once, in the order of arrival
      of_whole += static_cast<std::int64_t>(x[i] * 65536);  // as whole numbers: no rounding behind this one
      partial[i] = x[i];                                    // put aside, in a place of its own
    }
    as_they_come.insert(sum), whole.insert(of_whole), in_a_tree.insert(tree_sum(partial, 0, partial.size()));
    worst = std::max(worst, std::abs(sum - exact));
  }
  std::printf("4096 numbers, ten orders of arrival, f32\n");
  std::printf("added as they come                  %2zu different results\n", as_they_come.size());
  std::printf("put in their places, then a tree    %2zu\n", in_a_tree.size());
  std::printf("added as they come, whole numbers   %2zu\n", whole.size());
  book::claim(as_they_come.size() > 5 && in_a_tree.size() == 1 && whole.size() == 1,
              "only rounding sees the order");
  book::claim(worst > 0 && worst < 0.05, "each of the orders is as good as the next");
}

/// The turns for a warp whose lanes add to these values' places in `tables` tables side by side: those of the fullest bank.
int turns(const std::vector<int>& values, int tables) {
  int lanes[32] = {}, lane = 0;
  for (const int value : values) ++lanes[(value * tables + lane++ % tables) % 32];
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

void histogram() {
  book::section("histogram");
  std::printf("bytes                      one table   four   eight\n");
  std::mt19937 draw(3);
  const auto row = [&](const char* name, auto&& value) {
    double total[3] = {};
    for (int warp = 0; warp < 1000; ++warp) {
      std::vector<int> values;
      for (int lane = 0; lane < 32; ++lane) values.push_back(value());
      for (int n = 0; n < 3; ++n) total[n] += turns(values, n == 0 ? 1 : 2 << n) / 1000.0;
    }
    std::printf("%-25s %10.1f %6.1f %7.1f\n", name, total[0], total[1], total[2]);
    return total[0];
  };
  const double even = row("any, equally often", [&] { return static_cast<int>(draw() % 256); });
  row("half of them 0", [&] { return draw() % 2 ? static_cast<int>(draw() % 256) : 0; });
  const double same = row("all 0", [] { return 0; });
  book::claim(even < 5 && same > 31.9, "only equal bytes take a turn each");
}

void small_sum() {
  book::section("three numbers");
  const float large = 1e8f, one = 1;
  std::printf("(1e8 + 1) - 1e8 = %g\n(1e8 - 1e8) + 1 = %g\n", (large + one) - large, (large - large) + one);
}

void chapter() {
  lanes();
  trees();
  picture();
  histogram();
  small_sum();
  orders();
}

}  // namespace

int main() { return book::run(chapter); }
