#include <cotangent/nn/io/checkpoint.h>

#include <csignal>
#include <functional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

namespace {

struct Net : nn::Module {
  nn::Linear in = add("in", nn::Linear(20, 300));
  nn::Dropout drop = add("drop", nn::Dropout(0.3));
  nn::Linear out = add("out", nn::Linear(300, 5));
  Tensor forward(const Tensor& x) const { return out(drop(relu(in(x)))); }
};

data::TensorDataset<2> examples() {
  Generator generator(77);
  return data::TensorDataset(ct::randn({100, 20}, {}, generator), ct::randint(0, 5, {100}, {}, generator));
}

constexpr int kEpochs = 3;

// A small training run with everything that has a state.
struct Run {
  explicit Run(int workers)
      : batches(examples(), {.batch_size = 16, .shuffle = true, .workers = workers}),
        optimizer(model.parameters(), {.lr = 0.01}),
        schedule(optimizer, {.step_size = 5, .gamma = 0.5}) {}

  Net model;
  data::DataLoader<data::TensorDataset<2>> batches;
  optim::AdamW optimizer;
  optim::StepLR schedule;
  std::int64_t steps = 0;

  void save(const std::string& path) {
    StateDict extras;
    extras.set_value("steps", steps);
    extras.set("mean", tensor_of<float>({1}, {0.5f}));
    io::save_checkpoint(
        path, {{"model", model}, {"optimizer", optimizer}, {"schedule", schedule}, {"batches", batches}},
        extras);
  }
  void load(const std::string& path) {
    steps =
        io::load_checkpoint(
            path, {{"model", model}, {"optimizer", optimizer}, {"schedule", schedule}, {"batches", batches}})
            .value<std::int64_t>("steps");
  }
  // Trains to the end; `after` is called behind each step.
  template <class After>
  void train(After&& after) {
    while (batches.epoch() < kEpochs) {
      for (auto [x, y] : batches) {
        const Tensor loss = cross_entropy(model.forward(x), y);
        optimizer.zero_grad();
        loss.backward();
        optim::clip_grad_norm_(model.parameters(), 1.0);
        optimizer.step();
        schedule.step();
        ++steps;
        after();
      }
    }
  }
  // A fingerprint of everything that training changes.
  std::size_t result() const {
    std::string bytes;
    for (const StateDict& part : {model.state_dict(), optimizer.state_dict()})
      for (const auto& [name, tensor] : part) bytes += name + bytes_of(tensor);
    bytes += std::to_string(default_generator().offset()) + ' ' + std::to_string(steps) + ' ' +
             std::to_string(schedule.time());
    return std::hash<std::string>()(bytes);
  }
};

}  // namespace

TEST_CASE("checkpoint: a resumed run equals the uninterrupted one, bit by bit", "[io]") {
  const TempFolder folder;
  const int threads = num_threads();
  manual_seed(3);
  Run whole(0);
  whole.train([&] { whole.save(folder / std::to_string(whole.steps)); });
  const std::size_t expected = whole.result();
  CHECK(whole.steps == kEpochs * 7);

  for (const int stop : {1, 6, 7, 8, 12, 20, 21}) {
    INFO("resumed after step " << stop);
    set_num_threads(1 + stop % 4);
    manual_seed(1000);  // whatever the new process starts with
    Run resumed(stop % 3);
    resumed.load(folder / std::to_string(stop));
    CHECK(resumed.steps == stop);
    resumed.train([] {});
    CHECK(resumed.result() == expected);
  }
  set_num_threads(threads);
}

#ifndef __SANITIZE_THREAD__  // which allows no threads after fork()
TEST_CASE("checkpoint: a run that is killed again and again still ends the same", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "last";
  manual_seed(4);
  Run whole(0);
  whole.save(path);
  whole.train([] {});
  const std::size_t expected = whole.result();

  // Each process goes on from the last checkpoint, and is killed after some time.
  for (int round = 0; round < 8; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      Run run(round % 2);
      run.load(path);
      run.train([&] { run.save(path); });
      _exit(0);
    }
    usleep(static_cast<useconds_t>(3000 + 5000 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  Run last(0);
  last.load(path);
  last.train([] {});
  CHECK(last.result() == expected);
}
#endif

TEST_CASE("checkpoint: parts and extras", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "c";
  manual_seed(5);
  Net model;
  default_generator().reserve(41);
  const GeneratorState rng = default_generator().state();
  StateDict extras{{"history", tensor_of<double>({2}, {1, 2})}};
  extras.set_value("best", 0.875);
  nn::Sequential nothing;
  io::save_checkpoint(path, {{"model", model}, {"nothing", nothing}}, extras);
  manual_seed(6);
  Net other;
  const StateDict back = io::load_checkpoint(path, {{"model", other}});
  CHECK(bytes_of(other.in.weight()) == bytes_of(model.in.weight()));
  CHECK(default_generator().state() == rng);
  CHECK(back["history"].to_vector<double>() == std::vector<double>{1, 2});
  CHECK(back.value<double>("best") == 0.875);
  io::load_checkpoint(path, {{"nothing", nothing}});
}

TEST_CASE("checkpoint: errors change nothing", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "c";
  Run saved(0);
  saved.save(path);
  Run run(0);
  nn::Linear misfit(3, 3);
  const std::size_t before = run.result();
  const auto load = [&](std::initializer_list<io::CheckpointPart> parts) {
    io::load_checkpoint(path, parts);
  };
  CHECK_THROWS_AS(load({{"optimizer", run.optimizer}, {"model", misfit}}), ValueError);
  CHECK_THROWS_AS(load({{"model", run.model}, {"batches", run.schedule}}), ValueError);
  CHECK_THROWS_AS(load({{"model", run.model}, {"weights", run.model}}), ValueError);
  optim::SGD other(run.model.parameters(), {.lr = 1, .momentum = 0.9});
  CHECK_THROWS_AS(load({{"schedule", run.schedule}, {"model", run.model}, {"optimizer", other}}), ValueError);
  CHECK(run.result() == before);

  CHECK_THROWS_AS(load({{"rng", run.model}}), ValueError);
  CHECK_THROWS_AS(load({{"", run.model}}), ValueError);
  CHECK_THROWS_AS(load({{"a.b", run.model}}), ValueError);
  CHECK_THROWS_AS(load({{"model", run.model}, {"model", run.model}}), ValueError);
  io::save(folder / "weights", run.model.state_dict());
  CHECK_THROWS_AS(io::load_checkpoint(folder / "weights", {{"model", run.model}}), IoError);
  CHECK_THROWS_AS(io::load_checkpoint(folder / "none", {{"model", run.model}}), IoError);
  try {
    load({{"weights", run.model}});
  } catch (const ValueError& error) {
    CHECK(std::string(error.what()).find("it has 'batches', 'model', 'optimizer', 'schedule'") !=
          std::string::npos);
  }
}
