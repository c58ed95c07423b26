#include <cotangent/core/base/philox.h>
#include <cotangent/cotangent.h>
#include <cotangent/nn/io/checkpoint.h>

#include <book.h>
#include <examples/common/svg.h>

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

// Chapter 22: a model of one's own, and a training that can be killed at any moment and ends in the same bits.

namespace {

using ct::Tensor;
namespace nn = ct::nn;
namespace fs = std::filesystem;

// --- the task: six digits, "=", and the same digits in order ---

constexpr std::int64_t kDigits = 6, kLength = 2 * kDigits, kExamples = 2048;

/// Tokens [n, 12] and targets [n, 12] of n examples: of "314159=11345" the token after each, from "=" on.
ct::data::TensorDataset<2> examples(std::int64_t n, std::uint64_t seed) {
  ct::Generator draw(seed);
  const Tensor digits = ct::randint(0, 10, {n, kDigits}, {}, draw), sorted = ct::sort(digits, 1).values;
  const Tensor tokens =
      ct::concat({digits, ct::full({n, 1}, 10, {.dtype = ct::i64}), sorted.narrow(1, 0, kDigits - 1)}, 1);
  return ct::data::TensorDataset<2>(
      tokens, ct::concat({ct::full({n, kDigits}, -100, {.dtype = ct::i64}), sorted}, 1));
}

// --- the model ---

struct Attention : nn::Module {
  std::int64_t heads;
  nn::Linear qkv, out;
  nn::Dropout drop = add("drop", nn::Dropout(0.05));
  Attention(std::int64_t width, std::int64_t heads)
      : heads(heads),
        qkv(add("qkv", nn::Linear(width, 3 * width))),
        out(add("out", nn::Linear(width, width))) {}

  Tensor forward(const Tensor& x) const {  // [B, T, D]
    const std::int64_t B = x.size(0), T = x.size(1), D = x.size(2), d = D / heads;
    const std::vector<Tensor> parts = qkv(x).view({B, T, 3, heads, d}).unbind(2);
    const Tensor q = parts[0].transpose(1, 2), k = parts[1].transpose(1, 2),
                 v = parts[2].transpose(1, 2);  // [B, h, T, d]
    const Tensor scores = ct::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(d));
    const Tensor later = ct::triu(ct::ones({T, T}), 1);  // what position i may not see
    const Tensor p = ct::softmax(scores - 1e9 * later, 3);
    return out(ct::matmul(drop(p), v).transpose(1, 2).reshape({B, T, D}));
  }
};

struct Model : nn::Module {
  nn::Embedding token = add("token", nn::Embedding(11, 32)), place = add("place", nn::Embedding(kLength, 32));
  nn::LayerNorm norm_1 = add("norm_1", nn::LayerNorm(32)), norm_2 = add("norm_2", nn::LayerNorm(32));
  Attention attention = add("attention", Attention(32, 4));
  nn::Linear wide = add("wide", nn::Linear(32, 64)), narrow = add("narrow", nn::Linear(64, 32));
  nn::Linear head = add("head", nn::Linear(32, 10));

  Tensor forward(const Tensor& tokens) const {
    Tensor x = token(tokens) + place(ct::arange(0, tokens.size(1)));
    x = x + attention.forward(norm_1(x));
    x = x + narrow(ct::gelu(wide(norm_2(x))));
    return head(x);
  }
};

/// Share of 200 other examples whose six digits are all right, written one after the other.
double accuracy(Model& model) {
  const ct::NoGrad off_tape;
  model.eval();
  const ct::data::TensorDataset<2> test = examples(200, 99);
  const auto& [tokens, targets] = test.tensors();
  Tensor text = tokens.narrow(1, 0, kDigits + 1);  // up to "="
  for (std::int64_t i = 0; i < kDigits; ++i) {
    const Tensor logits = model.forward(text).narrow(1, kDigits + i, 1);
    text = ct::concat({text, ct::argmax(logits, 2)}, 1);
  }
  model.train();
  const Tensor wrong =
      ct::ne(text.narrow(1, kDigits + 1, kDigits), targets.narrow(1, kDigits, kDigits)).to(ct::f32);
  return ct::sum(ct::eq(ct::sum(wrong, {1}), 0)).item() / 200;
}

// --- the training ---

struct Result {
  std::vector<double> losses;  // by step, of those that this call made
  std::vector<double> weights;
  double right = 0;
};

/// Trains up to step `until`, from the checkpoint at `path` on if there is one; every fifth step saves one. `forgotten` is left
/// out when the checkpoint is read.
Result train(const std::string& path, std::int64_t until, const std::string& forgotten = {}) {
  ct::manual_seed(1);
  Model model;
  model.to(ct::f64);  // in f32 other machines' rounding would show in the digits below
  ct::optim::AdamW adam(model.parameters(), {.lr = 0.01});
  ct::optim::StepLR schedule(adam, {.step_size = 100, .gamma = 0.5});
  ct::data::DataLoader batches(examples(kExamples, 7), {.batch_size = 32, .shuffle = true, .seed = 5});

  const ct::StateDict fresh = forgotten == "loader" ? batches.state_dict() : adam.state_dict();
  std::int64_t step = 0;
  if (fs::exists(path)) {
    step = ct::io::load_checkpoint(
               path, {{"model", model}, {"optimizer", adam}, {"schedule", schedule}, {"batches", batches}})
               .value<std::int64_t>("step");
    if (forgotten == "optimizer") adam.load_state_dict(fresh);
    if (forgotten == "loader") batches.load_state_dict(fresh);
    if (forgotten == "generator") ct::manual_seed(1);
  }
  Result result;
  while (step < until)
    for (const auto& [x, y] : batches) {
      adam.zero_grad();
      const Tensor loss = ct::cross_entropy(model.forward(x).flatten(0, 1), y.flatten());
      loss.backward();
      adam.step();
      schedule.step();
      result.losses.push_back(loss.item());
      if (++step % 5 == 0) {
        ct::StateDict extras;
        extras.set_value("step", step);
        ct::io::save_checkpoint(
            path, {{"model", model}, {"optimizer", adam}, {"schedule", schedule}, {"batches", batches}},
            extras);
      }
      if (step == until) break;
    }
  for (const Tensor& p : model.parameters())
    for (const double w : p.detach().flatten().to_vector<double>()) result.weights.push_back(w);
  result.right = accuracy(model);
  return result;
}

/// A folder that is gone afterwards, in memory where the system has such a place.
struct Folder {
  fs::path path = (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
                  ("cotangent-book-22-" + std::to_string(getpid()));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

// --- kills ---

/// Trains in a process of its own, which the system kills after so many microseconds; 0: never. How it ended, by waitpid().
int in_a_process(const std::string& path, std::int64_t until, long microseconds) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (microseconds > 0) {
      const itimerval timer{{0, 0}, {0, microseconds}};
      setitimer(ITIMER_REAL, &timer, nullptr);  // SIGALRM, which nobody handles
    }
    try {
      train(path, until);
    } catch (...) { _exit(3); }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

constexpr std::int64_t kSteps = 400;

/// Before anything else in this program: a process with threads can't be doubled.
void killed(const Folder& folder) {
  std::mt19937 draw(3);
  int alive = 0;
  for (int i = 0; i < 40; ++i) {
    const int status = in_a_process(folder.file("killed"), kSteps, 2000 + static_cast<long>(draw() % 60000));
    if (WIFEXITED(status))
      book::claim(WEXITSTATUS(status) == 0, "a run that is taken up again has no error"), ++alive;
  }
  book::claim(alive < 40, "some are killed");
  book::claim(in_a_process(folder.file("killed"), kSteps, 0) == 0, "and the last one ends");
}

// --- random numbers ---

void numbers() {
  book::section("numbers");
  const ct::PhiloxBlock zero = ct::philox4x32(0, 0, 0, 0, 0, 0), one = ct::philox4x32(1, 0, 0, 0, 0, 0);
  std::printf("counter 0, key 0   %08x %08x %08x %08x\n", zero.word[0], zero.word[1], zero.word[2],
              zero.word[3]);
  std::printf("counter 1, key 0   %08x %08x %08x %08x\n", one.word[0], one.word[1], one.word[2], one.word[3]);
  ct::Generator draw(42);
  const ct::GeneratorState state = draw.state();
  const std::vector<float> tensor = ct::rand({8}, {}, draw).to_vector<float>();
  for (const std::uint64_t i : {7u, 0u, 3u}) {
    std::printf("element %d of a draw with seed 42: %.6f, by itself %.6f\n", static_cast<int>(i), tensor[i],
                ct::philox_uniform<float>(state, i));
    book::claim(tensor[i] == ct::philox_uniform<float>(state, i), "an element does not depend on the others");
  }
}

void orders() {
  book::section("order");
  const Tensor eight = ct::arange(0, 8);
  for (const int workers : {0, 3}) {
    ct::data::DataLoader batches(ct::data::TensorDataset<1>{eight},
                                 {.batch_size = 4, .shuffle = true, .workers = workers, .seed = 5});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::printf("%d threads load, epoch %d:", workers, epoch);
      for (const auto& batch : batches) {
        for (const std::int64_t i : batch[0].to_vector<std::int64_t>())
          std::printf(" %d", static_cast<int>(i));
        std::printf("  ");
      }
      std::printf("\n");
    }
  }
}

void trained(const Folder& folder) {
  book::section("trained");
  const Result whole = train(folder.file("whole"), kSteps), killed = train(folder.file("killed"), kSteps);
  double last = 0;
  for (std::size_t i = kSteps - 20; i < kSteps; ++i) last += whole.losses[i] / 20;
  std::printf(
      "400 steps: loss from %.2f to less than 0.15; of 200 others more than four of five are sorted\n",
      whole.losses[0]);
  book::claim(last < 0.15 && whole.right > 0.8,
              "it has learned (" + std::to_string(last) + ", " + std::to_string(whole.right) + ")");
  book::claim(whole.weights == killed.weights, "a run that was killed ends in the bits of one that was not");
  std::printf("killed 40 times, after 2 to 62 ms each: the same bits\n");
  const int before = ct::num_threads();
  for (const int threads : {1, 2, 5}) {
    ct::set_num_threads(threads);
    const Result again = train(folder.file(("threads" + std::to_string(threads)).c_str()), 60);
    book::claim(std::equal(again.losses.begin(), again.losses.end(), whole.losses.begin()),
                "losses have the same bits on so many threads");
  }
  ct::set_num_threads(before);
  std::printf("60 steps on 1, 2 and 5 threads: the same bits\n");
}

void forgotten(const Folder& folder) {
  book::section("forgotten");
  const Result whole = train(folder.file("all"), 160);
  std::printf(
      "taken up at step 80 without    the first other loss   its loss in the mean of the next 20, and what "
      "it was\n");
  std::vector<svg::Curve> curves;
  const char* const colors[] = {"#888", "#c33", "#36a", "#383"};
  for (const char* const what : {"nothing", "optimizer", "generator", "loader"}) {
    const std::string path = folder.file((std::string("without-") + what).c_str());
    train(path, 80);
    const Result rest = train(path, 160, what);
    std::size_t first = 0;
    double mean = 0, right = 0;
    while (first < 80 && rest.losses[first] == whole.losses[80 + first]) ++first;
    for (std::size_t i = 0; i < 20; ++i) mean += rest.losses[i] / 20, right += whole.losses[80 + i] / 20;
    svg::Curve curve{what, colors[curves.size()], {}, {}};
    for (std::size_t i = 0; i < 80; ++i)
      curve.x.push_back(static_cast<double>(80 + i)), curve.y.push_back(rest.losses[i]);
    curves.push_back(curve);
    std::printf("%-30s %15s %28.2f %10.2f\n", what, first == 80 ? "none" : std::to_string(80 + first).c_str(),
                mean, right);
  }
  book::figure("22-forgotten", svg::chart("Taken up again at step 80 without ...", "step", "loss", curves));
}

void chapter() {
  const Folder folder;
  killed(folder);
  numbers();
  orders();
  trained(folder);
  forgotten(folder);
}

}  // namespace

int main() { return book::run(chapter); }
