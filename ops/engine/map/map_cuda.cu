#include <algorithm>

#include <cotangent/ops/engine/map/map_cuda.cuh>

// Which elementwise kernel runs and with what arguments; the kernels themselves are made in the rooms.

namespace ct::elementwise {
namespace {

// More elements than this are split over several launches, so that kernels count in 32 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
// Below this a vector launch plus one for the tail costs more than one element launch.
constexpr std::int64_t kWorthTail = 1 << 16;

struct Pointers {
  char* operand[1 + kMaxInputs];  // 0 is the output
  std::size_t size[1 + kMaxInputs];
  void advance(int operands, const Layout& layout, int axis, std::int64_t by) {
    for (int k = 0; k < operands; ++k)
      operand[k] += by * layout.strides[k][axis] * static_cast<std::int64_t>(size[k]);
  }
};

// Few enough steps per thread that a small tensor still reaches all multiprocessors.
int steps_per_thread(std::int64_t steps, int unroll) {
  const std::int64_t enough = std::int64_t{gpu::multiprocessors()} * 4 * kBlockThreads;
  return static_cast<int>(std::clamp<std::int64_t>(steps / enough, 1, unroll));
}

// A number too large for an integer (an infinite bound) is for floating kernels only.
Parameter in_both_forms(const Scalar& s) {
  const double f = s.to<double>();
  const bool fits = !s.is_floating() || (f > -9e18 && f < 9e18);
  return {f, fits ? s.to<std::int64_t>() : 0};
}

KernelArgs arguments(const Layout& layout, const Pointers& pointers, int operands,
                     const Parameters& parameters) {
  KernelArgs a{};
  a.out = pointers.operand[0];
  for (int k = 1; k < operands; ++k) a.in[k - 1] = pointers.operand[k];
  a.rank = layout.rank;
  for (int k = 0; k < operands; ++k)
    for (int d = 0; d < layout.rank; ++d) a.strides[k][d] = layout.strides[k][d];
  a.p = in_both_forms(parameters.p);
  a.q = in_both_forms(parameters.q);
  return a;
}

void set_sizes(KernelArgs& a, const std::int64_t* sizes) {
  for (int d = 1; d < a.rank; ++d) a.sizes[d] = Divider(static_cast<std::uint32_t>(sizes[d]));
}

// One launch per 2^30 elements: the longest axis is cut in two until the pieces fit.
void launch_elements(const char* op, Kernel kernel, const std::uint8_t* dtypes, const Layout& layout,
                     Pointers pointers, int operands, const Parameters& parameters) {
  if (layout.numel > kMostElements) {
    int axis = 0;
    for (int d = 1; d < layout.rank; ++d)
      if (layout.sizes[d] > layout.sizes[axis]) axis = d;
    Layout half = layout;
    const std::int64_t size = layout.sizes[axis];
    half.sizes[axis] = size / 2;
    half.numel = layout.numel / size * half.sizes[axis];
    launch_elements(op, kernel, dtypes, half, pointers, operands, parameters);
    pointers.advance(operands, layout, axis, half.sizes[axis]);
    half.sizes[axis] = size - size / 2;
    half.numel = layout.numel / size * half.sizes[axis];
    return launch_elements(op, kernel, dtypes, half, pointers, operands, parameters);
  }
  KernelArgs a = arguments(layout, pointers, operands, parameters);
  set_sizes(a, layout.sizes);
  for (int k = 0; k < operands; ++k) a.dtypes[k] = dtypes[k];
  a.count = layout.numel;
  a.per_thread = steps_per_thread(a.count, kElementUnroll);
  gpu::launch(op, kernel, gpu::blocks_for(op, a.count, kBlockThreads * a.per_thread), kBlockThreads, 0, a);
}

// True if every row of every operand is made of whole chunks of `v` elements that can be moved at once.
bool rows_are_chunks(const Layout& layout, const Pointers& pointers, int operands, std::int64_t v) {
  const int inner = layout.rank - 1;
  if (layout.rank > 1 && (layout.sizes[inner] % v != 0 || layout.numel / v >= std::int64_t{1} << 31))
    return false;
  for (int k = 0; k < operands; ++k) {
    const std::int64_t stride = layout.strides[k][inner];
    if (k > 0 && stride == 0) continue;  // one number per row
    if (stride != 1 || !gpu::is_aligned(pointers.operand[k], static_cast<std::size_t>(v) * pointers.size[k]))
      return false;
    for (int d = 0; d < inner; ++d)
      if (layout.strides[k][d] % v != 0) return false;
  }
  return true;
}

}  // namespace

void run_cuda(const char* op, const CudaKernels& kernels, Tensor& out, std::span<const Tensor* const> given,
              const Parameters& parameters) {
  if (out.numel() == 0) return;
  const PackedInputs packed_inputs(given);
  const std::span<const Tensor* const> inputs = packed_inputs;
  Layout layout = make_layout(out, inputs);
  const int operands = 1 + static_cast<int>(inputs.size());
  Pointers pointers{};
  std::uint8_t dtypes[1 + kMaxInputs]{};
  for (int k = 0; k < operands; ++k) {
    const Tensor& t = k == 0 ? out : *inputs[static_cast<std::size_t>(k - 1)];
    pointers.operand[k] = static_cast<char*>(t.raw_data());
    pointers.size[k] = size_of(t.dtype());
    dtypes[k] = static_cast<std::uint8_t>(t.dtype());
  }
  const DType dtype = inputs.back()->dtype();
  const Compute compute = compute_type(dtype);
  const Kernel element = compute == Compute::f32   ? kernels.element_f32
                         : compute == Compute::f64 ? kernels.element_f64
                                                   : kernels.element_i64;
  const Kernel vector = dtype == DType::f32    ? kernels.vector_f32
                        : dtype == DType::f16  ? kernels.vector_f16
                        : dtype == DType::bf16 ? kernels.vector_bf16
                                               : nullptr;
  CT_ASSERT(element != nullptr);
  const std::int64_t v = 16 / static_cast<std::int64_t>(size_of(dtype));
  const int inner = layout.rank - 1;
  const std::int64_t tail = layout.sizes[inner] % v;
  if (!vector || !rows_are_chunks(layout, pointers, operands, v) || (tail && layout.numel < kWorthTail))
    return launch_elements(op, element, dtypes, layout, pointers, operands, parameters);

  KernelArgs a = arguments(layout, pointers, operands, parameters);
  std::int64_t sizes[kMaxRank];
  std::copy_n(layout.sizes, layout.rank, sizes);
  sizes[inner] /= v;
  for (int k = 0; k < operands; ++k) a.strides[k][inner] *= v;
  set_sizes(a, sizes);
  a.count = layout.numel / v;
  a.per_thread = steps_per_thread(a.count, kernels.unroll);
  gpu::launch(op, vector, gpu::blocks_for(op, a.count, std::int64_t{kBlockThreads} * a.per_thread),
              kBlockThreads, 0, a);
  if (tail) {  // one axis, of which the last elements are left
    pointers.advance(operands, layout, 0, layout.numel - tail);
    layout.sizes[0] = layout.numel = tail;
    launch_elements(op, element, dtypes, layout, pointers, operands, parameters);
  }
}

}  // namespace ct::elementwise
