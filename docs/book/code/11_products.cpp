#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

// Chapter 11: reads of a product, and where from; who holds which number of a tensor core's matrices.

namespace {

struct Traffic {
  long long memory = 0, shared = 0;  // numbers that were read from either
};

/// C = A B, n x n each, in the order of a GPU: loops for blocks, for their threads, and for the r x r numbers of a thread.
/// Counts what comes from memory and from shared memory.
std::vector<float> tiled(const std::vector<float>& a, const std::vector<float>& b, int n, int r,
                         Traffic& read) {
  constexpr int kThreads = 16, kDepth = 16;
  const int side = kThreads * r;
  std::vector<float> c(a.size()), tile_a(a.size()), tile_b(a.size());
  for (int i0 = 0; i0 < n; i0 += side)
    for (int j0 = 0; j0 < n; j0 += side)
      for (int p0 = 0; p0 < n; p0 += kDepth) {
        for (int p = 0; p < kDepth; ++p)
          for (int e = 0; e < side; ++e) {
            tile_a[p * side + e] = a[(i0 + e) * n + p0 + p];
            tile_b[p * side + e] = b[(p0 + p) * n + j0 + e];
            read.memory += 2;
          }
        for (int y = 0; y < kThreads; ++y)
          for (int x = 0; x < kThreads; ++x)
            for (int p = 0; p < kDepth; ++p) {
              read.shared += 2 * r;  // r numbers of A and r of B go to registers, for r r multiply-adds
              for (int i = y; i < side; i += kThreads)
                for (int j = x; j < side; j += kThreads)
                  c[(i0 + i) * n + j0 + j] += tile_a[p * side + i] * tile_b[p * side + j];
            }
      }
  return c;
}

void traffic() {
  book::section("traffic");
  constexpr int n = 128;
  ct::manual_seed(1);
  // Whole numbers from -4 to 4: all sums are exact, so every order must give the same bits.
  const ct::Tensor a = ct::randint(-4, 5, {n, n}).to(ct::f32), b = ct::randint(-4, 5, {n, n}).to(ct::f32);
  const std::vector<float> library = ct::matmul(a, b).to_vector<float>();
  const double products = static_cast<double>(n) * n * n;
  std::printf("r   tile of a block   from memory   from shared memory   multiply-adds by number of either\n");
  for (const int r : {1, 2, 4, 8}) {
    Traffic read;
    book::claim(tiled(a.to_vector<float>(), b.to_vector<float>(), n, r, read) == library,
                "a product in tiles has the bits of ct::matmul");
    std::printf("%d   %3d x %-3d %18lld %20lld %15g %9g\n", r, 16 * r, 16 * r, read.memory, read.shared,
                products / static_cast<double>(read.memory), products / static_cast<double>(read.shared));
    book::claim(products == 8.0 * r * static_cast<double>(read.memory) &&
                    products == r / 2.0 * static_cast<double>(read.shared),
                "8 r multiply-adds for a number from memory, r / 2 for one from shared memory");
  }
}

// --- tensor cores ---

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
  book::figure("11-lanes", out.str() + "</svg>\n");
}

// --- what a pass after the product costs ---

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
  traffic();
  lanes();
  passes();
}

}  // namespace

int main() { return book::run(chapter); }
