#include <cotangent/nn/io/sharded_checkpoint.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include <cotangent/cotangent.h>
#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/parallel/zero1.h>

#include "tests/catch.h"
#include "tests/dist_testing.h"

using namespace ct;
using namespace ct::testing;
using dist::Group;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ct_sharded_" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
};

// Trains from the newest checkpoint up to step `end`, with one behind each `every` steps; the losses.
std::vector<Tensor> train(const Group& g, const std::string& folder, int end, int every, int model_seed) {
  constexpr std::int64_t kBatch = 12;
  Tensor losses = zeros({8}, {.dtype = f64});
  static std::mutex& mutex = *new std::mutex;  // the threads share the default generator
  std::unique_lock lock(mutex);
  manual_seed(static_cast<std::uint64_t>(model_seed));
  nn::Sequential model(nn::Linear(6, 37), nn::Linear(37, 3));
  manual_seed(1);
  const Tensor x = randn({kBatch * 5, 6}, {.dtype = f64}), y = randn({kBatch * 5, 3}, {.dtype = f64});
  lock.unlock();
  model.to(f64);
  nn::DataParallel parallel(model, g, {.bucket_bytes = 1500});
  nn::Zero1<optim::AdamW> adam(parallel, optim::decay_groups(model, optim::AdamWOptions{.lr = 0.02}));
  data::DataLoader batches(
      data::TensorDataset(x, y),
      {.batch_size = kBatch / g.size(),
       .sampler = data::DistributedSampler(x.size(0), {.num_replicas = g.size(), .rank = g.rank()}),
       .seed = 3});
  io::ShardedCheckpoint checkpoints(folder, g, {.keep = 2});
  std::int64_t step = 0;
  if (const auto last = checkpoints.load()) {
    model.load_state_dict(last->state.part("model"));
    adam.load_state_dict(last->state.part("optimizer"));
    batches.load_state_dict(last->state.part("batches"));
    step = last->step;
  }
  while (step < end)
    for (const auto& [a, b] : batches) {
      parallel.zero_grad();
      const Tensor loss = mse_loss(model(a), b);
      loss.backward();
      adam.step();
      losses.narrow(0, step++, 1)
          .copy_(dist::all_reduce(loss.detach(), g, dist::ReduceOp::mean).reshape({1}));
      if (step % every == 0) {
        StateDict common, shared;
        common.merge("model", model.state_dict());
        common.merge("batches", batches.state_dict());
        shared.merge("optimizer", adam.sharded_state());
        checkpoints.save(step, common, shared);
      }
      if (step == end) break;
    }
  checkpoints.wait();
  dist::barrier(g);
  std::vector<Tensor> result{losses};
  for (const Tensor& p : model.parameters()) result.push_back(p.detach().clone());
  return result;
}

}  // namespace

TEST_CASE("ShardedCheckpoint: another number of ranks goes on where the run ended", "[dist][sharded]") {
  const Folder whole, parts;
  const auto uninterrupted = Ranks{2}.run([&](const Group& g) { return train(g, whole.path, 8, 100, 1); });
  for (const int again : {2, 1, 3}) {
    CAPTURE(again);
    fs::remove_all(parts.path);
    const auto begun = Ranks{2}.run([&](const Group& g) { return train(g, parts.path, 4, 2, 1); });
    const auto resumed = Ranks{again}.run([&](const Group& g) { return train(g, parts.path, 8, 2, 77); });
    for (const auto& rank : resumed) {
      CHECK(equal(rank[0].narrow(0, 0, 4), zeros({4}, {.dtype = f64})));
      for (std::size_t i = 0; i < rank.size(); ++i) {
        CAPTURE(i);
        const Tensor& wanted = uninterrupted[0][i];
        const Tensor got = i == 0 ? rank[0] + begun[0][0] : rank[i];
        CHECK(allclose(got, wanted, 1e-12, 1e-12));
        if (again == 2) CHECK(equal(got, wanted));
      }
    }
    // Two generations stay.
    CHECK(fs::exists(parts.path / "step-8"));
    CHECK(fs::exists(parts.path / "step-6"));
    CHECK_FALSE(fs::exists(parts.path / "step-4"));
  }
}

TEST_CASE("ShardedCheckpoint: a generation that is not whole is none", "[dist][sharded]") {
  const Folder folder;
  const auto save = [&](std::int64_t step, double value) {
    return Ranks{2}.run([&](const Group& g) {
      io::ShardedCheckpoint checkpoints(folder.path, g);
      checkpoints.save(step, StateDict{{"x", full({2, 5}, value, {.dtype = bf16})}, {"n", full({}, value)}});
      std::string why = "fine";
      try {
        checkpoints.wait();
      } catch (const IoError& e) {
        why = e.what();
        g.abort(why);
      } catch (const PeerError& e) { why = e.what(); }
      return std::vector{full({}, why == "fine" ? 1.0 : 0.0)};
    });
  };
  const auto newest = [&] { return io::ShardedCheckpoint(folder.path, Group()).load(); };
  CHECK_FALSE(newest());
  for (const auto& rank : save(3, 1.5)) CHECK(rank[0].item() == 1);
  REQUIRE(newest());
  CHECK(newest()->step == 3);
  CHECK(equal(newest()->state.at("x"), full({2, 5}, 1.5, {.dtype = bf16})));
  CHECK(newest()->state.at("n").item() == 1.5);
  // A place that can't be written, as a disk that is full.
  fs::create_directories(folder.path / "step-4" / "rank-1-of-2.safetensors" / "in the way");
  const auto failed = save(4, 2.5);
  CHECK(failed[1][0].item() == 0);
  CHECK(newest()->step == 3);
  // One that is killed between its files and LATEST.
  fs::copy(folder.path / "step-3", folder.path / "step-5", fs::copy_options::recursive);
  CHECK(newest()->step == 3);
  fs::remove(folder.path / "step-3" / "rank-1-of-2.safetensors");
  CHECK_THROWS_AS(newest(), IoError);
  StateDict other{{"x", zeros({3}, {.dtype = bf16})}};
  io::save((folder.path / "step-3" / "rank-1-of-2.safetensors").string(), other);
  CHECK_THROWS_AS(newest(), Error);
  std::ofstream(folder.path / "LATEST") << "nonsense";
  CHECK_THROWS_WITH(newest(), Catch::Contains("is no list of a checkpoint"));
  CHECK_THROWS_AS(io::ShardedCheckpoint(folder.path, Group(), {.keep = 0}), ValueError);
  CHECK_THROWS_AS(io::ShardedCheckpoint(folder.path, Group()).save(-1, {}), ValueError);
}
