#include <cotangent/cotangent.h>

#include <memory>

#include "bench/ladders/gradient.h"

// Training steps of a perceptron 784-128-128-10 on 64 rows: 33 million floating-point operations, 1.4 MB of weights and moments.
// Either is a few microseconds' work; what lies between the products is most of the time. The kernel of the last two rungs is
// ops/update/mlp_step_cuda.cu.

namespace ct::ladder::mlp_step {
namespace {

constexpr std::size_t kParameters = 6;

Shape shape_of(const Case& c, std::size_t i) {
  const std::int64_t out = c.size[i / 2 + 3];
  return i % 2 == 0 ? Shape{out, c.size[i / 2 + 2]} : Shape{out};
}
Tensors inputs(const Case& c) {
  Tensors in{randn({c.size[0], c.size[1], c.size[2]}), randint(0, c.size[5], {c.size[0], c.size[1]})};
  for (std::size_t i = 0; i < kParameters; ++i) {
    const Shape shape = shape_of(c, i);
    in.push_back(randn(shape) * (1 / std::sqrt(static_cast<double>(shape.back()))));
  }
  return in;
}

// A network of layers, and its step. (A class of its own, as kept() holds one of each.)
struct Layers {
  Tensors params;
  std::shared_ptr<optim::Adam> adam;

  explicit Layers(const Tensors& in) {
    const EnableGrad recorded;
    for (std::size_t i = 0; i < kParameters; ++i) params.push_back(in[2 + i].clone().set_requires_grad());
    adam = std::make_shared<optim::Adam>(params, optim::AdamOptions{.lr = 1e-3, .eps = 1e-4});
  }
  Tensor step(const Tensor& x, const Tensor& labels) const {
    const EnableGrad recorded;
    adam->zero_grad();
    const Tensor h1 = relu(linear(x, params[0], params[1])), h2 = relu(linear(h1, params[2], params[3]));
    const Tensor loss = ct::cross_entropy(linear(h2, params[4], params[5]), labels);
    loss.backward();
    adam->step();
    return loss.detach();
  }
};
template <class Step>
Tensors each(const Tensors& in, const Step& step) {
  Tensors losses;
  for (std::int64_t k = 0; k < in[0].size(0); ++k)
    losses.push_back(step(in[0].select(0, k), in[1].select(0, k)).clone());
  return {stack(losses)};
}

// The library captures the step, and goes on in each call from where it was.
Tensors captured(const Tensors& in) {
  using Step = std::function<Tensor(const Tensor&, const Tensor&)>;
  const Step& step = kept<Step>(in, [](const Tensors& given) -> Step {
    const auto layers = std::make_shared<Layers>(given);
    const auto replayed = std::make_shared<decltype(capture(Step()))>(
        capture(Step([layers](const Tensor& x, const Tensor& labels) { return layers->step(x, labels); })));
    return [replayed](const Tensor& x, const Tensor& labels) { return (*replayed)(x, labels); };
  });
  return each(in, step);
}
Tensors plain(const Tensors& in) {
  const Layers layers(in);
  return each(in, [&](const Tensor& x, const Tensor& labels) { return layers.step(x, labels); });
}

// Layers: op by op, some forty launches for each step, which the host makes.
void run_layers(const Call& c) {
  Tensor losses = c.out[0];
  losses.copy_(plain(c.in)[0]);
}

// Parameters and moments, begun anew: a view of each of one tensor.
struct Network {
  Tensors params, exp_avgs, exp_avg_sqs;
  Tensor steps;

  explicit Network(const Call& c) : steps(zeros({1}, {.dtype = i64, .device = c.in[0].device()})) {
    for (std::size_t i = 0; i < kParameters; ++i) {
      const Tensor& from = c.in[2 + i];
      params.push_back(from.clone()), exp_avgs.push_back(zeros_like(from)),
          exp_avg_sqs.push_back(zeros_like(from));
    }
  }
  Tensor step(const Tensor& x, const Tensor& labels) const {
    return update::mlp_step_(params, exp_avgs, exp_avg_sqs, steps, x, labels,
                             {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-4});
  }
};

// Cluster: a step is one launch of 16 blocks, which read each other's sums in shared memory. They load weights and moments, and
// store them.
void run_cluster(const Call& c) {
  const Network network(c);
  for (std::int64_t k = 0; k < c.size(0); ++k) {
    Tensor loss = c.out[0].narrow(0, k, 1);
    loss.copy_(network.step(c.in[0].narrow(0, k, 1), c.in[1].narrow(0, k, 1)));
  }
}

// Resident: all steps are one launch: weights and moments stay where they are from step to step, and the next step's rows
// arrive during this one.
void run_resident(const Call& c) {
  Tensor losses = c.out[0];
  losses.copy_(Network(c).step(c.in[0], c.in[1]));
}

const bool kAdded = [] {
  Ladder ladder = {.name = "mlp_step",
                   .what = "steps of Adam on a perceptron, steps x rows x inputs x hidden x hidden x classes",
                   .device = DeviceType::cuda,
                   .unit = Unit::flops,
                   .small = {{f32, {3, 5, 37, 20, 33, 3}}, {f32, {2, 64, 800, 128, 128, 16}}},
                   .timed = {{f32, {64, 64, 784, 128, 128, 10}}},
                   .work =
                       [](const Case& c) {
                         const auto n = [&](std::size_t i) { return static_cast<double>(c.size[i]); };
                         return 2 * n(0) * n(1) * (2 * n(2) * n(3) + 3 * n(3) * n(4) + 3 * n(4) * n(5));
                       },
                   .inputs = inputs,
                   .plain = plain,
                   .library = captured,
                   .library_name = "ct::capture",
                   .slack = 4};
  ladder.rungs = {
      {"layers", "op by op", run_layers},
      {"cluster", "a step is one launch of a cluster", run_cluster, {f32}, true},
      {"resident", "all steps are one launch, weights and moments stay on chip", run_resident, {f32}, true}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::mlp_step
