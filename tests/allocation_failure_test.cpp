#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <cotangent/cotangent.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/tokenizer.h>
#include <cotangent/ops/testing/allocators.h>

#include "tests/catch.h"
#include "tests/training_testing.h"

// Memory runs out at every place in turn: a failing call throws an exception, leaves nothing behind, and works
// the next time. The program's operator new is replaced for that; AddressSanitizer then sees malloc() below it,
// and finds all but a `new` that is given back by free().

namespace {

constexpr std::int64_t kNever = INT64_MAX;
std::atomic<std::int64_t> g_left{kNever};  // calls that succeed before one fails
std::atomic<bool> g_all_threads{false};
std::atomic<std::int64_t> g_live{0};  // blocks in use
constinit thread_local bool t_armed = false;

void* allocate(std::size_t bytes, std::size_t align) {
  if ((t_armed || g_all_threads.load(std::memory_order_relaxed)) && g_left.fetch_sub(1) == 0)
    throw std::bad_alloc();
  void* const block = align ? std::aligned_alloc(align, (bytes + align - 1) / align * align)
                            : std::malloc(bytes > 0 ? bytes : 1);
  if (!block) throw std::bad_alloc();
  g_live.fetch_add(1, std::memory_order_relaxed);
  return block;
}
void give_back(void* block) noexcept {
  if (block) g_live.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return allocate(bytes, static_cast<std::size_t>(align));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes, 0);
  } catch (const std::bad_alloc&) { return nullptr; }
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete(void* block, std::size_t) noexcept { give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give_back(block); }

using namespace ct;
using namespace ct::testing;

namespace {

// Outcome of a call in which one allocation was to fail.
enum class Outcome {
  passed,    // there are not so many allocations
  thrown,    // std::bad_alloc, or an Error that speaks of it
  unharmed,  // it did without
};

class Armed {
 public:
  Armed(std::int64_t at, bool all_threads) {
    g_left = at;
    (all_threads ? void(g_all_threads = true) : void(t_armed = true));
  }
  ~Armed() {
    t_armed = false;
    g_all_threads = false;
  }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};

template <class F>
Outcome with_failure(std::int64_t at, bool all_threads, F&& call) {
  bool thrown = false;
  try {
    const Armed armed(at, all_threads);
    call();
  } catch (const std::bad_alloc&) { thrown = true; } catch (const Error&) {
    thrown = true;
  }
  const bool failed = g_left.exchange(kNever) < 0;
  CHECK(failed >= thrown);  // nothing else goes wrong
  return thrown ? Outcome::thrown : failed ? Outcome::unharmed : Outcome::passed;
}

// Calls `call` with the first, second, ... allocation failing, and `after` behind each, until none is left; all
// of the first `dense` ones, then ever fewer. Returns how many have failed.
template <class F, class After>
int at_every_allocation(F&& call, After&& after, int dense = 1000) {
  int failures = 0;
  for (int at = 0;; at += 1 + at / dense, ++failures) {
    INFO("allocation " << at);
    const Outcome outcome = with_failure(at, false, call);
    after(outcome);
    if (outcome == Outcome::passed) return failures;
  }
}

// Blocks of the heap in use. The test framework's own blocks are the same each time.
std::int64_t live() {
  INFO("blocks in use");
  CHECK(true);
  return g_live;
}

// A model and a step with a bit of everything.
class Training {
 public:
  explicit Training(Device device = cpu)
      : device_(device),
        model_(seeded(first_, second_)),
        adam(optim::decay_groups(model_, optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1})),
        ema(model_) {}

  // One step, or nothing, and an exception.
  void step() {
    default_generator().set_state({3, 0});
    adam.zero_grad();
    Tensor x = randn({4, 8}, {.device = device_});
    {
      const Autocast guard(bf16);
      x = recompute([this](const Tensor& t) { return dropout(gelu(first_(t)), 0.1); }, x);
      x = second_(x);
    }
    Tensor side = x * 2.0;
    side.add_(1.0);
    side.register_hook([](const Tensor& g) { return g * 0.5; });
    mse_loss(side.to(f32) + layer_norm(x.to(f32)), zeros({4, 4}, {.device = device_})).backward();
    optim::clip_grad_norm_(model_.parameters(), 0.5);
    adam.step();
  }

  std::string bits() const {
    std::string bytes;
    for (const StateDict& part : {model_.state_dict(), adam.state_dict(), ema.state_dict()}) {
      for (const auto& [name, tensor] : part) bytes += name + bytes_of(tensor.to(cpu).contiguous());
      for (const auto& [name, value] : part.values())
        if (const auto* count = std::get_if<std::int64_t>(&value)) bytes += name + std::to_string(*count);
    }
    return bytes;
  }
  void save(const std::string& path) {
    io::save_checkpoint(path, {{"model", model_}, {"adam", adam}, {"ema", ema}});
  }
  void load(const std::string& path) {
    io::load_checkpoint(path, {{"model", model_}, {"adam", adam}, {"ema", ema}});
  }

 private:
  nn::Sequential seeded(const nn::Linear& a, const nn::Linear& b) {
    nn::Sequential both(a, b);
    both.to(device_);
    return both;
  }
  static nn::Linear drawn(std::int64_t in, std::int64_t out) {
    manual_seed(5);
    return {in, out};
  }

  Device device_;
  nn::Linear first_ = drawn(8, 16), second_ = drawn(16, 4);
  nn::Sequential model_;

 public:
  optim::AdamW adam;
  optim::Ema ema;
};

// A second training makes each step undisturbed. Where one fails, it is made again.
class Twins {
 public:
  explicit Twins(Device device = cpu) : failing_(device), other_(device) {
    for (int i = 0; i < 3; ++i) failing_.step(), other_.step();
  }
  void step() { failing_.step(); }
  void compare(bool again) {
    if (again) failing_.step();
    other_.step();
    CHECK((failing_.bits() == other_.bits()));
  }

 private:
  Training failing_, other_;
};

}  // namespace

TEST_CASE("a training step fails at any allocation of the heap, and is made again", "[training][memory]") {
  Twins twins;
  const std::int64_t before = live();
  const int failures =
      at_every_allocation([&] { twins.step(); }, [&](Outcome o) { twins.compare(o == Outcome::thrown); });
  CHECK(failures > 20);
  CHECK(live() <= before);
}

namespace {
void check_tensor_failures(Device device) {
  Twins twins(device);
  const auto failing = std::make_shared<FailingAllocator>(allocator(device));
  const AllocatorGuard guard(device, failing);
  twins.compare(true);
  const std::int64_t live = failing->live_blocks();
  const std::size_t in_use = memory_stats(device).in_use;
  for (std::int64_t at = 1;; ++at) {
    INFO("allocation " << at);
    failing->fail_at(at);
    bool thrown = false;
    try {
      twins.step();
    } catch (const OutOfMemoryError&) { thrown = true; }
    const bool failed = failing->calls() >= at;
    CHECK(thrown == failed);
    failing->fail_at(0);
    twins.compare(thrown);
    if (!failed) break;
  }
  CHECK(failing->live_blocks() == live);
  CHECK(memory_stats(device).in_use == in_use);
}
}  // namespace

TEST_CASE("a training step fails at any tensor, and is made again", "[training][memory]") {
  check_tensor_failures(cpu);
}
TEST_CASE("a training step fails at any tensor on CUDA, and is made again", "[training][memory][cuda]") {
  check_tensor_failures(cuda(0));
}

TEST_CASE("a checkpoint is written as a whole or not at all, whichever allocation fails", "[io][memory]") {
  const TempFolder folder;
  Training training;
  training.step();
  training.save(folder / "c");
  const std::string old = folder.read("c");
  training.step();
  training.save(folder / "new");
  const std::string fresh = folder.read("new");
  REQUIRE(old != fresh);
  folder.write("c", old);
  const std::int64_t before = live();
  const int failures = at_every_allocation([&] { training.save(folder / "c"); },
                                           [&](Outcome outcome) {
                                             const std::string found = folder.read("c");
                                             CHECK((found == old || outcome != Outcome::thrown));
                                             CHECK((found == fresh || outcome == Outcome::thrown));
                                             if (found != old) folder.write("c", old);
                                           });
  CHECK(failures > 100);
  CHECK(folder.count() == 2);
  CHECK(live() <= before);
}

TEST_CASE("a checkpoint is loaded again after any allocation that failed", "[io][memory]") {
  const TempFolder folder;
  Training training, loaded;
  for (int i = 0; i < 2; ++i) training.step();
  training.save(folder / "c");
  const std::string want = training.bits();
  for (int i = 0; i < 3; ++i) loaded.step();
  const std::int64_t before = live();
  const int failures = at_every_allocation([&] { loaded.load(folder / "c"); },
                                           [&](Outcome outcome) {
                                             if (outcome == Outcome::thrown) loaded.load(folder / "c");
                                             CHECK((loaded.bits() == want));
                                             loaded.step();
                                           });
  CHECK(failures > 100);
  CHECK(live() <= before);
}

TEST_CASE("a loader's failures arrive in the loop, whichever thread they happen in", "[data][memory]") {
  const auto check = [](int workers) {
    data::DataLoader loader(data::TensorDataset(arange(12).reshape({12, 1}), arange(12)),
                            {.batch_size = 4, .shuffle = true, .workers = workers, .seed = 3});
    const StateDict start = loader.state_dict();
    const auto all = [&] {
      std::vector<double> seen;
      for (const auto& [x, y] : loader) {
        const std::vector<double> batch = y.to_vector<double>();
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
      return seen;
    };
    const std::vector<double> want = all();
    REQUIRE(want.size() == 12);
    loader.load_state_dict(start);
    const auto fail_everywhere = [&] {
      int failures = 0;
      // Threads take turns as they like: it ends when a few calls in a row have come through.
      for (int at = 0, passed = 0; passed < 3; ++at) {
        INFO("allocation " << at << " with " << workers << " workers");
        std::vector<double> seen;
        const Outcome outcome = with_failure(at, true, [&] { seen = all(); });
        if (outcome == Outcome::thrown) {
          loader.load_state_dict(start);
          seen = all();
        }
        CHECK(seen == want);
        loader.load_state_dict(start);
        failures += outcome != Outcome::passed;
        passed = outcome == Outcome::passed ? passed + 1 : 0;
      }
      CHECK(failures > 10);
    };
    fail_everywhere();  // what is made once has been made
    const std::int64_t before = live();
    fail_everywhere();
    CHECK(live() <= before);
  };
  check(0);
  check(2);
}

TEST_CASE("threads that the system does not give are done without", "[core][data][memory]") {
  pthread_attr_t usual, huge;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_getattr_default_np(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);
  const int threads = num_threads();
  set_num_threads(threads % 8 + 2);  // another number: its threads are started at the next job
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  std::vector<std::int64_t> seen(1000);
  std::vector<double> labels;
  bool refused = false, thrown = false;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) { refused = true; }
  try {
    const detail::InCall inside;
    parallel_for(1000, 10, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)] += i;
    });
    data::DataLoader loader(data::TensorDataset(arange(8)), {.batch_size = 2, .workers = 2});
    for (const auto& [y] : loader)
      for (const double label : y.to_vector<double>()) labels.push_back(label);
  } catch (...) { thrown = true; }
  pthread_setattr_default_np(&usual);
  set_num_threads(threads);
  CHECK(refused);
  CHECK_FALSE(thrown);
  CHECK(std::accumulate(seen.begin(), seen.end(), std::int64_t{0}) == 499500);
  CHECK(labels == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("tokenizers fail at any allocation, and work the next time", "[text][memory]") {
  const TempFolder folder;
  const std::string text = "to be or not to be";
  text::CharTokenizer::from_text(text).save(folder / "char.json");
  folder.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aab": 3},
    "merges": [["a", "b"], "a ab"]}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"}, "added_tokens": [{"id": 4, "content": "<|end|>", "special": true}]})");
  for (const char* file : {"char.json", "tokenizer.json"}) {
    const std::string sample = std::string(file) == "char.json" ? text : "aababb<|end|>ab";
    const auto all = [&] {
      const auto tokenizer = text::load_tokenizer(folder / file);
      const auto ids = tokenizer->encode(sample);
      tokenizer->save(folder / "saved.json");
      return tokenizer->decode(ids) + std::to_string(ids.size());
    };
    const std::string want = all();
    const std::int64_t before = live();
    const int failures = at_every_allocation(
        [&] { CT_CHECK(all() == want, ValueError, "test", "other tokens than before"); },
        [&](Outcome outcome) { CHECK((outcome != Outcome::thrown || all() == want)); }, 10);
    CHECK(failures > 20);
    CHECK(live() <= before);
  }
}
