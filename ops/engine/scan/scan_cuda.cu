#include <algorithm>
#include <cstring>

#include <cotangent/core/cuda/async_copy.h>
#include <cotangent/core/cuda/check.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/engine/scan/operations.h>

// One pass over all rows, end to end, as a single sequence in which the start of a row forgets what was before. A block
// has a tile, scans it, and needs what the tiles before it come to. It makes that known as soon as it is known
// of itself, and waits for the others (Merrill and Garland 2016, "decoupled look-back"). The order of additions must not
// depend on which tile was faster, though: tiles stand in groups of 32, groups in groups of 32, and so on; the last of a
// group makes the sum of the group known. A tile joins what is before it in its group, then what is before the group in
// the next, each read by the lanes of a warp at once, and stops behind the start of its row.

namespace ct::scan {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kGroup = 32;
// Vectors of a thread, and blocks of a multiprocessor. Elements wait in shared memory: in registers there is no room for
// those of as many blocks as it takes to keep memory busy while some of them wait for others.
template <class Op>
constexpr int kVectors = sizeof(typename Op::Carry) == 4 ? 8 : 4;
template <class Op>
constexpr int kBlocks = sizeof(typename Op::Carry) == 4 ? 5 : 3;
constexpr unsigned kFar = 1 << 30;

// The join of a stretch of elements; `closed` if a row starts in it, and then of those from the last start on.
template <class Op>
struct Segment {
  typename Op::Carry carry;
  bool closed;
};
template <class Op>
__device__ __forceinline__ Segment<Op> joined(const Op& op, const Segment<Op>& before,
                                              const Segment<Op>& after) {
  if (after.closed) return after;
  return {op.join(before.carry, after.carry), before.closed};
}

// `value` of another lane, chosen by f(word) for each of its words.
template <class V, class F>
__device__ __forceinline__ V by_words(const V& value, F f) {
  static_assert(sizeof(V) % 4 == 0);
  unsigned words[sizeof(V) / 4];
  memcpy(words, &value, sizeof(V));
#pragma unroll
  for (unsigned& word : words) word = f(word);
  V result;
  memcpy(&result, words, sizeof(V));
  return result;
}

// Each lane's segment joined with those of the lanes before it.
template <class Op>
__device__ __forceinline__ Segment<Op> warp_scan(const Op& op, Segment<Op> s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned closed = __ballot_sync(~0u, s.closed) & (~0u >> (31 - lane));
  const int first = closed ? 31 - __clz(closed) : 0;  // lanes before that one do not count
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const auto before = by_words(s.carry, [&](unsigned word) { return __shfl_up_sync(~0u, word, d); });
    if (lane - d >= first) s.carry = op.join(before, s.carry);
  }
  s.closed = closed != 0;
  return s;
}
template <class Op>
__device__ __forceinline__ Segment<Op> of_lane(const Segment<Op>& s, int lane) {
  return {by_words(s.carry, [&](unsigned word) { return __shfl_sync(~0u, word, lane); }),
          __shfl_sync(~0u, static_cast<int>(s.closed), lane) != 0};
}

// Messages between blocks: a state for each tile, then for each group of them, and so on; in memory of zeros.
template <class Op>
struct Board {
  using Carry = typename Op::Carry;
  static constexpr int kWords = static_cast<int>(sizeof(Carry) / 4);

  volatile unsigned long long* states;  // 0: not known; 1 and 2: open, closed; above them a carry of one word
  volatile unsigned* carries;           // those of several
  long long tiles;

  __device__ __forceinline__ void tell(long long i, const Segment<Op>& s) const {
    unsigned words[kWords];
    memcpy(words, &s.carry, sizeof(Carry));
    unsigned long long state = s.closed ? 2 : 1;
    if constexpr (kWords == 1) {
      state |= static_cast<unsigned long long>(words[0]) << 32;
    } else {
#pragma unroll
      for (int k = 0; k < kWords; ++k) carries[i * kWords + k] = words[k];
      __threadfence();
    }
    states[i] = state;
  }
  __device__ __forceinline__ Segment<Op> ask(long long i) const {
    unsigned long long state;
    do state = states[i];
    while (state == 0);
    unsigned words[kWords];
    if constexpr (kWords == 1) {
      words[0] = static_cast<unsigned>(state >> 32);
    } else {
      __threadfence();
#pragma unroll
      for (int k = 0; k < kWords; ++k) words[k] = carries[i * kWords + k];
    }
    Segment<Op> s;
    memcpy(&s.carry, words, sizeof(Carry));
    s.closed = (state & 2) != 0;
    return s;
  }
};

// Prefix of all tiles before `tile`, whose own total is `own`. For a whole warp.
template <class Op>
__device__ Segment<Op> look_back(const Op& op, const Board<Op>& board, long long tile, Segment<Op> own) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Segment<Op> before{op.identity(), false};
  bool tells = true;  // `own` is that of a whole group
  long long count = board.tiles, i = tile, offset = 0;
  while (count > 1) {
    if (tells && lane == 0) board.tell(offset + i, own);
    const int place = static_cast<int>(i % kGroup);
    tells = tells && place == kGroup - 1;
    if (before.closed && !tells) break;
    Segment<Op> group{op.identity(), false};
    if (lane < place) group = board.ask(offset + i - place + lane);
    __syncwarp();
    group = of_lane(warp_scan(op, group), place > 0 ? place - 1 : 0);
    before = joined(op, group, before);
    own = joined(op, group, own);
    offset += count;
    count = (count + kGroup - 1) / kGroup;
    i /= kGroup;
  }
  return before;
}

template <class Op, class T>
struct Args {
  Op op;
  const T *x, *a;
  T* y;
  long long* indices;
  long long total, n;  // elements in all, and of a row
  long long step;      // from a thread's vector to its next, along a row
  unsigned row;        // n, or kFar where that is less
  bool reverse, vectors;
  Board<Op> board;
};

template <class T, int N>
__device__ __forceinline__ void turn(gpu::Vector<T, N>& v) {
#pragma unroll
  for (int e = 0; e < N / 2; ++e) {
    const T t = v[e];
    v.set(e, v[N - 1 - e]);
    v.set(N - 1 - e, t);
  }
}
// Whether the N elements from number `first` on are one vector in memory.
template <int N, class Op, class T>
__device__ __forceinline__ bool whole(const Args<Op, T>& args, long long first) {
  return args.vectors && first + N <= args.total;
}
// Requests those elements of `from`, for this thread alone; read() gives them as they are scanned.
template <int N, class Op, class T>
__device__ __forceinline__ void request(const Args<Op, T>& args, const T* from, long long first, uint4* to) {
  if (whole<N>(args, first))
    return gpu::copy_async(to, from + (args.reverse ? args.total - first - N : first));
  gpu::Vector<T, N> v{};
#pragma unroll
  for (int e = 0; e < N; ++e)
    if (first + e < args.total) v.set(e, from[args.reverse ? args.total - 1 - first - e : first + e]);
  *to = v.word;
}
template <int N, class Op, class T>
__device__ __forceinline__ gpu::Vector<T, N> read(const Args<Op, T>& args, const uint4& from,
                                                  long long first) {
  gpu::Vector<T, N> v{from};
  if (args.reverse && whole<N>(args, first)) turn(v);
  return v;
}
template <int N, class Op, class T>
__device__ __forceinline__ void write(const Args<Op, T>& args, long long first, gpu::Vector<T, N> v) {
  if (whole<N>(args, first)) {
    if (args.reverse) turn(v);
    v.store_streaming(args.y + (args.reverse ? args.total - first - N : first));
    return;
  }
#pragma unroll
  for (int e = 0; e < N; ++e)
    if (first + e < args.total) args.y[args.reverse ? args.total - 1 - first - e : first + e] = v[e];
}

template <class Op, class T>
__global__ void __launch_bounds__(kThreads, kBlocks<Op>)
    scan_kernel(const __grid_constant__ Args<Op, T> args) {
  constexpr int N = 16 / static_cast<int>(sizeof(T)), kPacks = kVectors<Op>;
  constexpr bool kTwo = requires(Op op) { op.identity().b; };
  using C = compute_t<T>;
  __shared__ Segment<Op> shared[kWarps + 1];  // of the warps; of the tiles before
  const Op& op = args.op;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  // Blocks start in the order of their numbers, as CUB's scans expect too: no tile waits for one that has not started.
  const long long tile = blockIdx.x;
  const long long base = (tile * kWarps + warp) * (kPacks * 32 * N) + lane * N;
  const long long in_row = args.n == args.total ? base : base % args.n;

  __shared__ uint4 elements[kTwo ? 2 : 1][kPacks][kThreads];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    request<N>(args, args.x, base + p * 32 * N, &elements[0][p][threadIdx.x]);
    if constexpr (kTwo) request<N>(args, args.a, base + p * 32 * N, &elements[1][p][threadIdx.x]);
  }
  gpu::copy_async_wait();
  // Calls f(e, carry, starts) for the elements of vector p, the first of which has the place `place` in its row.
  const auto each = [&](int p, long long place, auto f) {
    C values[N], factors[N];
    const long long first = base + p * 32 * N;
    read<N>(args, elements[0][p][threadIdx.x], first).to_compute(values);
    if constexpr (kTwo) read<N>(args, elements[1][p][threadIdx.x], first).to_compute(factors);
    // Distance of the next row: 32 bits are faster. Places are kept only if asked for.
    const long long rest = args.n - place;
    unsigned left = place == 0 ? 0 : rest < kFar ? static_cast<unsigned>(rest) : kFar;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const bool starts = left == 0;
      if (starts) left = args.row, place = 0;
      f(e, op.element(values[e], kTwo ? factors[e] : C(0), place), starts);
      --left, ++place;
    }
  };
  const auto next = [&](long long place) {
    place += args.step;
    return place < args.n ? place : place - args.n;
  };

  Segment<Op> before[kPacks], all{op.identity(), false};  // within the warp
  long long place = in_row;
#pragma unroll
  for (int p = 0; p < kPacks; ++p, place = next(place)) {
    Segment<Op> s{op.identity(), false};
    each(p, place, [&](int, const typename Op::Carry& carry, bool starts) {
      s = {starts ? carry : op.join(s.carry, carry), s.closed || starts};
    });
    s = warp_scan(op, s);
    const Segment<Op> last = of_lane(s, 31);
    s = of_lane(s, lane > 0 ? lane - 1 : 0);
    before[p] = lane > 0 ? joined(op, all, s) : all;
    all = joined(op, all, last);
  }
  if (lane == 0) shared[warp] = all;
  __syncthreads();
  Segment<Op> carried{op.identity(), false};
  for (int w = 0; w < warp; ++w) carried = joined(op, carried, shared[w]);
  if (args.board.tiles > 1) {
    if (warp == 0) {
      Segment<Op> own = shared[0];
      for (int w = 1; w < kWarps; ++w) own = joined(op, own, shared[w]);
      const Segment<Op> earlier = look_back(op, args.board, tile, own);
      if (lane == 0) shared[kWarps] = earlier;
    }
    __syncthreads();
    carried = joined(op, shared[kWarps], carried);
  }

  place = in_row;
#pragma unroll
  for (int p = 0; p < kPacks; ++p, place = next(place)) {
    const long long first = base + p * 32 * N;
    typename Op::Carry carry = joined(op, carried, before[p]).carry;
    C values[N];
    each(p, place, [&](int e, const typename Op::Carry& element, bool starts) {
      carry = starts ? element : op.join(carry, element);
      values[e] = Op::value(carry);
      if constexpr (requires { carry.at; })
        if (first + e < args.total) args.indices[first + e] = carry.at;
    });
    write<N>(args, first, gpu::Vector<T, N>::from_compute(values));
  }
}

template <class Op, class T>
void scan_rows(const Call& call, const Lines& lines, const Op& op) {
  constexpr long long N = 16 / sizeof(T), kTile = kThreads * kVectors<Op> * N;
  const auto data = [](const Tensor& t) { return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr; };
  const long long total = lines.outer * lines.n, tiles = gpu::ceil_div(total, kTile);
  Args<Op, T> args{op,      data(call.x),     data(call.a), data(call.y), nullptr, total,
                   lines.n, 32 * N % lines.n, {},           call.reverse, false,   {}};
  if (call.indices.defined()) args.indices = static_cast<long long*>(call.indices.raw_data());
  args.row = static_cast<unsigned>(std::min<std::int64_t>(lines.n, kFar));
  args.vectors = gpu::is_aligned(args.x, 16) && gpu::is_aligned(args.a, 16) && gpu::is_aligned(args.y, 16) &&
                 (!call.reverse || total % N == 0);
  std::size_t entries = 0;
  for (long long count = tiles; count > 1; count = gpu::ceil_div(count, kGroup))
    entries += static_cast<std::size_t>(count);
  const std::size_t state_bytes = entries * 8;
  const gpu::Workspace memory(entries > 0 ? state_bytes + entries * sizeof(typename Op::Carry) : 0);
  if (entries > 0) {
    CT_CUDA_OP(call.op, cudaMemsetAsync(memory.data(), 0, state_bytes, gpu::native_stream()));
    auto* const states = static_cast<unsigned long long*>(memory.data());
    args.board.states = states;
    args.board.carries = reinterpret_cast<unsigned*>(states + entries);
  }
  args.board.tiles = tiles;
  gpu::launch(call.op, scan_kernel<Op, T>, gpu::blocks_for(call.op, tiles, 1), kThreads, 0, args);
}

}  // namespace

void run_cuda(const Call& call, const Lines& lines) {
  const auto go = [&]<class Op, class T>(const Op& op, TypeTag<T>) { scan_rows<Op, T>(call, lines, op); };
  switch (call.x.dtype()) {
    case DType::i64: return visit_integers(call.kind, go);
    case DType::f64: return visit_floats<double, double>(call.kind, go);
    case DType::f32: return visit_floats<float, float>(call.kind, go);
    case DType::f16: return go(Sum<float>{}, TypeTag<Half>{});
    default: return go(Sum<float>{}, TypeTag<BFloat16>{});
  }
}

}  // namespace ct::scan

CT_FUNCTIONS(cuda, ScanFunctions, scans, scan::run_cuda)
