#include <algorithm>
#include <cmath>
#include <vector>

#include <cotangent/core/device/index_error.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/update/mlp_step_internal.h>

// The step in the plainest way: one example after another, each layer forward, then backward with its share of the gradients.

namespace ct::update::mlp {
namespace {

using Row = std::vector<float>;

// y = W x + b
void forward(const Held& weight, const Held& bias, const float* x, std::size_t in, Row& y) {
  for (std::size_t o = 0; o < y.size(); ++o) {
    y[o] = bias.param[o];
    for (std::size_t i = 0; i < in; ++i) y[o] += weight.param[o * in + i] * x[i];
  }
}

// dW += g x^T and db += g; dx = W^T g, where x, the result of a ReLU, is not 0.
void backward(const Held& weight, const Row& g, const float* x, std::size_t in, Row& dweight, Row& dbias,
              Row* dx) {
  if (dx) std::ranges::fill(*dx, 0.f);
  for (std::size_t o = 0; o < g.size(); ++o) {
    dbias[o] += g[o];
    for (std::size_t i = 0; i < in; ++i) {
      dweight[o * in + i] += g[o] * x[i];
      if (dx) (*dx)[i] += x[i] <= 0 ? 0.f : g[o] * weight.param[o * in + i];
    }
  }
}

void rectify(Row& y) {
  for (float& v : y) v = v <= 0 ? 0.f : v;
}

void steps_cpu(const Forward& forward_call) {
  const Call call(forward_call);
  const auto in = static_cast<std::size_t>(call.in), classes = static_cast<std::size_t>(call.classes),
             first = static_cast<std::size_t>(call.hidden[0]),
             second = static_cast<std::size_t>(call.hidden[1]);
  const std::size_t counts[] = {first * in, first, second * first, second, classes * second, classes};
  const Held* const p = call.held;
  for (std::int64_t row = 0; row < call.count * call.batch; ++row)
    if (call.labels[row] < 0 || call.labels[row] >= call.classes)
      throw_index_error(forward_call.op.name, IndexKind::class_label, call.labels[row], call.classes);
  const float rows = static_cast<float>(call.batch);
  const auto adam = call.rule.constants<float>();
  Row h1(first), h2(second), d1(first), d2(second), scores(classes), d3(classes);
  for (std::int64_t step = 0; step < call.count; ++step) {
    Row gradients[kParameters];
    for (std::size_t i = 0; i < kParameters; ++i) gradients[i].resize(counts[i]);
    double loss = 0;
    for (std::int64_t row = step * call.batch; row < (step + 1) * call.batch; ++row) {
      const float* const x = call.x + row * call.in;
      const std::int64_t label = call.labels[row];
      forward(p[0], p[1], x, in, h1), rectify(h1);
      forward(p[2], p[3], h1.data(), first, h2), rectify(h2);
      forward(p[4], p[5], h2.data(), second, scores);
      const float most = *std::ranges::max_element(scores);
      float sum = 0;
      for (std::size_t c = 0; c < classes; ++c) sum += d3[c] = std::exp(scores[c] - most);
      loss += std::log(sum) + most - scores[static_cast<std::size_t>(label)];
      for (std::size_t c = 0; c < classes; ++c)
        d3[c] = (d3[c] / sum - (static_cast<std::int64_t>(c) == label ? 1.f : 0.f)) / rows;
      backward(p[4], d3, h2.data(), second, gradients[4], gradients[5], &d2);
      backward(p[2], d2, h1.data(), first, gradients[2], gradients[3], &d1);
      backward(p[0], d1, x, in, gradients[0], gradients[1], nullptr);
    }
    call.losses[step] = static_cast<float>(loss) / rows;
    double scale[2];
    next_scales(call.rule, call.steps, scale);
    for (std::size_t i = 0; i < kParameters; ++i)
      for (std::size_t e = 0; e < counts[i]; ++e) {
        float moments[kMaxMoments] = {p[i].m[e], p[i].v[e]};
        adam.update<2>(p[i].param[e], gradients[i][e], moments, static_cast<float>(scale[0]),
                       static_cast<float>(scale[1]));
        p[i].m[e] = moments[0], p[i].v[e] = moments[1];
      }
    ++*call.steps;
  }
}

}  // namespace
}  // namespace ct::update::mlp

CT_KERNELS(cpu, mlp_step, forward_only("mlp_step", update::mlp::steps_cpu))
