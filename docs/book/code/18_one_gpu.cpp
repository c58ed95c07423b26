#include <cotangent/cotangent.h>
#include <cotangent/nn/explain/explain.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/profile/profile.h>

#include <book.h>
#include <chain.h>
#include <examples/common/svg.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

// Chapter 18: what a step keeps in memory, what each way to keep less costs, and a loader that is never waited for.

namespace {

using book::Chain;
using ct::Tensor;

// --- recomputing, of a chain ---

/// Goes back through layers [first, last), whose input is x, and keeps the inputs of all of them.
double back_all(Chain& chain, const Chain::Value& x, int first, int last, double g) {
  std::vector<Chain::Value> inputs{x};
  for (int i = first; i + 1 < last; ++i) inputs.push_back(chain.forward(i, inputs.back()));
  for (int i = last; i-- > first; inputs.pop_back()) g = chain.backward(i, inputs.back(), g);
  return g;
}

/// The same for the whole chain, and keeps the input of every k-th layer only.
double back_every(Chain& chain, const Chain::Value& x, int k, double g) {
  std::vector<Chain::Value> kept{x};
  const int n = chain.layers();
  for (int first = 0; first + k < n; first += k) {
    Chain::Value at = kept.back();
    for (int i = first; i < first + k; ++i) at = chain.forward(i, at);
    kept.push_back(at);
  }
  for (int first = (n - 1) / k * k; first >= 0; first -= k, kept.pop_back())
    g = back_all(chain, kept.back(), first, std::min(first + k, n), g);
  return g;
}

void recomputed_chain() {
  book::section("chain");
  const int n = 64;
  std::printf("%d layers\nkept: input of       values held, at most   layers computed forward\n", n);
  std::vector<double> plain;
  std::vector<svg::Curve> curves;
  const char* const colors[] = {"#888", "#c33", "#36a", "#383"};
  for (const int k : {1, 2, 4, 8, 16, 32, 64}) {
    Chain chain(n);
    const Chain::Value x = chain.input(0.5);
    if (k == 1)
      back_all(chain, x, 0, n, 1);
    else
      back_every(chain, x, k, 1);
    if (k == 1) plain = chain.dw;
    book::claim(chain.dw == plain, "the gradients have the same bits");
    std::printf("every %2d. layer %18d %25d\n", k, chain.most_held, chain.forwards);
    if (k == 1 || k == 8 || k == 32) {
      svg::Curve curve{"every " + std::to_string(k) + ".", colors[curves.size()], {}, {}};
      for (std::size_t t = 0; t < chain.held_over_time.size(); ++t)
        curve.x.push_back(static_cast<double>(t)), curve.y.push_back(chain.held_over_time[t]);
      curves.push_back(curve);
    }
  }
  book::figure("18-chain", svg::chart("Values held, forward and back", "layers computed, forward or back",
                                      "held", curves));
}

// --- a transformer ---

namespace models = ct::nn::models;
constexpr std::int64_t kBatch = 16, kLength = 64, kVocabulary = 8000;

models::Gpt2 transformer(bool recompute) {
  ct::manual_seed(1);
  return models::Gpt2({.vocab_size = kVocabulary,
                       .n_positions = kLength,
                       .n_embd = 64,
                       .n_layer = 6,
                       .n_head = 4,
                       .embd_pdrop = 0,
                       .attn_pdrop = 0,
                       .resid_pdrop = 0,
                       .recompute = recompute});
}

struct Way {
  const char* name;
  std::int64_t parts = 1;  // micro-batches
  bool recompute = false, fused_loss = true;
};

/// The gradient of the mean loss over a batch, in so many parts.
void gradient(const models::Gpt2& model, const Way& way, const Tensor& tokens, const Tensor& targets) {
  const std::int64_t rows = tokens.size(0) / way.parts;
  for (std::int64_t part = 0; part < way.parts; ++part) {
    const Tensor loss = model.loss(tokens.narrow(0, part * rows, rows), targets.narrow(0, part * rows, rows),
                                   {.fused = way.fused_loss});
    (loss / static_cast<double>(way.parts)).backward();
  }
}

std::vector<std::vector<float>> gradients_of(const models::Gpt2& model) {
  std::vector<std::vector<float>> all;
  for (const Tensor& p : model.parameters()) all.push_back(p.grad().to_vector<float>());
  return all;
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void ways_out() {
  const Tensor tokens = ct::randint(0, kVocabulary, {kBatch, kLength});
  const Tensor targets = ct::randint(0, kVocabulary, {kBatch, kLength});
  {
    book::section("kept");
    const models::Gpt2 model = transformer(false);
    const ct::Explanation tape = ct::explain(model.loss(tokens, targets, {.fused = false}));
    std::map<std::string, std::pair<int, double>> by_op;
    for (const auto& node : tape.nodes)
      ++by_op[node.op].first, by_op[node.op].second += mib(static_cast<std::size_t>(node.bytes));
    std::printf("op                            nodes   MiB kept\n");
    for (const auto& [op, sum] : by_op)
      if (sum.second > 0.01) std::printf("%-30s %4d %10.2f\n", op.c_str(), sum.first, sum.second);
    std::printf("%-30s %15.2f\n", "all, each byte counted once", mib(static_cast<std::size_t>(tape.bytes)));
  }
  book::section("ways out");
  std::printf("                               most memory, MiB   gradients\n");
  std::vector<std::vector<float>> first;
  for (const Way& way :
       {Way{"loss and output layer one op"}, Way{"the logits held", 1, false, false},
        Way{"4 micro-batches of 4 rows", 4}, Way{"blocks computed again", 1, true}, Way{"both", 4, true}}) {
    const models::Gpt2 model = transformer(way.recompute);
    const ct::Profile seen = ct::profile([&] { gradient(model, way, tokens, targets); }, {.memory = true});
    const std::vector<std::vector<float>> found = gradients_of(model);
    double difference = 0, largest = 0;
    if (first.empty()) first = found;
    for (std::size_t i = 0; i < found.size(); ++i)
      for (std::size_t j = 0; j < found[i].size(); ++j) {
        difference = std::max(difference, std::abs(static_cast<double>(found[i][j]) - first[i][j]));
        largest = std::max(largest, std::abs(static_cast<double>(first[i][j])));
      }
    book::claim(difference < 1e-5 * largest, "gradients agree to rounding");
    std::printf("%-30s %16.0f   %s\n", way.name, mib(seen.peaks[0].bytes),
                difference == 0 ? "the bits of the first" : "other bits, the same to 1e-5");
  }
}

// --- parts of a mean ---

void parts() {
  book::section("parts");
  ct::manual_seed(2);
  Tensor w = ct::randn({5, 3});
  w.set_requires_grad();
  const Tensor x = ct::randn({8, 3});
  const Tensor t =
      ct::tensor({1, 4, 0, 2, 3, -100, -100, -100}, {.dtype = ct::i64});  // of the second half one counts
  const auto loss = [&](std::int64_t begin, std::int64_t rows, ct::Reduction reduction) {
    return ct::cross_entropy(ct::linear(x.narrow(0, begin, rows), w), t.narrow(0, begin, rows),
                             {.reduction = reduction});
  };
  const auto gradient_of = [&](auto&& backward) {
    w.set_grad({});
    backward();
    return w.grad().clone();
  };
  const Tensor whole = gradient_of([&] { loss(0, 8, ct::Reduction::mean).backward(); });
  const Tensor means = gradient_of([&] {
    for (const int begin : {0, 4}) (loss(begin, 4, ct::Reduction::mean) / 2).backward();
  });
  const Tensor sums = gradient_of([&] {
    for (const int begin : {0, 4}) (loss(begin, 4, ct::Reduction::sum) / 5).backward();
  });
  const auto off = [&](const Tensor& g) {
    return ct::amax(ct::abs(g - whole)).item() / ct::amax(ct::abs(whole)).item();
  };
  std::printf("two micro-batches of 4 rows, of which 4 and 1 count; the gradient is off by\n");
  std::printf("mean of the means         %.0f %%\n", 100 * off(means));
  std::printf("sum of sums, by the count %.0f %%\n", 100 * off(sums));
  book::claim(off(means) > 0.05 && off(sums) < 1e-6, "means of unequal parts are not the mean of all");
}

// --- batches ahead ---

/// Milliseconds that `steps` steps take, if up to `ahead` batches are made before they are wanted; 0: by the loop itself.
double loop(const std::vector<double>& load, double copy, double step, int ahead) {
  std::vector<double> taken, made;
  double loader = 0, device = 0;
  for (std::size_t i = 0; i < load.size(); ++i) {
    const auto depth = static_cast<std::size_t>(ahead);
    if (ahead == 0) {
      device += load[i] + copy + step;
      continue;
    }
    if (i >= depth) loader = std::max(loader, taken[i - depth]);  // a place is free
    loader += load[i];
    made.push_back(loader + copy);  // by a stream of its own
    taken.push_back(std::max(device, made.back()));
    device = taken.back() + step;
  }
  return device;
}

void loading() {
  book::section("loading");
  std::mt19937 draw(1);
  std::vector<double> even(400, 8), uneven;
  for (int i = 0; i < 400; ++i) uneven.push_back(draw() % 10 == 0 ? 44 : 4);  // 8 as well, in the mean
  double mean = 0;
  for (const double ms : uneven) mean += ms / 400;
  std::printf("ms a step; loading takes 8, or %.1f in the mean, a copy 1, computing 10\n", mean);
  std::printf("batches ahead   each loads in 8   nine in 4, the tenth in 44\n");
  for (const int ahead : {0, 1, 2, 4, 8, 16})
    std::printf("%13d %17.1f %24.1f\n", ahead, loop(even, 1, 10, ahead) / 400,
                loop(uneven, 1, 10, ahead) / 400);
}

/// Examples that take two milliseconds to load.
struct Slow {
  std::int64_t size() const { return 64; }
  Tensor get_batch(std::span<const std::int64_t> indices) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return ct::zeros({static_cast<std::int64_t>(indices.size())});
  }
};

void measured() {
  book::section("measured");
  for (const int workers : {0, 1, 2}) {
    ct::data::DataLoader batches(Slow{}, {.batch_size = 1, .workers = workers, .prefetch_batches = 4});
    const ct::TimeOptions once{.warmup = 1, .runs = 3, .flush = false, .device = ct::cpu};
    const double seconds = ct::time_of(
        [&] {
          for (const Tensor& x : batches)
            std::this_thread::sleep_for(std::chrono::milliseconds(x.numel() + 1));
        },
        once);
    std::printf("2 ms to load, 2 ms to compute, %d workers: %.1f ms a step\n", workers, 1e3 * seconds / 64);
  }
}

// --- memory that comes back ---

void pool() {
  book::section("pool");
  ct::empty_cache(ct::cpu);
  const models::Gpt2 model = transformer(false);
  ct::optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  const Tensor tokens = ct::randint(0, kVocabulary, {kBatch, kLength});
  std::printf("step   blocks asked for by tensors   and asked from the system\n");
  std::uint64_t last = 1;
  for (int step = 1; step <= 4; ++step) {
    const ct::MemoryStats before = ct::memory_stats(ct::cpu);
    adam.zero_grad();
    model.loss(tokens, tokens).backward();
    adam.step();
    const ct::MemoryStats after = ct::memory_stats(ct::cpu);
    last = after.allocations - before.allocations;
    if (step == 1 || step == 4)
      std::printf("%4d %29s %27s\n", step, after.requests - before.requests > 100 ? "hundreds" : "few",
                  last == 0 ? "none" : "some");
  }
  book::claim(last == 0, "after warm-up a step asks the system for nothing");
}

void chapter() {
  ct::manual_seed(1);
  ways_out();
  recomputed_chain();
  parts();
  loading();
  pool();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
