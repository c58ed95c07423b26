#include <cotangent/cotangent.h>
#include <cotangent/nn/io/sharded_checkpoint.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/parallel/zero1.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <vector>

#include "examples/common/small_program.h"

// A small GPT that is trained on several GPUs, or several processes: the ranks of mpirun, torchrun or srun, or threads of this
// process. Each has the whole model and a share of each batch; the losses are those of one rank with the whole batch.

namespace nn = ct::nn;
namespace dist = ct::dist;
using ct::Tensor;
using Clock = std::chrono::steady_clock;

namespace {

struct Settings {
  std::int64_t ranks = 0, steps = 200, batch = 32, length = 64, vocab = 64, layers = 2, heads = 4, width = 64,
               rounds = 5, warmup = 4;
  double lr = 3e-3;
  double bucket_mb = 25;
  bool zero1 = false, eager = false, bf16_wire = false;
  std::string checkpoints;
};

// Sequences that go on by a rule: each token follows from the one before and the one before that. A step has the same on all
// ranks, of which each takes its share.
Tensor sequences(const Settings& s, std::int64_t step) {
  ct::Generator draws(static_cast<std::uint64_t>(step) + 1);
  const Tensor start = ct::randint(0, s.vocab, {s.batch, 2}, {}, draws);
  std::vector<Tensor> columns{start.narrow(1, 0, 1), start.narrow(1, 1, 1)};
  for (std::int64_t t = 2; t <= s.length; ++t)
    columns.push_back(
        ct::remainder(columns[columns.size() - 1] * 3 + columns[columns.size() - 2] + 1, s.vocab));
  return ct::concat(columns, 1);
}

// Threads share the generator that a model's first weights are drawn from.
constinit std::mutex one_at_a_time;

void train(const Settings& s, const dist::Group& world) {
  const ct::Device device = world.device();
  const bool gpu = device.is_cuda(), speaks = world.rank() == 0;
  CT_CHECK(s.batch % world.size() == 0, ct::ValueError, "distributed", "--batch is ", s.batch, " for ",
           world.size(), " ranks; each takes the same share of it");
  std::unique_lock lock(one_at_a_time);
  ct::manual_seed(1);
  nn::models::Gpt2 model({.vocab_size = s.vocab,
                          .n_positions = s.length,
                          .n_embd = s.width,
                          .n_layer = s.layers,
                          .n_head = s.heads,
                          .embd_pdrop = 0,
                          .attn_pdrop = 0,
                          .resid_pdrop = 0,
                          .device = device});
  lock.unlock();
  nn::DataParallel parallel(model, world,
                            {.bucket_bytes = static_cast<std::int64_t>(s.bucket_mb * (1 << 20)),
                             .wire = s.bf16_wire ? std::optional(ct::bf16) : std::nullopt});
  const auto groups =
      ct::optim::decay_groups(model, ct::optim::AdamWOptions{.lr = s.lr, .weight_decay = 0.1});
  std::optional<nn::Zero1<ct::optim::AdamW>> shared;
  std::optional<ct::optim::AdamW> own;
  if (s.zero1)
    shared.emplace(parallel, groups);
  else
    own.emplace(groups);

  const auto update = [&](const Tensor& tokens) {
    std::optional<ct::Autocast> low;
    if (gpu) low.emplace(ct::bf16);
    parallel.zero_grad();
    const Tensor loss = model.loss(tokens.narrow(1, 0, s.length), tokens.narrow(1, 1, s.length));
    loss.backward();
    low.reset();
    ct::optim::clip_grad_norm_(model.parameters(), 1.0);
    shared ? shared->step() : own->step();
    return dist::all_reduce(loss.detach(), world, dist::ReduceOp::mean);
  };
  const ct::CapturePool pool;
  auto step = ct::capture(update, {.enabled = !s.eager, .pool = pool});
  const std::int64_t share = s.batch / world.size();
  const auto batch_of = [&](std::int64_t number) {
    return sequences(s, number).narrow(0, world.rank() * share, share).to(device);
  };
  const auto ms_of = [&](std::int64_t count, const auto& f) {
    ct::synchronize(device);
    dist::barrier(world);
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < count; ++i) f();
    ct::synchronize(device);
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() /
           static_cast<double>(count);
  };

  for (std::int64_t i = 1; i <= s.steps; ++i) {
    const Tensor loss = step(batch_of(i));
    if (speaks && (i == 1 || i % 20 == 0))
      std::printf("step %4lld  loss %.6f\n", static_cast<long long>(i), loss.item());
  }

  // The same steps once more, with and without communication in turns, for a GPU's clock moves within seconds of full load.
  auto alone = ct::capture(
      [&](const Tensor& tokens) {
        const auto off = parallel.no_sync();
        return update(tokens);
      },
      {.enabled = !s.eager, .pool = pool});
  const Tensor batch = batch_of(0);
  ms_of(s.warmup, [&] { step(batch); });
  ms_of(s.warmup, [&] { alone(batch); });
  const std::int64_t times = 10;
  std::vector<double> all, own_work;
  for (std::int64_t round = 0; round < s.rounds; ++round) {
    all.push_back(ms_of(times, [&] { step(batch); }));
    // The slowest rank counts, which the others wait for in any case.
    const Tensor mine = ct::full({}, ms_of(times, [&] { alone(batch); }));
    own_work.push_back(dist::all_reduce(mine, world, dist::ReduceOp::max).item());
  }
  const double with = ct::from_vector(all).median().item(),
               without = ct::from_vector(own_work).median().item();
  if (!s.checkpoints.empty()) {
    ct::io::ShardedCheckpoint checkpoints(s.checkpoints, world);
    const auto save = [&](std::int64_t number) {
      ct::StateDict common, part;
      common.merge("model", model.state_dict());
      shared ? part.merge("optimizer", shared->sharded_state())
             : common.merge("optimizer", own->state_dict());
      checkpoints.save(number, common, part);
    };
    save(1);
    checkpoints.wait();  // which has made the copies' memory
    int done = 0;
    const double saving = ms_of(times, [&] {
      step(batch);
      if (++done == 2) save(2);
    });
    checkpoints.wait();
    if (speaks)
      std::printf("a checkpoint stalls the steps by %.2f ms\n", (saving - with) * static_cast<double>(times));
  }
  std::int64_t kept = 0;
  for (const auto& [name, t] : shared ? shared->optimizer().state_dict() : own->state_dict())
    kept += t.nbytes();
  if (!speaks) return;
  std::printf("optimizer state of a rank: %.1f MB\n", static_cast<double>(kept) / 1e6);
  std::printf("%d ranks (%s)  %.2f ms a step  %.0f tokens/s  exposed communication %.2f ms\n", world.size(),
              world.backend().c_str(), with, static_cast<double>(s.batch * s.length) / with * 1000,
              with - without);
}

void run(const Settings& s) {
  if (s.ranks == 0) return train(s, dist::init());
  std::vector<ct::Device> devices;
  const int gpus = ct::cuda_device_count();
  for (std::int64_t r = 0; r < s.ranks && r < gpus; ++r) devices.push_back(ct::cuda(static_cast<int>(r)));
  if (devices.size() < static_cast<std::size_t>(s.ranks)) devices.clear();  // the CPU's
  dist::run_threads(
      s.ranks, [&](const dist::Group& world) { train(s, world); }, {}, devices);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "distributed",
      "Trains a small GPT on several ranks: threads (--ranks), or processes that mpirun, torchrun or srun "
      "starts.",
      argc, argv,
      [&](flags::Flags flags) {
        flags.whole("--ranks", s.ranks,
                    "threads, each on a GPU of its own or on the CPU; 0: the processes that were started", 0);
        flags.whole("--steps", s.steps, "of training");
        flags.whole("--batch", s.batch, "sequences, of all ranks together");
        flags.whole("--length", s.length, "tokens of a sequence", 2);
        flags.whole("--vocab", s.vocab, "different tokens", 2);
        flags.whole("--layers", s.layers, "of the GPT");
        flags.whole("--heads", s.heads, "of each layer");
        flags.whole("--width", s.width, "of each layer");
        flags.positive("--lr", s.lr, "learning rate");
        flags.on("--zero1", s.zero1, "each rank keeps its part of the optimizer's state alone");
        flags.positive("--bucket-mb", s.bucket_mb, "of gradients that are reduced at once");
        flags.on("--bf16-wire", s.bf16_wire, "gradients travel as bf16");
        flags.on("--eager", s.eager, "no captured steps");
        flags.whole("--rounds", s.rounds,
                    "of ten steps with and ten without communication, whose medians are printed");
        flags.whole("--warmup", s.warmup, "steps of both before the rounds", 0);
        flags.path("--checkpoints", s.checkpoints, "folder, to time what saving beside the steps costs them");
      },
      [&] { run(s); });
}
