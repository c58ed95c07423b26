#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/ops.h>

#include <book.h>
#include <examples/common/svg.h>
#include <gpu.h>

// Chapter 13 on a GPU: time and memory of attention by ops that write the scores, and of the library's, which does not.

namespace {

using ct::Tensor;

constexpr std::int64_t kHeads = 16, D = 64;

struct Inputs {
  Tensor q, k, v;
};

Inputs draw(std::int64_t T, ct::DType dtype) {
  const auto one = [&] { return ct::randn({1, kHeads, T, D}, {.device = ct::cuda(0)}).to(dtype); };
  return {one(), one(), one()};
}

/// Attention as the formula reads: three ops, whose results are [1, heads, T, T] but for the last.
Tensor by_ops(const Inputs& in) {
  return ct::matmul(ct::softmax(ct::matmul(in.q * 0.125, in.k.transpose(-1, -2)), -1), in.v);
}
Tensor fused(const Inputs& in) { return ct::scaled_dot_product_attention(in.q, in.k, in.v); }

/// The most memory, in MiB, that tensors have taken during `work` beyond those that were there before.
template <class Work>
double peak(const Work& work) {
  const ct::Device gpu = ct::cuda(0);
  ct::reset_peak_stats(gpu);
  const std::size_t before = ct::memory_stats(gpu).in_use;
  work();
  return static_cast<double>(ct::memory_stats(gpu).peak_in_use - before) / (1 << 20);
}

double difference(const Tensor& a, const Tensor& b) {
  return ct::amax(ct::abs(a.to(ct::f32) - b.to(ct::f32))).item() / ct::amax(ct::abs(b.to(ct::f32))).item();
}

void forward() {
  book::section("forward");
  std::printf(
      "bf16, 16 heads of 64, forward\n    T   by ops: ms      MiB   fused: ms      MiB   y differs by\n");
  svg::Curve ops{"by ops", "#c33", {}, {}}, one{"ct::scaled_dot_product_attention", "#36a", {}, {}};
  const ct::NoGrad guard;
  for (std::int64_t T = 1024; T <= 16384; T *= 2) {
    const Inputs in = draw(T, ct::bf16);
    const double error = difference(fused(in), by_ops(in));
    const double ops_mib = peak([&] { by_ops(in); }), mib = peak([&] { fused(in); });
    const double ops_ms = book::gpu_ms([&] { by_ops(in); }, 5), ms = book::gpu_ms([&] { fused(in); }, 5);
    std::printf("%5d %12.3f %8.0f %11.3f %8.1f %14.0e\n", static_cast<int>(T), ops_ms, ops_mib, ms, mib,
                error);
    book::claim(error < 2e-2, "both are the same but for the rounding of probabilities to bf16");
    book::claim(mib < 8.0 * static_cast<double>(T) / 1024, "memory grows with T, not with T^2");
    const double x = std::log2(static_cast<double>(T));
    ops.x.push_back(x), ops.y.push_back(std::log10(ops_mib)), one.x.push_back(x),
        one.y.push_back(std::log10(mib));
  }
  book::figure("13-peak", svg::chart("The most memory during attention, 16 heads of 64 in bf16", "log2 T",
                                     "log10 of MiB", {ops, one}));
}

void both_ways() {
  book::section("both-ways");
  std::printf(
      "bf16, 16 heads of 64, forward and backward\n    T   by ops: ms      MiB   fused: ms      MiB   dq "
      "differs by\n");
  for (std::int64_t T = 1024; T <= 8192; T *= 2) {
    const Inputs in = draw(T, ct::bf16);
    for (Tensor x : {in.q, in.k, in.v}) x.set_requires_grad();
    const Tensor g = draw(T, ct::bf16).q;
    Tensor dq[2];
    double ms[2], mib[2];
    for (const int way : {0, 1}) {
      const auto step = [&] {
        for (Tensor x : {in.q, in.k, in.v}) x.set_grad({});
        (way ? fused(in) : by_ops(in)).backward(g);
      };
      step();
      dq[way] = in.q.grad();
      for (Tensor x : {in.q, in.k, in.v}) x.set_grad({});
      mib[way] = peak(step), ms[way] = book::gpu_ms(step, 5);
    }
    const double error = difference(dq[1], dq[0]);
    std::printf("%5d %12.3f %8.0f %11.3f %8.1f %15.0e\n", static_cast<int>(T), ms[0], mib[0], ms[1], mib[1],
                error);
    book::claim(error < 5e-2, "the gradients are the same but for rounding to bf16");
  }
}

void kernels() {
  book::section("kernels");
  constexpr std::int64_t T = 4096;
  std::printf("16 heads of 64, T = 4096, forward\n");
  const ct::NoGrad guard;
  const double operations = 4.0 * kHeads * T * T * D;
  const auto row = [&](const char* name, double ms) {
    std::printf("%-48s %8.3f ms %6.0f TFLOP/s\n", name, ms, operations / ms / 1e9);
  };
  const Inputs wide = draw(T, ct::f32), in{wide.q.to(ct::bf16), wide.k.to(ct::bf16), wide.v.to(ct::bf16)};
  const Tensor exact = by_ops(wide);
  book::claim(difference(fused(wide), exact) < 1e-4, "tiles in f32 give what all scores give");
  row("f32, by ops", book::gpu_ms([&] { by_ops(wide); }));
  row("f32, in tiles, ordinary units", book::gpu_ms([&] { fused(wide); }));
  row("bf16, by ops", book::gpu_ms([&] { by_ops(in); }));
  // A mask that hides nothing: where there is one, the kernels of `mma` are taken.
  const Tensor mask = ct::zeros({1, 1, 1, T}, {.dtype = ct::bf16, .device = ct::cuda(0)});
  const auto masked = [&] { return ct::scaled_dot_product_attention(in.q, in.k, in.v, {.mask = mask}); };
  row("bf16, in tiles, mma (and a mask of zeros)", book::gpu_ms(masked));
  row("bf16, in tiles, wgmma", book::gpu_ms([&] { fused(in); }));
  for (const Tensor& y : {masked(), fused(in)})
    book::claim(difference(y, exact) < 2e-2, "tensor cores give the same but for the rounding of 16 bits");
  std::printf("all agree: f32 to 1e-4, bf16 to 2e-2 of the largest y\n");
}

void chapter() {
  book::section("machine");
  book::machine();
  forward();
  both_ways();
  kernels();
}

}  // namespace

int main() { return book::run(chapter); }
