#include <cotangent/cotangent.h>
#include <cotangent/ops/engine/gemm/replace.h>

#include "bench/ladders/ladder.h"

// The rungs of gemm as products of a run (ops/engine/gemm/replace.h, ./ct mnist --gemm NAME). A rung wants contiguous
// operands, on the GPU of sizes that are multiples of 256, and has f32 or bf16: operands are copied into that form, with
// zeros around, and the result is copied out of it. Those copies cost more than most products of MNIST; the point is
// that a network trains on the kernel, forward and backward.

namespace ct::ladder {
namespace {

const Rung* chosen = nullptr;

Tensor matrix(const void* data, std::int64_t at, std::int64_t rows, std::int64_t cols, std::int64_t row,
              std::int64_t col, Device device) {
  return from_blob(static_cast<float*>(const_cast<void*>(data)) + at, Shape{rows, cols}, Strides{row, col},
                   {.dtype = f32, .device = device});
}

bool run(const ct::gemm::Product& p, Device device) {
  if (p.dtype != f32 || p.c_dtype != f32) return false;
  const NoGrad no_grad;
  const std::int64_t multiple = device.is_cpu() ? 1 : 256;
  const auto up = [&](std::int64_t size) { return (size + multiple - 1) / multiple * multiple; };
  const std::int64_t m = up(p.m), n = up(p.n), k = up(p.k);
  const DType dtype = chosen->dtypes[0];
  const auto padded = [&](const Tensor& t, std::int64_t rows, std::int64_t cols) {
    const Tensor to = zeros({rows, cols}, {.dtype = dtype, .device = device});
    to.narrow(0, 0, t.size(0)).narrow(1, 0, t.size(1)).copy_(t);
    return to;
  };
  for (std::int64_t s = 0; s < p.batch; ++s) {
    const Tensor a = matrix(p.a, s * p.a_batch, p.m, p.k, p.a_row, p.a_col, device);
    const Tensor b = matrix(p.b, s * p.b_batch, p.k, p.n, p.b_row, p.b_col, device);
    Tensor c = matrix(p.c, s * p.c_batch, p.m, p.n, p.c_row, 1, device);
    const Call call{{dtype, {m, n, k}},
                    {padded(a, m, k), padded(b, k, n)},
                    {zeros({m, n}, {.dtype = dtype, .device = device})}};
    chosen->run(call);
    const Tensor result = call.out[0].narrow(0, 0, p.m).narrow(1, 0, p.n);
    if (p.accumulate)
      c.add_(result.to(f32));
    else
      c.copy_(result);
  }
  return true;
}

ct::gemm::Replacement find(const std::string& name, Device device) {
  std::string names;
  for (const Ladder& ladder : all()) {
    if (std::string(ladder.name) != "gemm" || ladder.device != device.type) continue;
    for (const Rung& rung : ladder.rungs) {
      if (!runs_here(ladder, rung)) continue;
      names += (names.empty() ? "" : ", ") + std::string(rung.name);
      if (name != rung.name) continue;
      chosen = &rung;
      if (device.is_cpu()) return [](const ct::gemm::Product& p) { return run(p, cpu); };
      return [](const ct::gemm::Product& p) { return run(p, cuda(current_cuda_device())); };
    }
  }
  CT_CHECK(false, ValueError, "gemm", "the ladder has no rung ", name, " on ", to_string(device),
           "; there are ", names);
}

const bool kOffered = ct::gemm::offer(find);

}  // namespace
}  // namespace ct::ladder
