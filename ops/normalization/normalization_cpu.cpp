#include <cotangent/ops/normalization/normalization_cpu.h>

#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/ops/engine/rows/operands_cpu.h>
#include <cotangent/ops/engine/walk/copy.h>

// How rows are given to threads, and what they have in common: nothing here depends on the types of a call.

namespace ct::normalization {
namespace {

constexpr std::int64_t kChunks = 64;

struct Constants {
  alignas(64) float ones[kBlock], zeros[kBlock] = {};
  Constants() { std::fill_n(ones, kBlock, 1.0f); }
};

// out (+)= the sum over the chunks of partial[chunk * stride + j].
void add_chunks(const float* partial, std::int64_t chunks, std::int64_t stride, std::int64_t n,
                bool accumulate, const Tensor& out) {
  const rows::Sink<float> sink = rows::sink_of<float>(out, accumulate);
  parallel_for(n, 4 * kBlock, [&](std::int64_t begin, std::int64_t end) {
    float sum[kBlock];
    for_blocks(end - begin, [&](std::int64_t first, int m) {
      const std::int64_t i = begin + first;
      std::fill_n(sum, m, 0.0f);
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int j = 0; j < m; ++j) sum[j] += partial[chunk * stride + i + j];
      sink.store(sink.values, i, sum, m, sink.accumulate);
    });
  });
}

// Whether results of f32 go past the caches.
bool streams(const Tensor& to, const Layout& layout, std::size_t inputs) {
  return to.defined() && to.dtype() == DType::f32 &&
         simd::streams_rows(to.data<float>(), layout.rows, layout.columns, inputs);
}

}  // namespace

Parameter::Parameter(const Tensor& t, float otherwise) {
  static const Constants constants;
  constants_ = otherwise == 0 ? constants.zeros : constants.ones;
  if (!t.defined()) return;
  held_ = converted(t, DType::f32);
  data_ = held_.data<float>();
}

void run_rows(const ForwardCall& call, ForwardKernel kernel) {
  const Parameters p{Parameter(call.weight, 1), Parameter(call.bias, 0), streams(call.y, call.layout, 1)};
  rows::for_rows(call.layout.rows, call.layout.columns,
                 [&](std::int64_t begin, std::int64_t end) { kernel(call, p, begin, end); });
}

void run_rows(const BackwardCall& call, BackwardKernel kernel) {
  const std::int64_t n = call.layout.columns, rows = call.layout.rows;
  const Parameters p{Parameter(call.weight, 1), Parameter({}, 0), streams(call.dx, call.layout, 2)};
  const std::int64_t grain = std::max<std::int64_t>({1, rows::kGrain / n, (rows + kChunks - 1) / kChunks});
  const std::int64_t chunks = chunk_count(rows, grain),
                     width = (n + 63) / 64 * 64 + 48;  // off the powers of two, at which stores hold up loads
  const bool sums = call.dweight.defined() || call.dbias.defined();
  float* const partials = sums ? detail::scratch<float>(detail::kSharedScratch, chunks * 2 * width) : nullptr;
  parallel_chunks(rows, grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    float *dw = nullptr, *db = nullptr;
    if (sums) {
      float* partial = partials + chunk * 2 * width;
      std::fill_n(partial, 2 * width, 0.0f);
      if (call.dweight.defined()) dw = partial;
      if (call.dbias.defined()) db = partial + width;
    }
    kernel(call, p, begin, end, dw, db);
  });
  if (call.dweight.defined())
    add_chunks(partials, chunks, 2 * width, n, call.accumulate_weight, call.dweight);
  if (call.dbias.defined())
    add_chunks(partials + width, chunks, 2 * width, n, call.accumulate_bias, call.dbias);
}

}  // namespace ct::normalization
