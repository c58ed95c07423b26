// Work of all kinds after main(): in destructors of static and thread_local objects and in functions of atexit(), in a
// process that has worked before and in one that has not. It gives the same bits as it did in main().
//
// usage: at_exit FILE [cold]      FILE is written and read

#include <cotangent/cotangent.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <cotangent/core/op/registry.h>
#include <cotangent/nn/explain/explain.h>
#include <cotangent/nn/io/npy.h>
#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/text/tokenizer.h>
#include <cotangent/ops/testing/conformance_internal.h>

namespace {

using ct::Tensor;
namespace nn = ct::nn;
namespace optim = ct::optim;

const char* file = nullptr;

struct Digest {
  std::uint64_t value = 14695981039346656037u;
  void add(const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      value = (value ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  }
  void add(const Tensor& t) {
    if (!t.defined()) return;
    const Tensor bits = t.detach().contiguous();
    add(bits.raw_data(), static_cast<std::size_t>(bits.nbytes()));
  }
};

void all_ops(Digest& digest) {
  for (const ct::OpDef* op : ct::registry())
    for (const ct::DType dtype : {ct::f32, ct::f64, ct::bf16}) {
      if (!(op->dtypes & ct::dtype_bit(dtype))) continue;
      ct::SampleMaker make(1);
      for (const ct::Sample& sample : ct::find_tests(op->name)->samples(make)) {
        const auto inputs = ct::testing::conformance::convert(*op, sample.inputs, dtype, ct::cpu);
        std::vector<Tensor> cotangents;
        for (const Tensor& y : ct::testing::conformance::call(*op, inputs, sample.attrs)) {
          digest.add(y);
          cotangents.push_back(Tensor::allocate(y.shape(), y.dtype(), ct::cpu).fill_(1));
        }
        if (!op->differentiable || !ct::is_floating(inputs[0].dtype())) continue;
        for (const Tensor& g :
             ct::testing::conformance::differentiate(*op, inputs, sample.attrs, cotangents, ~0u).grads)
          digest.add(g);
      }
    }
}

template <class Optimizer>
void train(Digest& digest) {
  nn::Sequential model(nn::Linear(70, 90), nn::LayerNorm(90), nn::Tanh(), nn::Dropout(0.1),
                       nn::Linear(90, 10));
  Optimizer optimizer(model.parameters(), {.lr = 0.01});
  const ct::data::TensorDataset set(ct::randn({64, 70}), ct::randint(0, 10, {64}));
  ct::data::DataLoader loader(set, {.batch_size = 32, .shuffle = true, .workers = 2, .seed = 3});
  for (const auto& batch : loader) {
    optimizer.zero_grad();
    const ct::Autocast low(ct::bf16);
    ct::cross_entropy(model.forward(batch.at(0)), batch.at(1)).backward();
    optim::clip_grad_norm_(model.parameters(), 0.1);
    optim::clip_grad_value_(model.parameters(), 0.01);
    optimizer.step();
  }
  for (const Tensor& p : model.parameters()) digest.add(p);
}

void a_gpt(Digest& digest) {
  nn::models::Gpt2Config config;
  config.vocab_size = 50, config.n_positions = 32, config.n_embd = 32, config.n_layer = 2, config.n_head = 2;
  config.recompute = true;
  nn::models::Gpt2 model(config);
  optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  optim::Ema ema(model, {.decay = 0.9});
  const Tensor tokens = ct::randint(0, 50, {4, 32});
  const Tensor loss = model.loss(tokens, tokens);
  std::ostringstream text;
  text << ct::explain(loss) << loss;
  loss.backward();
  adam.step();
  ema.update();
  ct::io::save(file, model.state_dict());
  for (const auto& [name, tensor] : ct::io::load(file)) digest.add(tensor);
}

std::uint64_t work() {
  ct::manual_seed(7);
  Digest digest;
  all_ops(digest);
  train<optim::SGD>(digest), train<optim::Adam>(digest), train<optim::AdamW>(digest),
      train<optim::RMSprop>(digest);
  train<optim::Adagrad>(digest), train<optim::Lion>(digest);
  a_gpt(digest);
  const auto letters = ct::text::CharTokenizer::from_text("A network at work, \u00e4\u00f6\u00fc");
  for (const std::int64_t id : letters.encode("at work")) digest.add(&id, sizeof id);
  try {  // an error's text, and what anomaly mode says
    ct::matmul(ct::ones({2, 3}), ct::ones({2, 3}));
    std::abort();
  } catch (const ct::ShapeError& e) { digest.add(e.what(), std::strlen(e.what())); }
  const nn::Parameter none;
  return digest.value + none.defined();
}

std::optional<std::uint64_t> expected;

void work_at(const char* where) {
  const std::uint64_t got = work();
  if (!expected) expected = got;
  std::printf("%-45s %016llx\n", where, static_cast<unsigned long long>(got));
  std::fflush(stdout);
  if (got != *expected) std::_Exit(1);
}

struct Late {
  const char* where;
  ~Late() { work_at(where); }
};

Late first_static{"destructor of a static made first"};

Late& of_thread() {
  thread_local Late late{"destructor of a thread_local made first"};
  return late;
}

}  // namespace

int main(int argc, char** argv) {
  file = argv[1];
  const bool cold = argc > 2;
  of_thread();
  std::atexit([] { work_at("function of atexit(), registered first"); });
  if (!cold) work_at("main()");
  std::thread([] {
    Late& late = of_thread();
    late.where = "destructor of a thread_local in a thread";
    thread_local Late other{"destructor of a thread_local made last"};
    (void)&other;
  }).join();
  static Late last_static{"destructor of a static made last"};
}
