#include <cotangent/cotangent.h>
#include <cotangent/nn/io/sharded_checkpoint.h>
#include <cotangent/nn/parallel/data_parallel.h>
#include <cotangent/nn/parallel/zero1.h>
#include <cotangent/nn/profile/profile.h>

#include <book.h>
#include <examples/common/svg.h>
#include <wires.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

// Chapter 20: several ranks with a model each: how their gradients become one, what that costs, and what is shared out.

namespace {

using book::Wires;
using ct::Tensor;
namespace dist = ct::dist;
namespace nn = ct::nn;

// --- a sum of all ranks, by hand ---

/// All send to rank 0, which adds up, and sends the sum to all.
void through_rank_0(Wires& w) {
  const auto whole = [&](int from, int to, bool add) {
    for (int j = 0; j < w.ranks(); ++j) w.send(from, to, j, add), w.round();
  };
  for (int r = 1; r < w.ranks(); ++r) whole(r, 0, true);
  for (int r = 1; r < w.ranks(); ++r) whole(0, r, false);
}

/// Rank j adds up part j of all (a reduce_scatter), and sends it to all (an all_gather).
void by_parts(Wires& w) {
  const int p = w.ranks();
  for (const bool add : {true, false})
    for (int k = 1; k < p; ++k) {
      for (int r = 0; r < p; ++r) w.send(r, (r + k) % p, add ? (r + k) % p : r, add);
      w.round();
    }
}

void sums() {
  book::section("sums");
  const std::size_t n = 840;
  std::printf("ranks   through rank 0: sent by it, rounds   by parts: sent by each, rounds   2 (p-1)/p\n");
  for (const int p : {2, 4, 8}) {
    std::vector<std::vector<double>> values(static_cast<std::size_t>(p), std::vector<double>(n, 1));
    Wires star(values, false), parts(values, false);
    through_rank_0(star), by_parts(parts);
    for (const Wires* w : {&star, &parts})
      for (const auto& sum : w->values)
        book::claim(sum == std::vector<double>(n, p), "every rank has the sum");
    const auto of = [&](std::size_t sent) { return static_cast<double>(sent) / n; };
    std::printf("%5d %28.2f n %7d %26.2f n %7d %11.2f\n", p, of(star.sent[0]), star.rounds / p,
                of(parts.sent[0]), parts.rounds, 2.0 * (p - 1) / p);
  }
}

// --- collectives as ops ---

void adjoints() {
  book::section("adjoints");
  const int p = 3;
  using Op = std::function<Tensor(const Tensor&, const dist::Group&)>;
  const std::pair<const char*, Op> ops[] = {
      {"all_reduce", [](const Tensor& x, const dist::Group& g) { return dist::all_reduce(x, g); }},
      {"broadcast", [](const Tensor& x, const dist::Group& g) { return dist::broadcast(x, g, 1); }},
      {"all_gather", [](const Tensor& x, const dist::Group& g) { return dist::all_gather(x, g); }},
      {"reduce_scatter", [](const Tensor& x, const dist::Group& g) { return dist::reduce_scatter(x, g); }}};
  for (const auto& [name, op] : ops) {
    double left[p], right[p];
    std::string calls[p];
    dist::run_threads(p, [&, &op = op](const dist::Group& g) {
      ct::Generator own(static_cast<std::uint64_t>(g.rank()) + 1);
      const Tensor x = ct::randn({6}, {.dtype = ct::f64}, own).set_requires_grad();
      const Tensor y = op(x, g), c = ct::randn(y.shape(), {.dtype = ct::f64}, own);
      const Tensor dx = ct::grad({y}, {x}, {c})[0];
      left[g.rank()] = ct::sum(c * y).item(), right[g.rank()] = ct::sum(dx * x).item();
      calls[g.rank()] = g.log().back().name;
    });
    double forward = 0, back = 0;
    for (int r = 0; r < p; ++r) forward += left[r], back += right[r];
    book::claim(std::abs(forward - back) < 1e-12, std::string(name) + "'s gradient is its adjoint");
    std::printf("%-15s its backward called %s\n", name, calls[0].substr(0, calls[0].find(' ')).c_str());
  }
  std::printf("sum_r c_r . y_r = sum_r dx_r . x_r for each, to 1e-12\n");
}

// --- one model on several ranks ---

struct How {
  std::int64_t bucket_bytes = 4000;
  bool zero1 = false;
  std::string folder = {};  // of checkpoints
  int begin = 0, end = 20;
};

struct Run {
  std::vector<double> losses;
  std::vector<double> weights;
  std::vector<std::string> calls;
  std::vector<std::int64_t> buckets;
  std::int64_t state = 0;  // bytes of the optimizer's, of rank 0
};

constexpr std::int64_t kBatch = 24;

nn::Sequential network() {
  static std::mutex& one = *new std::mutex;  // threads share the generator that layers draw from
  const std::lock_guard lock(one);
  ct::manual_seed(5);
  nn::Sequential net(nn::Linear(8, 48), nn::Tanh(), nn::Linear(48, 32), nn::Tanh(), nn::Linear(32, 1));
  net.to(ct::f64);
  return net;
}

Run train(int ranks, const How& how) {
  Run run;
  dist::run_threads(ranks, [&](const dist::Group& world) {
    nn::Sequential net = network();
    nn::DataParallel parallel(net, world, {.bucket_bytes = how.bucket_bytes});
    std::optional<nn::Zero1<ct::optim::Adam>> shared;
    std::optional<ct::optim::Adam> own;
    if (how.zero1)
      shared.emplace(parallel, net.parameters(), ct::optim::AdamOptions{.lr = 0.01});
    else
      own.emplace(net.parameters(), ct::optim::AdamOptions{.lr = 0.01});
    std::optional<ct::io::ShardedCheckpoint> checkpoints;
    if (!how.folder.empty()) checkpoints.emplace(how.folder, world);
    if (const auto last = how.begin > 0 ? checkpoints->load() : std::nullopt) {
      net.load_state_dict(last->state.part("model"));
      shared->load_state_dict(last->state.part("optimizer"));
    }
    const std::int64_t share = kBatch / world.size();
    for (int i = how.begin; i < how.end; ++i) {
      ct::Generator data(static_cast<std::uint64_t>(i));
      const Tensor all = ct::randn({kBatch, 8}, {.dtype = ct::f64}, data);
      const Tensor x = all.narrow(0, world.rank() * share, share), y = ct::sum(ct::sin(2 * x), {1}, true);
      parallel.zero_grad();
      const Tensor loss = ct::mse_loss(net(x), y);
      const std::size_t before = world.log().size();
      loss.backward();
      if (world.rank() == 0 && i == how.begin)
        for (std::size_t k = before; k < world.log().size(); ++k) run.calls.push_back(world.log()[k].name);
      shared ? shared->step() : own->step();
      const double mean = dist::all_reduce(loss.detach(), world, dist::ReduceOp::mean).item();
      if (world.rank() == 0) run.losses.push_back(mean);
    }
    if (checkpoints && how.begin == 0) {
      ct::StateDict common, mine;
      common.merge("model", net.state_dict());
      mine.merge("optimizer", shared->sharded_state());
      checkpoints->save(how.end, common, mine);
      checkpoints->wait();
    }
    if (world.rank() == 0) {
      run.weights = net.parameters()[0].detach().to_vector<double>();
      run.buckets = parallel.bucket_bytes();
      const ct::StateDict state = shared ? shared->optimizer().state_dict() : own->state_dict();
      for (const auto& [name, tensor] : state) run.state += tensor.nbytes();
    }
  });
  return run;
}

void one_curve() {
  book::section("one curve");
  const Run one = train(1, {}), two = train(2, {}), four = train(4, {}), again = train(4, {});
  std::printf("step   1 rank of 24   2 of 12   4 of 6\n");
  for (const std::size_t i : {0u, 1u, 9u, 19u})
    std::printf("%4zu %14.6f %9.6f %8.6f\n", i, one.losses[i], two.losses[i], four.losses[i]);
  double off = 0;
  for (std::size_t i = 0; i < one.weights.size(); ++i)
    off = std::max(off, std::abs(one.weights[i] - four.weights[i]));
  book::claim(off < 1e-10 && off > 0, "weights are those of one rank, to rounding");
  book::claim(four.weights == again.weights && four.losses == again.losses, "each run ends in the same bits");
  std::printf(
      "weights after 20 steps: to 1e-10 the same, other bits; of 4 ranks in each run the same bits\n");
  book::section("buckets");
  std::printf("of 4 ranks, in the order of backward:");
  for (const std::int64_t bytes : four.buckets) std::printf(" %lld", static_cast<long long>(bytes));
  std::printf(" bytes\n");
  for (const std::string& call : four.calls) std::printf("%s\n", call.c_str());
}

void zero() {
  book::section("zero");
  const Run plain = train(4, {});
  std::printf("ranks   bytes of Adam's state on rank 0\n");
  for (const int p : {1, 2, 4}) {
    const Run shared = train(p, {.zero1 = true});
    std::printf("%5d %10lld\n", p, static_cast<long long>(shared.state));
    if (p == 4) book::claim(shared.weights == plain.weights, "a part for each gives the bits of all");
  }
  std::printf("4 ranks end in the bits that they have with all of the state on each\n");

  book::section("checkpoint");
  const std::string folder = (std::filesystem::temp_directory_path() / "cotangent-book-20").string();
  std::filesystem::remove_all(folder);
  const Run four = train(4, {.zero1 = true, .folder = folder, .end = 10});
  std::printf("4 ranks wrote 10 steps; each went on to step 20\n");
  for (const int p : {4, 2, 1}) {
    const Run rest = train(p, {.zero1 = true, .folder = folder, .begin = 10}),
              whole = train(p, {.zero1 = true});
    double off = 0;
    for (std::size_t i = 0; i < rest.weights.size(); ++i)
      off = std::max(off, std::abs(rest.weights[i] - plain.weights[i]));
    book::claim(off < 1e-10, "the run goes on where it was");
    std::printf("with %d: %s\n", p,
                off == 0 ? "the bits of a run that was never stopped" : "the same to 1e-10");
  }
  std::filesystem::remove_all(folder);
}

// --- beside the rest of backward ---

/// Milliseconds from the begin of backward until all gradients are everywhere: 200 tensors of 1.24 MB, one each 0.2 ms; the wire
/// takes 0.15 ms for a call, and 25 GB/s for 2 (p-1)/p of the bytes.
double step(double bucket_mb, int ranks) {
  double ready = 0, wire = 0, bucket = 0;
  for (int i = 0; i < 200; ++i) {
    ready += 0.2, bucket += 1.24;
    if (bucket + 1.24 > bucket_mb || i == 199) {  // full: it is sent when the wire is free
      wire = std::max(wire, ready) + 0.15 + bucket * 2 * (ranks - 1) / ranks / 25;
      bucket = 0;
    }
  }
  return wire;
}

void overlap() {
  book::section("overlap");
  std::printf(
      "backward 40 ms, gradients 248 MB, 8 ranks\nbuckets of, MB   all are there after, ms   of which "
      "seen\n");
  svg::Curve seen{"8 ranks", "#36a", {}, {}};
  for (const double mb : {1.24, 2.5, 5.0, 12.5, 25.0, 50.0, 125.0, 248.0}) {
    const double ms = step(mb, 8);
    std::printf("%14.1f %25.1f %15.1f\n", mb, ms, ms - 40);
    seen.x.push_back(std::log2(mb)), seen.y.push_back(ms - 40);
  }
  book::figure("20-buckets",
               svg::chart("Communication that nothing hides", "log2 of a bucket's MB", "ms", {seen}));
}

// --- 16 bits on the wire ---

void wire() {
  book::section("wire");
  const std::int64_t n = 20000;
  std::printf("ranks   rounded once   after each addition   largest error of a mean, by the largest mean\n");
  for (const int p : {2, 8, 64}) {
    ct::manual_seed(6);
    const Tensor g = ct::randn({p, n}) + 1;
    const Tensor exact = ct::mean(g, {0});
    const Tensor low = g.to(ct::bf16);
    Tensor hop = low.select(0, 0);
    for (int r = 1; r < p; ++r) hop = (hop.to(ct::f32) + low.select(0, r).to(ct::f32)).to(ct::bf16);
    const auto off = [&](const Tensor& mean) {
      return ct::amax(ct::abs(mean - exact)).item() / ct::amax(ct::abs(exact)).item();
    };
    const double once = off(ct::mean(low.to(ct::f32), {0}).to(ct::bf16).to(ct::f32)),
                 each = off(hop.to(ct::f32) / p);
    std::printf("%5d %12.1f %% %19.1f %%\n", p, 100 * once, 100 * each);
    book::claim(once <= each, "one rounding is better than many");
  }
}

// --- what goes wrong ---

void wrong() {
  book::section("wrong");
  const auto says = [](const char* what, const std::function<void(const dist::Group&)>& f) {
    std::string message = "nothing";
    dist::run_threads(3,
                      [&](const dist::Group& g) {
                        try {
                          f(g);
                        } catch (const ct::PeerError& e) {
                          if (g.rank() == 0) message = e.what();
                        }
                      },
                      {.timeout = std::chrono::milliseconds(300)});
    book::claim(message != "nothing", std::string(what) + " is found");
    std::printf("%s\n    %s\n", what, message.c_str());
  };
  const Tensor x = ct::ones({4});
  says("rank 1 has another shape",
       [&](const dist::Group& g) { dist::all_reduce(g.rank() == 1 ? ct::ones({5}) : x, g); });
  says("rank 2 takes another branch", [&](const dist::Group& g) {
    if (g.rank() == 2)
      dist::barrier(g);
    else
      dist::all_reduce(x, g);
  });
}

void measured() {
  book::section("measured");
  for (const int ranks : {1, 2}) {
    double ms = 0;
    dist::run_threads(ranks, [&](const dist::Group& world) {
      const Tensor x = ct::ones({1 << 22});
      for (int i = 0; i < 3; ++i) dist::all_reduce(x, world);
      const double s = ct::time_of([&] { dist::all_reduce(x, world); },
                                   {.warmup = 0, .runs = 9, .flush = false, .device = ct::cpu});
      if (world.rank() == 0) ms = 1e3 * s;
    });
    std::printf("all_reduce of 16.8 MB, ranks as threads, %d: %.2f ms\n", ranks, ms);
  }
}

void chapter() {
  sums();
  adjoints();
  one_curve();
  overlap();
  wire();
  zero();
  wrong();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
