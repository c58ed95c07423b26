#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/copy/concat_internal.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine/walk/strided.cuh>

namespace ct {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr int kMaxInputs = 96;  // parameters of a kernel are limited to 4 KiB

// The output as a matrix: a row per index of the axes before the joined one. Input i fills `length` words
// of every row, from word `offset` on; in its own memory these pieces follow one another.
struct JoinInput {
  const void* data;
  std::int64_t length;
  std::int64_t offset;
  gpu::Divider divisor;  // by length
};
struct JoinParams {
  void* out;
  std::int64_t rows, row_length;
  int count;
  bool small;  // every input has less than 2^31 words
  JoinInput inputs[kMaxInputs];
};
static_assert(sizeof(JoinParams) <= 4096);

template <class Word>
__global__ void __launch_bounds__(kThreads) join_kernel(const __grid_constant__ JoinParams p) {
  const JoinInput& in = p.inputs[blockIdx.y];
  const std::int64_t n = in.length * p.rows;
  const Word* src = static_cast<const Word*>(in.data);
  Word* dst = static_cast<Word*>(p.out) + in.offset;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kPerThread;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x; first < n;
       first += step) {
    Word words[kPerThread];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u)
      if (first + u * kThreads < n) words[u] = src[first + u * kThreads];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
      const std::int64_t at = first + u * kThreads;
      if (at >= n) break;
      const std::int64_t row = p.small ? in.divisor.divide(static_cast<std::uint32_t>(at)) : at / in.length;
      dst[row * p.row_length + (at - row * in.length)] = words[u];
    }
  }
}

template <class Word>
void launch_join(const JoinParams& p) {
  std::int64_t largest = 0;
  for (int i = 0; i < p.count; ++i) largest = std::max(largest, p.inputs[i].length * p.rows);
  const dim3 grid(gpu::grid_stride_blocks(largest, kThreads * kPerThread, 32),
                  static_cast<unsigned>(p.count));
  gpu::launch("concat", join_kernel<Word>, grid, kThreads, 0, p);
}

// Queues the inputs gathered so far (lengths and offsets in bytes) with the widest words that fit them all.
void flush(JoinParams& p) {
  if (p.count == 0) return;
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(p.out) | static_cast<std::uint64_t>(p.row_length);
  for (int i = 0; i < p.count; ++i)
    bits |= reinterpret_cast<std::uintptr_t>(p.inputs[i].data) |
            static_cast<std::uint64_t>(p.inputs[i].length) | static_cast<std::uint64_t>(p.inputs[i].offset);
  const std::int64_t word = bits % 16 == 0  ? 16
                            : bits % 8 == 0 ? 8
                            : bits % 4 == 0 ? 4
                            : bits % 2 == 0 ? 2
                                            : 1;
  const std::int64_t row_bytes = p.row_length;
  p.row_length /= word;
  p.small = true;
  for (int i = 0; i < p.count; ++i) {
    p.inputs[i].length /= word;
    p.inputs[i].offset /= word;
    p.small = p.small && p.inputs[i].length * p.rows <= 0x7fffffff;
  }
  if (p.small)
    for (int i = 0; i < p.count; ++i)
      p.inputs[i].divisor = gpu::Divider(static_cast<std::uint32_t>(p.inputs[i].length));
  switch (word) {
    case 16: launch_join<uint4>(p); break;
    case 8: launch_join<uint2>(p); break;
    case 4: launch_join<std::uint32_t>(p); break;
    case 2: launch_join<std::uint16_t>(p); break;
    default: launch_join<std::uint8_t>(p);
  }
  p.row_length = row_bytes;
  p.count = 0;
}

// All contiguous inputs in one launch (of kMaxInputs); the others one by one, read in place.
void join(const Forward& call, bool stacked) {
  const Tensor& out = call.out();
  if (out.numel() == 0) return;
  ConcatParts parts(out, call.attrs<ConcatAttrs>().axis, stacked);
  const auto size = static_cast<std::int64_t>(size_of(out.dtype()));
  JoinParams p;
  p.out = out.raw_data();
  p.count = 0;
  p.row_length = out.shape()[parts.axis()] * parts.step() * size;
  p.rows = out.numel() * size / p.row_length;
  for (const Tensor* input : call.inputs) {
    const Tensor part = parts.next(*input);
    if (part.numel() == 0) continue;
    if (!input->is_contiguous()) {
      copy_cuda(part, *input);
      continue;
    }
    JoinInput& in = p.inputs[p.count++];
    in.data = input->raw_data();
    in.length = parts.length(*input) * parts.step() * size;
    in.offset = part.storage_offset() * size;
    if (p.count == kMaxInputs) flush(p);
  }
  flush(p);
}

void concat_forward_cuda(const Forward& call) { join(call, false); }
void stack_forward_cuda(const Forward& call) { join(call, true); }

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, concat, {"concat", concat_forward_cuda, concat_gradients},
           {"stack", stack_forward_cuda, stack_gradients})
