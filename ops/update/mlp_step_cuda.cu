#include <cotangent/core/base/precision.h>
#include <cotangent/core/cuda/device_error.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/update/mlp_step_internal.h>
#include <cotangent/ops/engine/rows/cluster.cuh>

// Training steps of a perceptron in one launch: a cluster of 16 blocks holds the network. Block (i, j), of four rows and four
// columns, has part i of the first hidden layer and part j of the inputs and of the second one; its pieces of the weights
// stay in shared memory, their moments in registers. README.md has the plan.

namespace ct::update::mlp {
namespace {

constexpr int kSide = 4, kBlocks = kSide * kSide, kThreads = 512, kWarps = kThreads / 32;
// Most rows and classes, and a block's most inputs and hidden units. What a network lacks of them is zeros.
constexpr int kRows = 64, kClasses = 16, kInputs = 200, kUnits = 32;
// Rows in shared memory are apart by 4 modulo 8, by which the lanes of a warp read fragments from 32 different banks.
constexpr int pitch(int columns) { return columns + 4; }
constexpr int kHalfDepth = (kInputs / 8 + 1) / 2 * 8;
constexpr int kStrips = kInputs / 8, kHeld = (kStrips + kWarps / 2 - 1) / (kWarps / 2);

template <int rows, int columns>
struct Matrix {
  static constexpr int kPitch = pitch(columns);
  float data[rows * kPitch];
  __device__ float* row(int i) { return data + i * kPitch; }
};

struct Memory {
  Matrix<kRows, kInputs> x[2];  // of this step and of the next
  Matrix<kUnits, kInputs> w1;
  Matrix<kUnits, kUnits> w2;
  Matrix<kClasses, kUnits> w3;
  Matrix<kRows, kUnits> part[2];  // sums over a block's part of a product's depth, for its neighbours
  Matrix<kRows, kUnits> h1, h2, d1, d2;
  Matrix<kRows, kClasses> d3;
  float b1[kUnits], b2[kUnits], b3[kClasses], losses[kRows];
  float scales[2][2];  // of Adam, of this step and of the next
};

#if __CUDA_ARCH__ >= 900
// A number as the sum of two that have 11 digits each, of which tensor cores multiply all but the product of the low ones: f32's
// accuracy at three times the instructions. With allow_tf32() the high ones alone are multiplied. They see the upper 19 bits of
// an operand, so that half of the last of these, added, rounds it, in less time than a conversion takes.
struct Split {
  static constexpr unsigned kHalf = 1u << 12;
  unsigned high, low;
  __device__ explicit Split(float v) : high((__float_as_uint(v) + kHalf) & ~(2 * kHalf - 1)) {
    low = __float_as_uint(v - __uint_as_float(high)) + kHalf;
  }
};
__device__ __forceinline__ void multiply(float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                         unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A warp's tiles of 16 x 8 of a product: element (i, k) of A is a[i * pitch + k], of one that lies down a[k * pitch + i]; so is
// (j, k) of B. Tiles are `hop` apart in B. The lane has rows lane / 4 and 8 below, columns 2 (lane % 4) and the next.
template <bool kTf32, bool kDownA, bool kDownB, int kTiles>
__device__ __forceinline__ void product(float (&sum)[kTiles][4], const float* a, int a_pitch, const float* b,
                                        int b_pitch, int hop, int tiles, int depth) {
  const int line = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  // Depths of the two halves of a fragment: any order will do, and this one reads different banks.
  const int k0 = kDownA ? 2 * t : t, k1 = kDownA ? 2 * t + 1 : t + 4;
  const auto at = [](const float* from, bool down, int pitch, int i, int k) {
    return Split(down ? from[k * pitch + i] : from[i * pitch + k]);
  };
  float rest[kTiles][4] = {};
#pragma unroll kTiles == 1 ? 4 : 2
  for (int k = 0; k < depth; k += 8) {
    const Split a0 = at(a, kDownA, a_pitch, line, k + k0), a1 = at(a, kDownA, a_pitch, line + 8, k + k0),
                a2 = at(a, kDownA, a_pitch, line, k + k1), a3 = at(a, kDownA, a_pitch, line + 8, k + k1);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (i >= tiles) break;
      const Split b0 = at(b + i * hop, kDownB, b_pitch, line, k + k0),
                  b1 = at(b + i * hop, kDownB, b_pitch, line, k + k1);
      multiply(sum[i], a0.high, a1.high, a2.high, a3.high, b0.high, b1.high);
      if constexpr (!kTf32) {
        multiply(rest[i], a0.low, a1.low, a2.low, a3.low, b0.high, b1.high);
        multiply(rest[i], a0.high, a1.high, a2.high, a3.high, b0.low, b1.low);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int c = 0; c < 4; ++c) sum[i][c] += rest[i][c];
}

// Instructions without the branch that rounds the last bit: a thread's numbers take their steps side by side.
struct Quick {
  __device__ static float root(float v) {
    asm("sqrt.approx.f32 %0, %1;" : "=f"(v) : "f"(v));
    return v;
  }
  __device__ static float quotient(float a, float b) { return __fdividef(a, b); }
};

// Elements of a lane in a tile.
__device__ __forceinline__ int row_of(int c) { return static_cast<int>(threadIdx.x) % 32 / 4 + c / 2 * 8; }
__device__ __forceinline__ int column_of(int c) { return static_cast<int>(threadIdx.x) % 4 * 2 + c % 2; }

// One tile of a product, of which the elements go to f(row, column, value).
template <bool kTf32, bool kDownB, class F>
__device__ __forceinline__ void tile(const float* a, int a_pitch, const float* b, int b_pitch, int depth,
                                     F f) {
  float sum[1][4] = {};
  product<kTf32, false, kDownB>(sum, a, a_pitch, b, b_pitch, 0, 1, depth);
#pragma unroll
  for (int c = 0; c < 4; ++c) f(row_of(c), column_of(c), sum[0][c]);
}

// Requests a piece of a matrix in global memory; there are zeros where it ends.
template <int rows, int columns>
__device__ __forceinline__ void fetch(Matrix<rows, columns>& to, const float* from, int from_pitch, int count,
                                      int width) {
  const auto copy = [&](auto wide) {
    constexpr int kWide = decltype(wide)::value;
    constexpr int kEach = columns / kWide;
    for (int e = static_cast<int>(threadIdx.x); e < rows * kEach; e += kThreads) {
      const int i = e / kEach, k = e % kEach * kWide;
      const bool there = i < count && k < width;
      const float* const source = there ? from + static_cast<std::int64_t>(i) * from_pitch + k : from;
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                       static_cast<unsigned>(__cvta_generic_to_shared(to.row(i) + k))),
                   "l"(source), "n"(4 * kWide), "r"(there ? 4 * kWide : 0)
                   : "memory");
    }
  };
  if (from_pitch % 4 == 0 && width % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0)
    copy(std::integral_constant<int, 4>{});
  else
    copy(std::integral_constant<int, 1>{});
}

__device__ __forceinline__ float rectified(float v) { return v <= 0 ? 0.f : v; }  // a NaN stays one

// The same place in the shared memory of a block of the cluster.
template <class T>
__device__ __forceinline__ T read_of(int block, const float* here) {
  const bool own = block == static_cast<int>(__clusterRelativeBlockRank());
  const void* const there = __cluster_map_shared_rank(here, static_cast<unsigned>(block));
  return *static_cast<const T*>(own ? here : there);
}
#endif

struct Shape {
  int count, batch, in, hidden1, hidden2, classes;
};

template <bool kTf32>
__global__ void __launch_bounds__(kThreads, 1)
    steps_kernel(const __grid_constant__ Call call, const __grid_constant__ Shape shape,
                 const AdamConstants<float> adam, ct::detail::DeviceErrors* errors, IndexSite site) {
#if __CUDA_ARCH__ >= 900
  gpu::wait_for_previous();
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& s = *reinterpret_cast<Memory*>(bytes);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int rank = static_cast<int>(__clusterRelativeBlockRank()), i = rank / kSide, j = rank % kSide;
  // First unit of the block in either hidden layer, first input, and how many there are.
  const int unit1 = i * kUnits, unit2 = j * kUnits, input = j * kInputs;
  const auto left = [](int all, int first, int most) { return min(max(all - first, 0), most); };
  const int units1 = left(shape.hidden1, unit1, kUnits), units2 = left(shape.hidden2, unit2, kUnits),
            inputs = left(shape.in, input, kInputs);

  // The weights of the first layer that the lane holds: of each of its tiles, the element's place here and there. Every second
  // warp has the upper units.
  const int upper = warp % 2 * 16, strip = warp / 2;
  const int tiles = (kStrips - strip + kWarps / 2 - 1) / (kWarps / 2);
  const auto each_first = [&](auto f) {
#pragma unroll
    for (int r = 0; r < kHeld; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int unit = upper + row_of(c), k = (strip + r * (kWarps / 2)) * 8 + column_of(c);
        if (unit < units1 && k < inputs)
          f(r, c, s.w1.row(unit)[k], call.held[0],
            static_cast<std::int64_t>(unit1 + unit) * shape.in + input + k, true);
      }
  };
  // Weights of the other two, a tile of warps 0 to 7 and 8 to 11, and the biases, of warps 12 to 14. Several blocks have the same
  // ones, and compute the same: one of them stores them.
  const auto each_other = [&](auto f) {
    if (warp < 12) {
      const int top = warp < 8 ? warp / 4 * 16 : 0, from = warp % 4 * 8;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = top + row_of(c), column = from + column_of(c);
        if (warp < 8 && row < units2 && column < units1)
          f(c, s.w2.row(row)[column], call.held[2], (unit2 + row) * shape.hidden1 + unit1 + column, true);
        if (warp >= 8 && row < shape.classes && column < units2)
          f(c, s.w3.row(row)[column], call.held[4], row * shape.hidden2 + unit2 + column, i == 0);
      }
    } else if (warp == 12 && lane < units1) {
      f(0, s.b1[lane], call.held[1], unit1 + lane, j == 0);
    } else if (warp == 13 && lane < units2) {
      f(0, s.b2[lane], call.held[3], unit2 + lane, i == 0);
    } else if (warp == 14 && lane < shape.classes) {
      f(0, s.b3[lane], call.held[5], lane, rank == 0);
    }
  };
  const auto fetch_x = [&](int step) {
    const float* const from = call.x + static_cast<std::int64_t>(step) * shape.batch * shape.in + input;
    fetch(s.x[step % 2], from, shape.in, inputs > 0 ? shape.batch : 0, inputs);
  };

  fetch_x(0);
  fetch(s.w1, call.held[0].param + static_cast<std::int64_t>(unit1) * shape.in + input, shape.in,
        inputs > 0 ? units1 : 0, inputs);
  fetch(s.w2, call.held[2].param + unit2 * shape.hidden1 + unit1, shape.hidden1, units1 > 0 ? units2 : 0,
        units1);
  fetch(s.w3, call.held[4].param + unit2, shape.hidden2, units2 > 0 ? shape.classes : 0, units2);
  float m1[kHeld][4] = {}, v1[kHeld][4] = {}, m2[4] = {}, v2[4] = {};
  each_first([&](int r, int c, float&, const Held& from, std::int64_t at, bool) {
    m1[r][c] = from.m[at], v1[r][c] = from.v[at];
  });
  if (thread < kUnits) s.b1[thread] = s.b2[thread] = 0;
  if (thread < kClasses) s.b3[thread] = 0;
  const std::int64_t made = *call.steps;
  const auto next = [&](int step) {
    const std::int64_t before = made + step;
    double scale[2];
    next_scales(call.rule, &before, scale);
    s.scales[step % 2][0] = static_cast<float>(scale[0]),
                    s.scales[step % 2][1] = static_cast<float>(scale[1]);
  };
  if (warp == 15 && lane == 0) next(0);
  __syncthreads();
  each_other([&](int c, float& here, const Held& from, std::int64_t at, bool) {
    m2[c] = from.m[at], v2[c] = from.v[at];
    if (warp >= 12) here = from.param[at];
  });
  const auto arrive = [] { __cluster_barrier_arrive(); };
  const auto wait = [] { __cluster_barrier_wait(); };
  // The parts of four blocks, first + 0, 1, 2, 3 hops, added in this order by all: a thread has four neighbours.
  const int row = thread / 8, column = thread % 8 * 4;
  const auto total = [&](const Matrix<kRows, kUnits>& part, int first, int hop, auto f) {
    float sum[4] = {};
#pragma unroll
    for (int n = 0; n < kSide; ++n) {
      const float4 v = read_of<float4>(first + n * hop, part.data + row * pitch(kUnits) + column);
      sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) f(row, column + c, sum[c]);
  };
  const int m0 = warp / 4 * 16, n0 = warp % 4 * 8;  // a warp's tile of 64 x 32
  const auto to_part = [&](Matrix<kRows, kUnits>& part, int m, int n) {
    return [&part, m, n](int y, int x, float v) { part.row(m + y)[n + x] = v; };
  };
  constexpr int kUnitPitch = pitch(kUnits), kInputPitch = pitch(kInputs), kClassPitch = pitch(kClasses);

  const float share = 1.f / static_cast<float>(shape.batch);

  for (int step = 0; step < shape.count; ++step) {
    Matrix<kRows, kInputs>& x = s.x[step % 2];
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    if (step + 1 < shape.count) fetch_x(step + 1);
    const std::int64_t label =
        row < shape.batch ? call.labels[static_cast<std::int64_t>(step) * shape.batch + row] : -1;

    // h1 = relu(x W1^T + b1): depths in parts, of the blocks of a row.
    {
      // The lower half of the depths is that of warps 0 to 7, the upper is added to it.
      const int half = warp / 8 * kHalfDepth, units = warp / 4 % 2 * 16;
      float sum[2][4] = {};
      product<kTf32, false, false>(sum, x.row(warp % 4 * 16) + half, kInputPitch, s.w1.row(units) + half,
                                   kInputPitch, 8 * kInputPitch, 2,
                                   min((inputs + 7) / 8 * 8 - half, kHalfDepth));
      for (int upper = 1; upper >= 0; --upper) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float& to = s.part[0].row(warp % 4 * 16 + row_of(e % 4))[units + e / 4 * 8 + column_of(e % 4)];
          if (warp / 8 == upper) to = upper ? sum[e / 4][e % 4] : to + sum[e / 4][e % 4];
        }
        if (upper) __syncthreads();
      }
    }
    arrive(), wait();
    total(s.part[0], i * kSide, 1, [&](int y, int u, float v) { s.h1.row(y)[u] = rectified(v + s.b1[u]); });
    __syncthreads();
    // h2 = relu(h1 W2^T + b2): of the blocks of a column.
    tile<kTf32, false>(s.h1.row(m0), kUnitPitch, s.w2.row(n0), kUnitPitch, kUnits,
                       to_part(s.part[1], m0, n0));
    arrive(), wait();
    total(s.part[1], j, kSide, [&](int y, int u, float v) { s.h2.row(y)[u] = rectified(v + s.b2[u]); });
    __syncthreads();
    // Scores h2 W3^T + b3, and d3, the gradient of their loss: a thread has two of a row's sixteen.
    if (warp < 8)
      tile<kTf32, false>(s.h2.row(warp / 2 * 16), kUnitPitch, s.w3.row(warp % 2 * 8), kUnitPitch, kUnits,
                         to_part(s.part[0], warp / 2 * 16, warp % 2 * 8));
    arrive(), wait();
    float score[2], most = -INFINITY, sum = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int c = thread % 8 + h * 8;
      score[h] = s.b3[c];
#pragma unroll
      for (int n = 0; n < kSide; ++n) score[h] += read_of<float>(i * kSide + n, s.part[0].row(row) + c);
      if (c >= shape.classes) score[h] = -INFINITY;
      most = fmaxf(most, score[h]);
    }
#pragma unroll
    for (int hop = 1; hop < 8; hop *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, hop));
    // A label out of range has neither loss nor gradient.
    const bool counts = label >= 0 && label < shape.classes;
    float top[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) sum += top[h] = __expf(score[h] - most);
#pragma unroll
    for (int hop = 1; hop < 8; hop *= 2) sum += __shfl_xor_sync(~0u, sum, hop);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int c = thread % 8 + h * 8;
      s.d3.row(row)[c] = counts ? (__fdividef(top[h], sum) - (c == label ? 1.f : 0.f)) * share : 0.f;
      if (rank == 0 && (counts ? c == label : c == 0))
        s.losses[row] = counts ? logf(sum) + most - score[h] : 0.f;
    }
    if (rank == 0 && column == 0 && row < shape.batch && !counts)
      gpu::report_index_error(errors, site, label, shape.classes);
    __syncthreads();
    // d2 = d3 W3, where h2 is not 0.
    tile<kTf32, true>(
        s.d3.row(m0), kClassPitch, s.w3.data + n0, kUnitPitch, kClasses,
        [&](int y, int u, float v) { s.d2.row(m0 + y)[n0 + u] = s.h2.row(m0 + y)[n0 + u] <= 0 ? 0.f : v; });
    __syncthreads();
    // d1 = d2 W2, where h1 is not 0: of the blocks of a row. The gradients of the last two layers are made meanwhile.
    tile<kTf32, true>(s.d2.row(m0), kUnitPitch, s.w2.data + n0, kUnitPitch, kUnits,
                      to_part(s.part[1], m0, n0));
    arrive();
    const float rate = s.scales[step % 2][0], by = s.scales[step % 2][1];
    float other[1][4] = {};
    const auto sum_rows = [&](const float* from, int from_pitch) {
      for (int y = 0; y < kRows; ++y) other[0][0] += from[y * from_pitch];
    };
    if (warp < 8)
      product<kTf32, true, true>(other, s.d2.data + warp / 4 * 16, kUnitPitch, s.h1.data + n0, kUnitPitch, 0,
                                 1, kRows);
    else if (warp < 12)
      product<kTf32, true, true>(other, s.d3.data, kClassPitch, s.h2.data + n0, kUnitPitch, 0, 1, kRows);
    else if (warp == 13)
      sum_rows(s.d2.data + lane, kUnitPitch);
    else if (warp == 14 && lane < kClasses)
      sum_rows(s.d3.data + lane, kClassPitch);
    else if (warp == 15 && lane == 0)
      next(step + 1);
    else if (warp == 12 && lane == 0 && rank == 0) {
      float loss = 0;
      for (int y = 0; y < shape.batch; ++y) loss += s.losses[y];
      call.losses[step] = loss / static_cast<float>(shape.batch);
    }
    __syncwarp();
    wait();
    total(s.part[1], i * kSide, 1,
          [&](int y, int u, float v) { s.d1.row(y)[u] = s.h1.row(y)[u] <= 0 ? 0.f : v; });
    __syncthreads();
    if (warp == 12) sum_rows(s.d1.data + lane, kUnitPitch);
    const auto take = [&](float& p, float gradient, float& m, float& v) {
      float moments[kMaxMoments] = {m, v};
      adam.template update<2, Quick>(p, gradient, moments, rate, by);
      m = moments[0], v = moments[1];
    };
    each_other([&](int c, float& p, const Held&, std::int64_t, bool) { take(p, other[0][c], m2[c], v2[c]); });
    float first[kHeld][4] = {};
    product<kTf32, true, true>(first, s.d1.data + upper, kUnitPitch, x.data + strip * 8, kInputPitch,
                               kWarps / 2 * 8, tiles, kRows);
    each_first([&](int r, int c, float& p, const Held&, std::int64_t, bool) {
      take(p, first[r][c], m1[r][c], v1[r][c]);
    });
  }
  const auto store = [](float p, float m, float v, const Held& to, std::int64_t at) {
    to.param[at] = p, to.m[at] = m, to.v[at] = v;
  };
  each_first([&](int r, int c, float& p, const Held& to, std::int64_t at, bool) {
    store(p, m1[r][c], v1[r][c], to, at);
  });
  each_other([&](int c, float& p, const Held& to, std::int64_t at, bool mine) {
    if (mine) store(p, m2[c], v2[c], to, at);
  });
  arrive(), wait();  // no block leaves whose parts are read, and all have read the count
  if (rank == 0 && thread == 0) *call.steps = made + shape.count;
#endif
}

// Launches the kernel as a cluster; asks first whether the device holds one.
template <bool kTf32>
void launch(const char* op, const Call& call) {
  CT_CHECK(call.batch <= kRows && call.in <= kSide * kInputs && call.hidden[0] <= kSide * kUnits &&
               call.hidden[1] <= kSide * kUnits && call.classes <= kClasses,
           ShapeError, op, "a batch of ", call.batch, " and layers ", call.in, "-", call.hidden[0], "-",
           call.hidden[1], "-", call.classes, " are more than a cluster holds, a batch of ", kRows,
           " and layers ", kSide * kInputs, "-", kSide * kUnits, "-", kSide * kUnits, "-", kClasses,
           "; train them by nn::Linear and optim::Adam in a captured step");
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kBlocks, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kBlocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = sizeof(Memory);
  config.stream = gpu::native_stream();
  config.attrs = attributes;
  config.numAttrs = gpu::detail::launches_early() ? 2 : 1;
  int clusters = 0;
  if (gpu::compiled_arch<steps_kernel<kTf32>>(op) >= 900 &&
      cuda_properties(current_cuda_device()).shared_bytes_per_block >= sizeof(Memory)) {
    gpu::detail::allow_dynamic_smem(op, reinterpret_cast<const void*>(steps_kernel<kTf32>), sizeof(Memory));
    clusters = rows::resident_clusters<steps_kernel<kTf32>>(op, config, kBlocks);
  }
  CT_CHECK(clusters > 0, DeviceError, op, "this GPU has no clusters of ", kBlocks, " blocks of ",
           sizeof(Memory), " bytes; train on it by nn::Linear and optim::Adam in a captured step");
  const Shape shape{static_cast<int>(call.count),     static_cast<int>(call.batch),
                    static_cast<int>(call.in),        static_cast<int>(call.hidden[0]),
                    static_cast<int>(call.hidden[1]), static_cast<int>(call.classes)};
  const cudaError_t status =
      cudaLaunchKernelEx(&config, steps_kernel<kTf32>, call, shape, call.rule.constants<float>(),
                         gpu::index_errors(), IndexSite{op, IndexKind::class_label});
  if (status != cudaSuccess) gpu::throw_cuda_error(op, "the kernel launch", status);
}

void steps_cuda(const Forward& forward) {
  const Call call(forward);
  allow_tf32() ? launch<true>(forward.op.name, call) : launch<false>(forward.op.name, call);
}

}  // namespace
}  // namespace ct::update::mlp

CT_KERNELS(cuda, mlp_step, forward_only("mlp_step", update::mlp::steps_cuda))
