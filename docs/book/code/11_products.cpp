#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/common/svg.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

// Chapter 11: reads of a product, and where from; the time of a tile that is loaded while another is multiplied.

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
  std::printf("%46s %28s\n", "numbers from", "multiply-adds for one");
  std::printf("r   tile of a block       memory        shared memory   from memory   from shared\n");
  for (const int r : {1, 2, 4, 8}) {
    Traffic read;
    book::claim(tiled(a.to_vector<float>(), b.to_vector<float>(), n, r, read) == library,
                "a product in tiles has the bits of ct::matmul");
    std::printf("%d   %3d x %-3d %18lld %20lld %13g %13g\n", r, 16 * r, 16 * r, read.memory, read.shared,
                products / static_cast<double>(read.memory), products / static_cast<double>(read.shared));
    book::claim(products == 8.0 * r * static_cast<double>(read.memory) &&
                    products == r / 2.0 * static_cast<double>(read.shared),
                "8 r multiply-adds for a number from memory, r / 2 for one from shared memory");
  }
}

/// Cycles of `steps` steps of k, each of which loads a tile for `load` cycles and multiplies it for `multiply`: the loads begin
/// when a buffer is free, and a multiplication when its tile is there.
double cycles(int steps, int buffers, double load, double multiply) {
  std::vector<double> there(static_cast<std::size_t>(steps)), done = there;
  for (int s = 0; s < steps; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const double free = s < buffers ? 0 : done[at - static_cast<std::size_t>(buffers)];
    there[at] = free + load;
    done[at] = std::max(there[at], s > 0 ? done[at - 1] : 0) + multiply;
  }
  return done.back();
}

void pipeline() {
  book::section("pipeline");
  const double load = 1300;
  std::printf("r   multiplied in   share of the peak: one buffer   two buffers   three\n");
  for (const int r : {2, 4, 8}) {
    const double multiply = 16.0 * 16 * r * 16 * r / 128;  // 16 k for each number of the tile, by 128 lanes
    const auto share = [&](int buffers) {
      return 100 * 256 * multiply / cycles(256, buffers, load, multiply);
    };
    std::printf("%d %8.0f cycles %26.0f %% %11.0f %% %5.0f %%\n", r, multiply, share(1), share(2), share(3));
    book::claim(share(2) > share(1), "a second buffer saves time");
  }
}

/// The levels of a product: C and its tiles, a block's tile and its threads', a thread's numbers.
void picture() {
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 860 300' font-family='sans-serif' "
         "font-size='12'>\n<rect width='860' height='300' fill='white'/>\n";
  const auto box = [&](double x, double y, double side, const char* fill) {
    const char* const border = side < 5 ? "none" : "#557";  // it would hide a box that is as small as a line
    out << "<rect x='" << x << "' y='" << y << "' width='" << side << "' height='" << side << "' stroke='"
        << border << "' fill='" << fill << "'/>";
  };
  const auto grid = [&](double x0, int count, double side, auto&& chosen) {
    box(x0, 40, side * count, "#eef4fc");
    out << "<path stroke='#bcc8dc' stroke-width='0.5' d='";
    for (int i = 1; i < count; ++i)
      out << 'M' << x0 + side * i << " 40v" << side * count << 'M' << x0 << ' ' << 40 + side * i << 'h'
          << side * count;
    out << "'/>\n";
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < count; ++j)
        if (chosen(i, j)) box(x0 + side * j, 40 + side * i, side, side < 5 ? "#c33" : "#f2b6a0");
    out << '\n';
  };
  const char* const texts[] = {"C in memory, a tile for each block",
                               "a tile [16 r, 16 r], r = 4: a thread's are red",
                               "a thread's sums, in registers"};
  const double lefts[] = {20, 300, 600};
  for (int n = 0; n < 3; ++n) out << "<text x='" << lefts[n] << "' y='26'>" << texts[n] << "</text>\n";
  grid(20, 4, 60, [](int i, int j) { return i == 1 && j == 2; });
  grid(300, 64, 3.75, [](int i, int j) { return i % 16 == 5 && j % 16 == 9; });
  grid(600, 4, 40, [](int, int) { return true; });
  out << "<path stroke='#c33' fill='none' d='M200 100L300 40M200 160L300 280M540 40L600 40M540 280L600 "
         "200'/>\n";
  book::figure("11-tiles", out.str() + "</svg>\n");
}

void chapter() {
  traffic();
  pipeline();
  picture();
}

}  // namespace

int main() { return book::run(chapter); }
