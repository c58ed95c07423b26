#include <cotangent/cotangent.h>
#include <cotangent/nn/profile/profile.h>

#include <book.h>
#include <queue.h>
#include <warp.h>

#include <chrono>
#include <cmath>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

// Chapter 15: where the time of a training step goes, predicted from its shapes, and how a clock is held to work that is queued.

namespace {

using ct::Tensor;

// --- a step, predicted ---

constexpr double kRows = 64, kIn = 784, kHidden = 256, kOut = 10;

/// A call's work, from shapes alone: floating-point operations, and numbers that pass through memory.
struct Work {
  const char* op;
  bool backward;
  double flops, numbers;
  const char* why;
};

/// A layer x [m, k] to y [m, n], w [n, k]: both directions of it.
std::vector<Work> step_work() {
  const double m = kRows, k = kIn, h = kHidden, n = kOut, parameters = k * h + h + h * n + n;
  return {{"linear", false, 2 * m * k * h, m * k + k * h + h + m * h, "x, w, b; y"},
          {"relu", false, m * h, 2 * m * h, "x; y"},
          {"linear", false, 2 * m * h * n, m * h + h * n + n + m * n, "x, w, b; y"},
          {"cross_entropy", false, 0, m * n, "x"},
          {"cross_entropy", true, 0, 2 * m * n, "x; dx"},
          {"linear", true, 4 * m * h * n, m * n + m * h + h * n + m * h + h * n + n, "g, x, w; dx, dw, db"},
          {"relu", true, 0, 3 * m * h, "g, y; dx"},
          {"linear", true, 2 * m * k * h, m * h + m * k + k * h + h, "g, x; dw, db"},
          {"adam_step", false, 0, 7 * parameters, "p, g, m, v; p, m, v"}};
}

/// A network of two layers, and one step of it.
struct Training {
  ct::nn::Sequential net{ct::nn::Linear(784, 256), ct::nn::ReLU(), ct::nn::Linear(256, 10)};
  ct::optim::Adam adam{net.parameters(), {.lr = 1e-3}};
  Tensor x = ct::randn({64, 784}), target = ct::randint(0, 10, {64});

  void step() {
    adam.zero_grad();
    ct::cross_entropy(net(x), target).backward();
    adam.step();
  }
};

void predicted(Training& training) {
  book::section("predicted");
  const ct::Profile profile = ct::profile([&] { training.step(); });
  std::vector<ct::Profile::Call> counted;
  for (const ct::Profile::Call& call : profile.calls)
    if (profile.ops[call.op] != "fill") counted.push_back(call);
  const std::vector<Work> work = step_work();
  book::claim(counted.size() == work.size(), "the step makes these calls, in this order");
  std::printf("                      predicted         counted\n");
  std::printf("call                 MFLOP    KB      MFLOP    KB   moves\n");
  for (std::size_t i = 0; i < work.size(); ++i) {
    const Work& w = work[i];
    const ct::Profile::Call& call = counted[i];
    const double bytes = 4 * w.numbers;
    std::printf("%-17s %8.2f %6.0f   %8.2f %6.0f   %s\n",
                (std::string(w.op) + (w.backward ? " back" : "")).c_str(), w.flops / 1e6, bytes / 1e3,
                call.flops / 1e6, call.bytes / 1e3, w.why);
    book::claim(profile.ops[call.op] == w.op && call.backward == w.backward, "the calls are those predicted");
    book::claim(std::abs(call.bytes - bytes) < 2000 && std::abs(call.flops - w.flops) < 4000,
                "work is counted as predicted, but for targets and counters");
  }
}

void least() {
  book::section("least");
  const double rate = 4.8e12, peak = 67e12, queue = 2.8e-6;
  double least = 0, linear = 0;
  for (const Work& w : step_work()) {
    const double time = std::max(w.flops / peak, 4 * w.numbers / rate);
    least += time;
    if (w.op == std::string("linear")) linear += time;
  }
  const auto calls = static_cast<double>(step_work().size());
  std::printf("on an H200, at 67 TFLOP/s and 4.8 TB/s\n");
  std::printf("all calls at their limits                 %5.2f us, of which products %.2f, Adam %.2f\n",
              least * 1e6, linear * 1e6, 4 * step_work().back().numbers / rate * 1e6);
  std::printf("%.0f calls queued in 2.8 us each             %5.2f us\n", calls, calls * queue * 1e6);
  std::printf("the queue takes %.0f times as long as the work\n", calls * queue / least);
}

// --- a clock beside a queue ---

/// The four ways to time `calls` equal calls: what each of them says that one takes, in us.
std::vector<double> four_ways(double host, double device, int calls) {
  std::vector<double> say;
  book::Queue none, once, marks, each;
  for (int i = 0; i < calls; ++i) none.call(host, device);
  say.push_back(none.host / calls);
  for (int i = 0; i < calls; ++i) once.call(host, device);
  once.wait();
  say.push_back(once.host / calls);
  for (const double before : {0.0, 1000.0}) {
    marks.call(0, before);  // a long call in front: the host gets ahead
    double between = 0;
    for (int i = 0; i < calls; ++i) {
      const double begin = marks.mark();
      marks.call(host, device);
      between += marks.mark() - begin;
    }
    say.push_back(between / calls);
    marks.wait();
  }
  for (int i = 0; i < calls; ++i) each.call(host, device), each.wait();
  say.push_back(each.host / calls);
  return say;
}

void clocks() {
  book::section("four ways");
  const int calls = 100;
  const std::vector<double> large = four_ways(2.8, 12.7, calls), small = four_ways(2.8, 0.5, calls);
  const char* const ways[] = {"the clock, and no wait", "the clock, one wait at the end",
                              "events around each call", "events, behind a long call",
                              "the clock, a wait after each"};
  std::printf("us per call, queued in 2.8                  device 12.7   device 0.5\n");
  for (std::size_t way = 0; way < 5; ++way)
    std::printf("%-43s %11.1f %12.1f\n", ways[way], large[way], small[way]);
  book::claim(large[0] == small[0], "without a wait the clock does not see the device");
  book::claim(large[1] < 12.9 && small[1] < 2.9, "one wait shows the slower of the two");
  book::claim(std::abs(small[3] - 0.5) < 0.01, "with the host ahead events show the device");
  book::claim(large[4] > 18 && large[4] < 20, "a wait after each call adds the way there and back");
}

void timeline() {
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 230' font-family='sans-serif' "
         "font-size='12'>\n"
         "<rect width='100%' height='100%' fill='white'/>\n";
  const auto draw = [&](int row, const char* title, double host, double device, bool waits) {
    const int top = 12 + 72 * row;
    out << "<text x='8' y='" << top + 12 << "'>" << title << "</text>\n";
    book::Queue queue;
    for (int call = 0; call < 6; ++call) {
      const double from = queue.host;
      queue.call(host, device);
      const auto box = [&](double begin, double end, int y, const char* fill) {
        out << "<rect x='" << 60 + 8.5 * begin << "' y='" << y << "' width='" << 8.5 * (end - begin)
            << "' height='16' stroke='#557' fill='" << fill << "'/>";
      };
      box(from, queue.host, top + 20, "#d6e4f7");
      box(queue.device - device, queue.device, top + 40, "#f6c9b8");
      if (waits) queue.wait();
    }
    out << "<text x='8' y='" << top + 33 << "'>host</text><text x='8' y='" << top + 53 << "'>device</text>\n";
  };
  draw(0, "the device is the slower one: it has no gaps, the host is ahead", 2.8, 12.7, false);
  draw(1, "the host is the slower one: the device waits for work", 2.8, 0.5, false);
  draw(2, "a wait after each call: nobody is ahead, both have gaps", 2.8, 6, true);
  book::figure("15-timeline", out.str() + "</svg>\n");
}

// --- counters, predicted ---

void counters() {
  book::section("counters");
  const auto lanes = [](auto&& f) {
    std::vector<long> list;
    for (long lane = 0; lane < 32; ++lane) list.push_back(f(lane));
    return list;
  };
  std::printf("what 32 lanes do                          counter            predicted\n");
  const auto row = [](const char* what, const char* counter, int value) {
    std::printf("%-41s %-25s %2d\n", what, counter, value);
  };
  row("read neighbours", "sectors a request", book::sectors(lanes([](long l) { return 4 * l; })));
  row("each read a line of their own", "sectors a request",
      book::sectors(lanes([](long l) { return 128 * l; })));
  row("read 16 bytes each, side by side", "sectors a request",
      book::sectors(lanes([](long l) { return 16 * l; }), 16));
  row("write a column of a tile [32][32]", "bank conflicts a request",
      book::bank_turns(lanes([](long l) { return 32 * l; })) - 1);
  row("write a column of a tile [32][33]", "bank conflicts a request",
      book::bank_turns(lanes([](long l) { return 33 * l; })) - 1);
  row("256 threads of 64 registers", "% of warps resident", 100 * (65536 / 64 / 256 * 256) / 2048);
}

void table(Training& training) {
  book::section("table");
  std::ostringstream table;
  ct::profile([&] {
    for (int i = 0; i < 50; ++i) training.step();
  }).table(table);
  std::printf("%s", table.str().c_str());
}

void stalled(Training& training) {
  book::section("stalled");
  const ct::Profile p = ct::profile([&] {
    training.adam.zero_grad();
    const Tensor loss = ct::cross_entropy(training.net(training.x), training.target);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a loop that does something else here
    loss.backward();
    training.adam.step();
  });
  std::printf("begins   takes   gap before, us\n");
  double end = 0;
  for (const auto& call : p.calls) {
    if (call.parent >= 0) continue;
    std::printf("%6.0f %7.0f %12.0f   %s%s\n", call.start_us, call.us, call.start_us - end,
                p.ops[call.op].c_str(), call.backward ? ", back" : "");
    end = call.start_us + call.us;
  }
}

void on_a_cpu() {
  book::section("on a CPU");
  const Tensor x = ct::randn({1 << 18});
  const auto call = [&] { return ct::softsign(x); };
  const auto clock_us = [&](int calls) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
           calls;
  };
  const auto row = [](const char* way, double us) {
    std::printf("%-39s %8.1f us %6.1f GB/s\n", way, us, 8 * (1 << 18) / us / 1e3);
  };
  row("the first call", clock_us(1));
  row("the second", clock_us(1));
  row("the mean of 200", clock_us(200));
  row("the median of 200, caches as they are",
      1e6 * ct::time_of([&] { call(); }, {.runs = 200, .flush = false}));
  row("the median, other data before each", 1e6 * ct::time_of([&] { call(); }, {.runs = 50}));
}

void chapter() {
  ct::manual_seed(1);
  Training training;
  training.step(), training.step();
  predicted(training);
  least();
  clocks();
  timeline();
  counters();
  table(training);
  stalled(training);
  on_a_cpu();
}

}  // namespace

int main() { return book::run(chapter); }
