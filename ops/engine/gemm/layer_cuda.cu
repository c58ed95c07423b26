#include <algorithm>

#include <cotangent/core/base/precision.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/gemm/gemm_cuda.h>
#include <cotangent/ops/engine/gemm/replace.h>
#include <cotangent/core/cuda/mma/ptx.cuh>
#include <cotangent/ops/engine/gemm/lanes_internal.cuh>

// Products of small layers, where launches and latency are what takes time. One kernel does up to two products, each block
// a tile of one; the gate, the bias and the sums of rows are read where the operands pass by. A block's warps share the
// depth of a tile and their partial tiles are added in their order, so that a tile may be small, and blocks many, with long
// inner loops all the same.

namespace ct::gemm {
namespace {

using namespace gpu;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kQuad = 4;  // floats that are copied, and read, at once

// Stages under way. Deep: where a multiprocessor has one block, whose memory is its own, and the loads of a long sum take
// longer than what is done with them.
enum class Pipe { usual, deep };

// A tile of C is kSide x kSide; a lane has kM x kN elements of it.
template <int kSide, Pipe kPipe = Pipe::usual>
struct Tile {
  static constexpr int kM = kSide / 8, kN = kSide / 4;
  static constexpr int kDepth = 2048 / kSide,
                       kSteps = kDepth / kWarps;  // elements of k in a stage, and of a warp
  static constexpr int kStages = kPipe == Pipe::deep ? 8 : kSide == 16 ? 3 : 4;
  // Floats of an operand's stage: lines of kDepth, or depths of kSide, each with a quad more, so that the lanes of a read
  // meet different banks.
  template <bool kDeep>
  static constexpr int kPitch = (kDeep ? kDepth : kSide) + kQuad;
  static constexpr int kOperand = std::max(kSide * (kDepth + kQuad), kDepth*(kSide + kQuad));
  static constexpr int kSums = kWarps * (kSide * kSide + kSide);

  static std::size_t shared_bytes(bool gated) {
    return static_cast<std::size_t>(std::max(kStages * (gated ? 3 : 2) * kOperand, kSums)) * sizeof(float);
  }
};

// A matrix of lines x k, as A is, or B read by columns. `deep`: a line's elements are neighbours, else those of one depth.
// `quads`: neighbours can be copied by fours.
struct Operand {
  const float* data;
  long long line, depth;
  int lines;
  bool deep, quads;
};
struct Operands {
  Operand a, b;
  const float *gate, *bias;
  float *c, *sums;
  long long c_row;
  int k, tiles_n, blocks;
  bool accumulate, add_sums, relu;
};
struct Pair {
  Operands of[2];
};

// A thread's part in copying an operand, stage by stage: it starts with `first` and goes on by steps that are found once.
template <int kSide, bool kDeep>
class Copies {
  using T = Tile<kSide>;
  static constexpr int kInner = kDeep ? T::kDepth : kSide, kPitch = T::template kPitch<kDeep>;

 public:
  __device__ __forceinline__ Copies(const Operand& from, const float* data, int first, int k)
      : quads_(from.quads), k_(k), data_(data) {
    const int e = static_cast<int>(threadIdx.x) * (quads_ ? kQuad : 1), inner = e % kInner,
              outer = e / kInner;
    const int hop = kThreads * (quads_ ? kQuad : 1) / kInner;  // outer elements from one copy to the next
    const int line = kDeep ? outer : inner;
    depth_ = kDeep ? inner : outer;
    lines_ = from.lines - first - line;
    line_hop_ = kDeep ? hop : 0, depth_hop_ = kDeep ? 0 : hop;
    next_ = data + (first + line) * from.line + depth_ * from.depth;
    hop_ = hop * (kDeep ? from.line : from.depth), stage_ = T::kDepth * from.depth;
    place_ = static_cast<std::uint32_t>(outer * kPitch + inner) * 4;
    place_hop_ = static_cast<std::uint32_t>(hop * kPitch) * 4;
  }
  /// Starts the copies of the next stage; there are zeros where the operand ends.
  __device__ __forceinline__ void start(const float* stage) {
    const std::uint32_t to = mma::shared_address(stage) + place_;
    const auto at = [&](int i) { return i * line_hop_ < lines_ && depth_ + i * depth_hop_ < k_; };
    if (quads_) {
#pragma unroll
      for (int i = 0; i < kSide * T::kDepth / kQuad / kThreads; ++i)
        mma::copy_async_16(to + static_cast<std::uint32_t>(i) * place_hop_, at(i) ? next_ + i * hop_ : data_,
                           at(i));
    } else {
#pragma unroll 2
      for (int i = 0; i < kSide * T::kDepth / kThreads; ++i)
        mma::copy_async_4(to + static_cast<std::uint32_t>(i) * place_hop_, at(i) ? next_ + i * hop_ : data_,
                          at(i));
    }
    next_ += stage_;
    depth_ += T::kDepth;
  }

 private:
  bool quads_;
  int k_, depth_, lines_, line_hop_, depth_hop_;
  std::uint32_t place_, place_hop_;
  const float *data_, *next_;
  long long hop_, stage_;
};

// A block's tile of a product.
template <int kSide, Pipe kPipe, bool kGated, bool kDeepA, bool kDeepB>
__device__ __forceinline__ void tile(const Operands& p, int block, float* memory) {
  using T = Tile<kSide, kPipe>;
  constexpr bool kSumsRows = !kDeepA;
  constexpr int kStage = (kGated ? 3 : 2) * T::kOperand;
  const int m0 = block / p.tiles_n * kSide, n0 = block % p.tiles_n * kSide;
  const int stages = (p.k + T::kDepth - 1) / T::kDepth;
  Copies<kSide, kDeepA> a(p.a, p.a.data, m0, p.k), gate(p.a, kGated ? p.gate : p.a.data, m0, p.k);
  Copies<kSide, kDeepB> b(p.b, p.b.data, n0, p.k);
  const auto start = [&](int s) {
    if (s < stages) {
      float* const to = memory + s % T::kStages * kStage;
      a.start(to);
      b.start(to + T::kOperand);
      if constexpr (kGated) gate.start(to + 2 * T::kOperand);
    }
    mma::copy_async_commit();
  };
#pragma unroll
  for (int s = 0; s < T::kStages - 1; ++s) start(s);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int lane_m = lane / 4, lane_n = lane % 4;
  float sums[T::kM][T::kN] = {}, row_sums[T::kM] = {};
  for (int s = 0; s < stages; ++s) {
    mma::copy_async_wait<T::kStages - 2>();
    __syncthreads();
    start(s + T::kStages - 1);
    const float* const at = memory + s % T::kStages * kStage;
#pragma unroll
    for (int k = warp * T::kSteps; k < (warp + 1) * T::kSteps; k += kQuad) {
      if (s * T::kDepth + k >= p.k) break;
      float x[kQuad][T::kM], y[kQuad][T::kN];
      read_lines<kDeepA, T::template kPitch<kDeepA>, 8>(x, at, lane_m, k);
      read_lines<kDeepB, T::template kPitch<kDeepB>, 4>(y, at + T::kOperand, lane_n, k);
      if constexpr (kGated) {
        float z[kQuad][T::kM];
        read_lines<kDeepA, T::template kPitch<kDeepA>, 8>(z, at + 2 * T::kOperand, lane_m, k);
#pragma unroll
        for (int d = 0; d < kQuad; ++d)
#pragma unroll
          for (int i = 0; i < T::kM; ++i) x[d][i] = z[d][i] <= 0 ? 0.f : x[d][i];
      }
#pragma unroll
      for (int d = 0; d < kQuad; ++d)
#pragma unroll
        for (int i = 0; i < T::kM; ++i) {
          if constexpr (kSumsRows) row_sums[i] += x[d][i];
#pragma unroll
          for (int j = 0; j < T::kN; ++j) sums[i][j] = fmaf(x[d][i], y[d][j], sums[i][j]);
        }
    }
  }
  mma::copy_async_wait<0>();
  __syncthreads();

  // The warps' sums, added in their order.
  float* const own = memory + warp * kSide * kSide;
  float* const rows_of = memory + kWarps * kSide * kSide;
  const bool sums_rows = kSumsRows && p.sums && n0 == 0;
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const int row = line_of<kDeepA, 8>(lane_m, i, T::kM);
#pragma unroll
    for (int j = 0; j < T::kN; ++j) own[row * kSide + line_of<kDeepB, 4>(lane_n, j, kQuad)] = sums[i][j];
    if (sums_rows && lane_n == 0) rows_of[warp * kSide + row] = row_sums[i];
  }
  __syncthreads();
#pragma unroll
  for (int e = static_cast<int>(threadIdx.x); e < kSide * kSide; e += kThreads) {
    const int i = e / kSide, j = e % kSide;
    float value = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) value += memory[w * kSide * kSide + e];
    if (m0 + i >= p.a.lines || n0 + j >= p.b.lines) continue;
    if (p.bias) value += p.bias[n0 + j];
    if (p.relu) value = value <= 0 ? 0.f : value;
    float& c = p.c[(m0 + i) * p.c_row + n0 + j];
    c = p.accumulate ? c + value : value;
  }
  const int row = static_cast<int>(threadIdx.x);
  if (sums_rows && row < kSide && m0 + row < p.a.lines) {
    float value = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) value += rows_of[w * kSide + row];
    float& sum = p.sums[m0 + row];
    sum = p.add_sums ? sum + value : value;
  }
}

template <int kSide, Pipe kPipe, bool kGated>
__global__ void __launch_bounds__(kThreads, 2) layer_kernel(const __grid_constant__ Pair pair) {
  extern __shared__ __align__(16) float memory[];
  wait_for_previous();
  const bool second = static_cast<int>(blockIdx.x) >= pair.of[0].blocks;
  const Operands& p = pair.of[second];
  const int block = static_cast<int>(blockIdx.x) - (second ? pair.of[0].blocks : 0);
  if (p.b.deep)
    tile<kSide, kPipe, kGated, true, true>(p, block, memory);
  else if (p.a.deep)
    tile<kSide, kPipe, kGated, true, false>(p, block, memory);
  else
    tile<kSide, kPipe, kGated, false, false>(p, block, memory);
}
// Multiplications, and tiles of 32 x 32, up to which one launch here is quicker than cuBLASLt and what goes with it.
constexpr double kMostWork = 8e7;
constexpr std::int64_t kMostTiles = 528;
// Tiles of 32 x 32 from which on they are taken, rather than four times as many smaller ones.
constexpr std::int64_t kManyTiles = 75;

std::int64_t tiles_of(const gemm::Product& p, int side) { return ceil_div(p.m, side) * ceil_div(p.n, side); }

// Operands as they lie; B deep beside an A that is not would be a fourth kernel, and is copied element by element.
Operand operand(const void* data, std::int64_t lines, std::int64_t k, std::int64_t line, std::int64_t depth,
                bool deep) {
  const std::int64_t inner = deep ? k : lines, step = deep ? depth : line, outer = deep ? line : depth;
  return {static_cast<const float*>(data),
          line,
          depth,
          static_cast<int>(lines),
          deep,
          step == 1 && inner % kQuad == 0 && outer % kQuad == 0 && is_aligned(data, 16)};
}

template <int kSide>
void run(const char* op, std::span<const LayerProduct> products) {
  Pair pair = {};
  int blocks = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const LayerProduct& from = products[i];
    const gemm::Product& p = from.product;
    const bool deep = p.a_col == 1 && p.a_row != 1;
    Operand a = operand(p.a, p.m, p.k, p.a_row, p.a_col, deep);
    a.quads = a.quads && (!from.gate || is_aligned(from.gate, 16));
    const int count = static_cast<int>(tiles_of(p, kSide));
    pair.of[i] = {a,
                  operand(p.b, p.n, p.k, p.b_col, p.b_row, deep && p.b_row == 1 && p.b_col != 1),
                  from.gate,
                  from.bias,
                  static_cast<float*>(p.c),
                  from.row_sums,
                  p.c_row,
                  static_cast<int>(p.k),
                  static_cast<int>(ceil_div(p.n, kSide)),
                  count,
                  p.accumulate,
                  from.add_row_sums,
                  from.relu};
    blocks += count;
  }
  const auto go = [&]<Pipe kPipe, bool kGated>() {
    launch_waiting(op, layer_kernel<kSide, kPipe, kGated>, dim3(static_cast<unsigned>(blocks)),
                   dim3(kThreads), Tile<kSide, kPipe>::shared_bytes(kGated), pair);
  };
  if (products[0].gate) return go.template operator()<Pipe::usual, true>();
  if constexpr (kSide == 16) {
    using Deep = Tile<kSide, Pipe::deep>;
    const DeviceProperties& device = cuda_properties(current_cuda_device());
    if (blocks <= device.multiprocessors && products[0].product.k > Tile<kSide>::kStages * Deep::kDepth &&
        Deep::shared_bytes(false) <= device.shared_bytes_per_block)
      return go.template operator()<Pipe::deep, false>();
  }
  go.template operator()<Pipe::usual, false>();
}

}  // namespace

bool gemm_layer(const char* op, std::span<const LayerProduct> products) {
  if (allow_tf32() || gemm::replacement(DeviceType::cuda) != nullptr) return false;
  double work = 0;
  std::int64_t tiles = 0;
  for (const LayerProduct& each : products) {
    const gemm::Product& p = each.product;
    constexpr std::int64_t kMost = 1 << 20;
    if (p.dtype != DType::f32 || (each.row_sums && p.a_row != 1) || p.c_dtype != DType::f32 || p.batch != 1 ||
        p.n == 0 || p.k == 0 || p.m > kMost || p.n > kMost || p.k > kMost)
      return false;
    work += static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    tiles += tiles_of(p, 32);
  }
  if (work > kMostWork || tiles > kMostTiles) return false;
  const bool fits = Tile<32>::shared_bytes(products[0].gate != nullptr) <=
                    cuda_properties(current_cuda_device()).shared_bytes_per_block;
  tiles >= kManyTiles&& fits ? run<32>(op, products) : run<16>(op, products);
  return true;
}

}  // namespace ct::gemm
