#include <cotangent/cotangent.h>

#include <book.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

// Chapter 9b, without a GPU: ways to time an op on the CPU, and a picture of two streams.

namespace {

/// Microseconds on the clock.
double clock_us(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

struct Times {
  double least, median, mean;
};

/// Times of `rounds` calls, each behind what `before` does, which is not counted.
Times times(
    int rounds, const std::function<void()>& work, const std::function<void()>& before = [] {}) {
  std::vector<double> found;
  for (int i = 0; i < rounds; ++i) {
    before();
    found.push_back(clock_us(work));
  }
  std::sort(found.begin(), found.end());
  double mean = 0;
  for (const double t : found) mean += t / rounds;
  return {found.front(), found[found.size() / 2], mean};
}

/// Keeps both cores busy while it lives.
class Other {
 public:
  Other() {
    for (int i = 0; i < 2; ++i)
      threads_.emplace_back([this] {
        while (!ended_) {}
      });
  }
  ~Other() {
    ended_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> ended_{false};
  std::vector<std::thread> threads_;
};

void timings() {
  book::section("timings");
  const ct::NoGrad guard;
  const std::int64_t n = 1 << 17;
  const ct::Tensor x = ct::linspace(-5, 5, n), few = ct::linspace(-5, 5, 16);
  const auto once = [&] { ct::softsign(x); };
  std::printf("softsign of %d numbers: 0.5 MB read, 0.5 MB written\n", static_cast<int>(n));
  const auto row = [&](const char* name, double us) {
    std::printf("%-48s %8.1f us %7.1f GB/s\n", name, us, 8e-3 * static_cast<double>(n) / us);
  };
  row("the first call", clock_us(once));
  row("the same again, median of 31", times(31, once).median);
  ct::Tensor other = ct::zeros({1 << 24});
  const auto evict = [&] { other.add_(1); };
  const Times cold = times(31, once, evict);
  row("other data in the caches before, median", cold.median);
  {
    // Another program comes and goes: ten rounds without it, five with it, and so on.
    std::vector<double> found;
    for (int turn = 0; turn < 3; ++turn) {
      for (int i = 0; i < 10; ++i) evict(), found.push_back(clock_us(once));
      const Other other_program;
      for (int i = 0; i < 5; ++i) evict(), found.push_back(clock_us(once));
    }
    double mean = 0;
    for (const double t : found) mean += t / static_cast<double>(found.size());
    std::sort(found.begin(), found.end());
    row("another program comes and goes, mean", mean);
    row("another program comes and goes, median", found[found.size() / 2]);
  }
  const double single = times(31, [&] { ct::softsign(few); }).median;
  const double of_many = times(31,
                               [&] {
                                 for (int i = 0; i < 1000; ++i) ct::softsign(few);
                               })
                             .median /
                         1000;
  const double nothing = times(31, [] {}).median;
  std::printf(
      "16 numbers: a call on the clock %.2f us, of a thousand calls %.2f us; the clock alone %.2f us\n",
      single, of_many, nothing);
  book::claim(cold.least <= cold.median && of_many > 0, "times are times");
}

/// Two steps of copy and compute, in one stream and in two, with what the host does.
void picture() {
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 820 250' font-family='sans-serif' "
         "font-size='12'>\n"
         "<rect width='820' height='250' fill='white'/>\n";
  const auto bar = [&](double x, double y, double width, const char* fill, const std::string& text) {
    out << "<rect x='" << 150 + x << "' y='" << y << "' width='" << width
        << "' height='22' stroke='#557' fill='" << fill << "'/><text x='" << 154 + x << "' y='" << y + 15
        << "'>" << text << "</text>\n";
  };
  const auto line = [&](double y, const char* name) {
    out << "<text x='8' y='" << y + 15 << "'>" << name << "</text>\n";
  };
  const char *const copy = "#d6e4f7", *const compute = "#f7d6c8", *const host = "#e4e4e4";
  line(10, "host"), line(40, "one stream");
  line(100, "host"), line(130, "stream of copies"), line(160, "stream of kernels");
  for (int i = 0; i < 4; ++i) bar(24.0 * i, 10, 22, host, ""), bar(24.0 * i, 100, 22, host, "");
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i + 1);
    bar(24 + 150.0 * i, 40, 60, copy, "copy " + n), bar(84 + 150.0 * i, 40, 90, compute, "kernel " + n);
    bar(24 + (i < 2 ? 60.0 * i : 90.0 * i - 30), 130, 60, copy, "copy " + n);
    bar(84 + 90.0 * i, 160, 90, compute, "kernel " + n);
    const double end = 150 + 24 + (i < 2 ? 60.0 * (i + 1) : 90.0 * i + 30);
    out << "<path stroke='#c33' d='M" << end << " 152L" << std::max(end, 150 + 84 + 90.0 * i) << " 160'/>\n";
  }
  out << "<text x='8' y='215'>red: an event, for which the stream of kernels waits</text>\n</svg>\n";
  book::figure("09b-streams", out.str());
}

/// n parts, each copied for `copy` and then computed for `compute`, the two in a stream each.
void overlapped() {
  book::section("overlapped");
  std::printf("copy   compute   4 parts, one stream   two streams   100 parts: times as fast\n");
  for (const auto& [copy, compute] : {std::pair{2.0, 3.0}, {3.0, 3.0}, {3.0, 1.0}}) {
    const auto in_two = [&, copy = copy, compute = compute](int parts) {
      double copied = 0, computed = 0;
      for (int i = 0; i < parts; ++i) copied += copy, computed = std::max(copied, computed) + compute;
      return computed;
    };
    std::printf("%4.0f %9.0f %21.0f %13.0f %26.2f\n", copy, compute, 4 * (copy + compute), in_two(4),
                100 * (copy + compute) / in_two(100));
    book::claim(in_two(4) == std::min(copy, compute) + 4 * std::max(copy, compute),
                "the first or the last part of the shorter is all that shows");
  }
}

void chapter() {
  timings();
  picture();
  overlapped();
}

}  // namespace

int main() { return book::run(chapter); }
