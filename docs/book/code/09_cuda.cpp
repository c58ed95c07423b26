#include <cotangent/cotangent.h>

#include <book.h>
#include <warp.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// Chapter 9, without a GPU: the element of each thread, and the memory that 32 threads touch at
// once.

namespace {

/// A grid on the CPU: calls kernel(block, thread) for every thread, and waits, which a GPU does not.
template <class Kernel>
void launch(int blocks, int threads, Kernel&& kernel) {
  for (int block = 0; block < blocks; ++block)
    for (int thread = 0; thread < threads; ++thread) kernel(block, thread);
}

void grid() {
  book::section("grid");
  const int n = 1000, threads = 256, blocks = (n + threads - 1) / threads;
  const ct::Tensor x = ct::linspace(-5, 5, n);
  const float* const from = x.data<float>();
  std::vector<float> y(n);
  std::vector<int> written(n);
  int idle = 0;
  launch(blocks, threads, [&](int block, int thread) {
    const int i = block * threads + thread;
    if (i >= n) return void(++idle);
    y[static_cast<std::size_t>(i)] = from[i] / (1 + std::abs(from[i]));
    ++written[static_cast<std::size_t>(i)];
  });
  for (const int times : written) book::claim(times == 1, "every element is written once");
  const double off = ct::amax(ct::abs(ct::from_vector(y) - ct::softsign(x))).item();
  book::claim(off < 1e-7, "the numbers are those of ct::softsign");
  std::printf("%d numbers: %d blocks of %d threads, of which %d have nothing to do\n", n, blocks, threads,
              idle);
  std::printf("thread   3 of block 0 has element %d\nthread   3 of block 2 has element %d\n", 3,
              2 * threads + 3);
  std::printf("thread 255 of block 3 would have element %d\n", 3 * threads + 255);
}

/// A way in which 32 lanes find their addresses; each wants so many bytes.
struct Access {
  const char* name;
  std::function<long(long lane)> element;
  int bytes = 4;
};

std::vector<Access> accesses() {
  return {{"neighbours", [](long lane) { return lane; }},
          {"neighbours, from 1 on", [](long lane) { return lane + 1; }},
          {"neighbours, backwards", [](long lane) { return 31 - lane; }},
          {"all the same", [](long) { return 5L; }},
          {"every 2nd", [](long lane) { return 2 * lane; }},
          {"every 4th", [](long lane) { return 4 * lane; }},
          {"every 8th, or further", [](long lane) { return 8 * lane; }},
          {"neighbours, 16 bytes each", [](long lane) { return 4 * lane; }, 16}};
}

std::vector<long> addresses(const Access& access) {
  std::vector<long> bytes;
  for (long lane = 0; lane < 32; ++lane) bytes.push_back(4 * access.element(lane));
  return bytes;
}

void warps() {
  book::section("warps");
  std::printf("%-26s sectors   bytes fetched for one that is wanted\n", "lanes read");
  for (const Access& access : accesses()) {
    const int found = book::sectors(addresses(access), access.bytes);
    std::printf("%-26s %7d %12.2f\n", access.name, found, found * 32.0 / (32 * access.bytes));
  }
}

/// The first 32 sectors of the memory, and for each access which of their 8 words are wanted.
void picture() {
  std::ostringstream out;
  const auto all = accesses();
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 880 " << 34 * all.size() + 12
      << "' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n";
  for (std::size_t row = 0; row < all.size(); ++row) {
    const double y = 8 + 34.0 * static_cast<double>(row);
    out << "<text x='8' y='" << y + 17 << "'>" << all[row].name << "</text>\n";
    std::vector<bool> wanted(256);
    for (const long byte : addresses(all[row]))
      for (long word = byte / 4; word < byte / 4 + all[row].bytes / 4; ++word)
        if (word < 256) wanted[static_cast<std::size_t>(word)] = true;
    for (std::size_t sector = 0; sector < 32; ++sector) {
      std::string words;
      for (std::size_t word = 0; word < 8; ++word)
        if (wanted[8 * sector + word])
          words += "M" + std::to_string(172 + 22 * static_cast<int>(sector) + 2 * static_cast<int>(word)) +
                   " " + std::to_string(static_cast<int>(y) + 5) + "v16";
      out << "<rect x='" << 170 + 22 * sector << "' y='" << y
          << "' width='20' height='26' stroke='#557' fill='" << (words.empty() ? "#fff" : "#d6e4f7") << "'/>";
      if (!words.empty()) out << "<path stroke='#c33' stroke-width='1.4' d='" << words << "'/>";
    }
    out << '\n';
  }
  book::figure("09-warp", out.str() + "</svg>\n");
}

/// Number of blocks that a multiprocessor of compute capability 9.0 holds at once, and the resource
/// that limits it.
void resident() {
  book::section("resident");
  std::printf(
      "threads a block   registers a thread   shared memory   blocks   threads   occupancy   what runs "
      "out\n");
  struct Kernel {
    int threads, registers, shared_kib;
  };
  for (const auto& [threads, registers, shared_kib] :
       {Kernel{256, 32, 0}, {256, 64, 0}, {256, 168, 0}, {1024, 40, 0}, {256, 32, 48}, {32, 32, 0}}) {
    const std::pair<int, const char*> limits[] = {
        {2048 / threads, "threads"},
        {65536 / (threads * registers), "registers"},
        {shared_kib > 0 ? 227 / (shared_kib + 1) : 99, "shared memory"},
        {32, "blocks"}};
    const auto least = *std::min_element(std::begin(limits), std::end(limits),
                                         [](const auto& a, const auto& b) { return a.first < b.first; });
    std::printf("%15d %20d %11d KiB %8d %9d %9.1f %%   %s\n", threads, registers, shared_kib, least.first,
                least.first * threads, 100.0 * least.first * threads / 2048, least.second);
  }
}

/// Rate times latency is what must be on its way.
void under_way() {
  book::section("under way");
  const double rate = 4.8e12, latency = 700e-9, multiprocessors = 132;
  const double wanted = rate * latency / multiprocessors;
  std::printf("4.8 TB/s for 700 ns are %.1f MB, %.1f KB for each of 132 multiprocessors\n",
              rate * latency / 1e6, wanted / 1e3);
  for (const int bytes : {4, 8, 16}) {
    const double reads = 2048 * bytes * multiprocessors / latency;
    std::printf(
        "2048 threads that wait for %2d bytes each: %4.1f KB, %4.0f GB/s of reads, %4.0f GB/s of a copy\n",
        bytes, 2.048 * bytes, std::min(rate, reads) / 1e9, std::min(rate, 2 * reads) / 1e9);
  }
}

/// Runs that a warp makes whose lanes take these ways: one for each that some lane takes.
int runs(const std::vector<int>& ways) {
  return static_cast<int>(std::set<int>(ways.begin(), ways.end()).size());
}

void divergence() {
  book::section("divergence");
  std::printf("ways   neighbours differ: runs, lanes busy   warps differ: runs, lanes busy\n");
  for (const int ways : {1, 2, 4, 8, 16, 32}) {
    std::vector<int> by_lane, by_warp;
    for (int lane = 0; lane < 32; ++lane) by_lane.push_back(lane % ways), by_warp.push_back(7 % ways);
    std::printf("%4d %24d %9d %% %20d %9d %%\n", ways, runs(by_lane), 100 / runs(by_lane), runs(by_warp),
                100 / runs(by_warp));
  }
  std::mt19937 draw(1);
  for (const unsigned rare : {1000u, 100u, 10u}) {
    int both = 0;
    for (int warp = 0; warp < 20000; ++warp) {
      std::vector<int> ways;
      for (int lane = 0; lane < 32; ++lane) ways.push_back(draw() % rare == 0);
      both += runs(ways) == 2;
    }
    const double wanted = 1 - std::pow(1 - 1.0 / rare, 32) - std::pow(1.0 / rare, 32);
    std::printf("a side that one lane in %4u takes: both run in %4.1f %% of the warps\n", rare, both / 200.0);
    book::claim(std::abs(both / 20000.0 - wanted) < 0.02, "1 - (1 - p)^32 of the warps have such a lane");
  }
}

void chapter() {
  grid();
  warps();
  divergence();
  picture();
  under_way();
  resident();
}

}  // namespace

int main() { return book::run(chapter); }
