#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <sstream>
#include <string>
#include <vector>

// Chapter 11b: who holds which number of a tensor core's matrices.

namespace {

/// Places of the numbers of a 16 x 8 by 16 multiply-add: element e of a lane's part of A, B or C is at (row, column).
struct Place {
  int row, column;
};
Place of_a(int lane, int e) { return {lane / 4 + e / 2 % 2 * 8, lane % 4 * 2 + e % 2 + e / 4 * 8}; }
Place of_b(int lane, int e) { return {lane % 4 * 2 + e % 2 + e / 2 * 8, lane / 4}; }
Place of_c(int lane, int e) { return {lane / 4 + e / 2 * 8, lane % 4 * 2 + e % 2}; }

void lanes() {
  book::section("lanes");
  std::vector<std::vector<int>> a(16, std::vector<int>(16, -1)), b(16, std::vector<int>(8, -1)), c = b;
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < 8; ++e) a[of_a(lane, e).row][of_a(lane, e).column] = lane;
    for (int e = 0; e < 4; ++e) b[of_b(lane, e).row][of_b(lane, e).column] = lane;
    for (int e = 0; e < 4; ++e) c[of_c(lane, e).row][of_c(lane, e).column] = lane;
  }
  for (const auto* m : {&a, &b, &c})
    for (const auto& row : *m)
      for (const int lane : row) book::claim(lane >= 0, "each number has its lane");
  for (const int lane : {0, 1, 4, 31}) {
    std::printf("lane %2d of C:", lane);
    for (int e = 0; e < 4; ++e) std::printf("  [%2d, %d]", of_c(lane, e).row, of_c(lane, e).column);
    std::printf("\n");
  }
  // Two results side by side, 16 x 16, have their numbers in the lanes that want them as a left operand.
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 8; ++e) {
      const Place left = of_a(lane, e), result = of_c(lane, e % 4);
      book::claim(left.row == result.row && left.column == result.column + e / 4 * 8,
                  "two results side by side are a left operand");
    }
  std::printf("two C side by side are an A: in all 32 lanes\n");

  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 860 400' font-family='sans-serif' "
         "font-size='9'>\n<rect width='860' height='400' fill='white'/>\n";
  const auto draw = [&](const char* name, const std::vector<std::vector<int>>& m, double x0) {
    out << "<text x='" << x0 << "' y='22' font-size='14'>" << name << "</text>\n";
    for (std::size_t i = 0; i < m.size(); ++i)
      for (std::size_t j = 0; j < m[i].size(); ++j) {
        const double x = x0 + 22.0 * static_cast<double>(j), y = 34 + 22.0 * static_cast<double>(i);
        // A colour for each group of four lanes, lighter or darker within it.
        constexpr int kColors[8][3] = {{214, 69, 65},  {224, 142, 11}, {190, 175, 20}, {92, 170, 60},
                                       {30, 160, 150}, {55, 120, 200}, {125, 85, 200}, {200, 80, 160}};
        const int lane = m[i][j], light = 70 - lane % 4 * 12;  // per cent of white
        const auto mixed = [&](int c) { return (kColors[lane / 4][c] * (100 - light) + 255 * light) / 100; };
        out << "<rect x='" << x << "' y='" << y << "' width='22' height='22' stroke='#999' fill='rgb("
            << mixed(0) << ',' << mixed(1) << ',' << mixed(2) << ")'/><text x='" << x + 11 << "' y='"
            << y + 14 << "' text-anchor='middle'>" << lane << "</text>\n";
      }
  };
  draw("A [16, 16]", a, 20), draw("B [16, 8]", b, 420), draw("C [16, 8]", c, 650);
  book::figure("11b-lanes", out.str() + "</svg>\n");
}

void counts() {
  book::section("counts");
  std::printf("sums            numbers read   multiply-adds   for a number\n");
  const auto row = [](const char* name, int rows, int columns) {
    std::printf("%-15s %12d %15d %14.1f\n", name, rows + columns, rows * columns,
                static_cast<double>(rows * columns) / (rows + columns));
  };
  row("a thread: 8 x 8", 8, 8);
  row("a warp: 16 x 8", 16, 8);
  row("a warp: 64 x 32", 64, 32);
  row("wgmma: 64 x 256", 64, 256);
  row("two: 128 x 256", 128, 256);
}

void chapter() {
  lanes();
  counts();
}

}  // namespace

int main() { return book::run(chapter); }
