#include <cotangent/cotangent.h>
#include <cotangent/nn/profile/profile.h>
#include <cotangent/ops/fusion/build_internal.h>

#include <book.h>
#include <examples/common/svg.h>
#include <queue.h>
#include <recorder.h>

#include <cmath>
#include <string>
#include <vector>

// Chapter 16: a step that is recorded and replayed, what goes wrong in it, and several ops as one pass.

namespace {

using book::Memory;
using ct::Tensor;

// --- a recorder of forty lines ---

/// 0 or 1, by the number of the draw: what a generator gives for an offset.
double coin(std::uint64_t offset) { return static_cast<double>(((offset + 1) * 0x9e3779b97f4a7c15u) >> 63); }

double rate(int step) { return step < 20 ? 0.1 : 0.01; }

/// A step of w towards 3, with dropout and a learning rate that falls. Its numbers are part of the calls, as arguments are.
void step_by_value(book::Recorder& to, int step) {
  to.call([offset = static_cast<std::uint64_t>(step)](Memory& m) { m.mask = 2 * coin(offset); });
  to.call([](Memory& m) { m.g = 2 * (m.w - 3) * m.mask; });
  to.call([lr = rate(step)](Memory& m) { m.w -= lr * m.g; });
}

/// The same step, whose calls say where its numbers lie.
void step_by_mailbox(book::Recorder& to) {
  to.call([](Memory& m) { m.mask = 2 * coin(m.offset); });
  to.call([](Memory& m) { m.g = 2 * (m.w - 3) * m.mask; });
  to.call([](Memory& m) { m.w -= m.lr * m.g; });
}

void wrong_and_right() {
  book::section("by value");
  const int steps = 40;
  svg::Curve curves[] = {
      {"plain", "#888", {}, {}}, {"by value", "#c33", {}, {}}, {"mailbox", "#36a", {}, {}}};
  book::Recorder plain, value, mailbox;
  std::printf("step      lr   mask   w plain   by value   by mailbox\n");
  for (int i = 0; i < steps; ++i) {
    step_by_value(plain, i);  // always run, never replayed
    if (i == 0)
      step_by_value(value, i);
    else
      value.replay();
    mailbox.memory.lr = rate(i), mailbox.memory.offset = static_cast<std::uint64_t>(i);  // before each replay
    if (i == 0)
      step_by_mailbox(mailbox);
    else
      mailbox.replay();
    const book::Recorder* const all[] = {&plain, &value, &mailbox};
    for (std::size_t k = 0; k < 3; ++k) {
      curves[k].x.push_back(i);
      curves[k].y.push_back(std::log10(3 - all[k]->memory.w));
    }
    if (i < 4 || i == 19 || i == steps - 1)
      std::printf("%4d %7.2f %6.0f %9.4f %10.4f %12.4f\n", i, rate(i), plain.memory.mask, plain.memory.w,
                  value.memory.w, mailbox.memory.w);
    book::claim(mailbox.memory.w == plain.memory.w, "the mailbox ends in the bits of the plain step");
  }
  book::claim(value.memory.w != plain.memory.w, "numbers by value stay those of the first step");
  book::figure("16-replay", svg::chart("Distance to 3, by step", "step", "log10 of 3 - w",
                                       {curves[0], curves[1], curves[2]}));
}

// --- what it saves ---

void launches() {
  book::section("launches");
  const double h = 2.8, d = 2.07 / 9;  // of chapter 15's step: nine calls, 2.07 us in all at their limits
  std::printf("calls a step   each queued   one launch   us, of which the device works %.2f a call\n", d);
  for (const int calls : {9, 100, 500}) {
    book::Queue each, once;
    for (int step = 0; step < 10; ++step) {
      for (int i = 0; i < calls; ++i) each.call(h, d);
      once.call(h, calls * d);
    }
    std::printf("%12d %13.1f %12.1f\n", calls, each.device / 10, once.device / 10);
  }
}

// --- the library's ---

struct Training {
  ct::nn::Sequential net{ct::nn::Linear(8, 16), ct::nn::ReLU(), ct::nn::Dropout(0.5), ct::nn::Linear(16, 2)};
  ct::optim::Adam adam{net.parameters(), {.lr = 0.05}};
  ct::optim::StepLR schedule{adam, {.step_size = 3, .gamma = 0.5}};

  Tensor step(const Tensor& x, const Tensor& target) {
    adam.zero_grad();
    Tensor loss = ct::cross_entropy(net(x), target);
    loss.backward();
    adam.step();
    schedule.step();
    return loss;
  }
};

void captured() {
  book::section("captured");
  const Tensor x = ct::randn({32, 8}), target = ct::randint(0, 2, {32});
  std::vector<std::vector<float>> weights[2];
  for (const bool replayed : {false, true}) {
    ct::manual_seed(7);
    Training training;
    auto step = ct::capture([&](const Tensor& a, const Tensor& b) { return training.step(a, b); });
    for (int i = 0; i < 12; ++i) {
      if (replayed)
        step(x, target);
      else
        training.step(x, target);
      weights[replayed].push_back(training.net.parameters()[0].detach().to_vector<float>());
    }
    if (!replayed) continue;
    book::claim(step.replays() == 9 && step.recordings() == 2,
                "one step is plain, two are recorded, nine replayed");
    std::printf("12 steps: 1 plain, 2 recorded and compared, 9 replayed\ncalls:");
    for (const std::string& name : step.kernels()) std::printf(" %s", name.c_str());
    std::printf("\n");
  }
  book::claim(weights[0] == weights[1], "a replayed step ends in the bits of the plain one");
  std::printf("weights after each of the 12 steps: the bits of 12 plain steps\n");
}

void measured() {
  book::section("measured");
  const Tensor x = ct::randn({32, 8}), target = ct::randint(0, 2, {32});
  Training training;
  auto replay = ct::capture([&](const Tensor& a, const Tensor& b) { return training.step(a, b); });
  const ct::TimeOptions warm{.warmup = 20, .runs = 200, .flush = false, .device = ct::cpu};
  std::printf("8-16-2, 32 rows: a step by calls %.1f us",
              1e6 * ct::time_of([&] { training.step(x, target); }, warm));
  std::printf(", replayed %.1f us\n", 1e6 * ct::time_of([&] { replay(x, target); }, warm));
}

void refused() {
  book::section("refused");
  const Tensor x = ct::ones({4});
  const auto says = [&](const char* name, auto&& function, const ct::CaptureOptions& options = {}) {
    auto step = ct::capture(function, options);
    std::string message = "nothing";
    try {
      for (int i = 0; i < 8; ++i) step(x);
    } catch (const ct::CaptureError& error) { message = error.what(); }
    std::printf("%s\n    %s\n", name, message.c_str());
    book::claim(message != "nothing", std::string(name) + " is refused");
  };
  says("a value is read", [](const Tensor& a) { return a * a.sum().item(); });
  says("a number of the host that changes", [n = 0.0](const Tensor& a) mutable { return a * (n += 1); });
  says("a state that is made anew", [h = ct::zeros({4})](const Tensor& a) mutable { return h = h + a; });
  says("a number that changes later, with check_every = 1",
       [n = 0](const Tensor& a) mutable { return a * (++n < 5 ? 1 : 2); }, {.check_every = 1});
}

// --- fusing ---

/// Tensors of n numbers that pass through memory, by what ops state as their cost, and the calls that move them.
template <class F>
std::pair<double, std::size_t> moved(double n, F&& f) {
  const ct::Profile profile = ct::profile(f);
  double bytes = 0;
  std::size_t calls = 0;
  for (const ct::Profile::Call& call : profile.calls)
    if (call.parent < 0) bytes += call.bytes, ++calls;
  return {bytes / n / sizeof(float), calls};
}

void fused() {
  book::section("fused");
  const std::int64_t rows = 256, columns = 512;
  Tensor x = ct::randn({rows, columns}), m = ct::randn({rows, columns}), b = ct::randn({columns});
  for (Tensor* t : {&x, &m, &b}) t->set_requires_grad();
  const Tensor g = ct::randn({rows, columns});
  const auto by_ops = [](const Tensor& a, const Tensor& c, const Tensor& d) { return ct::gelu(a + c) * d; };
  const auto as_one = ct::fuse([](auto a, auto c, auto d) { return gelu(a + c) * d; });
  const auto both = [&](const char* name, auto&& f) {
    Tensor y;
    std::vector<Tensor> d;
    ct::grad({f(x, b, m)}, {x, b, m}, {g});  // the first call reads the formula
    const auto [tensors, calls] = moved(rows * columns, [&] { y = f(x, b, m); });
    const auto [back_tensors, back_calls] = moved(rows * columns, [&] { d = ct::grad({y}, {x, b, m}, {g}); });
    std::printf("%-7s %9zu %8.1f %11zu %8.1f\n", name, calls, tensors, back_calls, back_tensors);
    d.push_back(y);
    return d;
  };
  std::printf("        forward: calls, tensors   back: calls, tensors\n");
  const std::vector<Tensor> ops = both("by ops", by_ops), one = both("fused", as_one);
  for (const std::size_t i : {0u, 2u, 3u})
    book::claim(ct::equal(ops[i], one[i]), "y, dx and dm have the same bits");
  book::claim(ct::amax(ct::abs(ops[1] - one[1])).item() < 1e-3, "db is summed in another order");
  std::printf("y, dx and dm have the same bits\n");
}

/// The kernel of gelu(x + b) * m that a GPU gets: its formulas, and the lines behind its addresses.
void generated() {
  book::section("generated");
  ct::fusion::Builder of;
  const auto call = [&](const char* op, std::vector<int> operands) {
    return of.call(*ct::find_op(op), ct::map::Parameters{}, operands, ct::f32);
  };
  const int x = of.input(ct::f32), b = of.input(ct::f32), m = of.input(ct::f32);
  const int y = call("mul", {call("gelu", {call("add", {x, b})}), m});
  const std::string text = ct::map::chain::cuda_text(
      of.finish({y}), {.vector = 4, .rank = 2, .storage = std::vector<ct::DType>(4, ct::f32)});
  const auto print = [&](const char* from, const char* behind) {
    const std::size_t at = text.rfind(from);
    std::printf("%s", text.substr(at, text.find(behind, at) - at).c_str());
  };
  print("struct F0", "struct Program"), print("  r1.load", "  }\n};");
}

void chapter() {
  ct::manual_seed(1);
  wrong_and_right();
  launches();
  captured();
  refused();
  fused();
  generated();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
