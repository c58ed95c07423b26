#include <algorithm>

#include <cotangent/ops/engine/map/map_cuda.cuh>

// Choice of an elementwise kernel and its arguments; the kernels themselves are made in the rooms.

namespace ct::map {
namespace {

// More elements than this are split over several launches, so that kernels count in 32 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
// Below this a vector launch plus one for the tail costs more than one element launch.
constexpr std::int64_t kWorthTail = 1 << 16;

// Operands of a call; those that are absent are null.
struct Operands {
  int outputs, count;
  char* data[kMaxOperands];
  std::size_t size[kMaxOperands];
  std::uint8_t dtypes[kMaxOperands];
  std::int64_t first;  // the number of the first element, where there is one axis
  void advance(const Layout& layout, int axis, std::int64_t by) {
    first += by;
    for (int k = 0; k < count; ++k)
      if (data[k]) data[k] += by * layout.strides[k][axis] * static_cast<std::int64_t>(size[k]);
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

KernelArgs arguments(const Layout& layout, const Operands& o, const Parameters& parameters,
                     const Draw& draw) {
  KernelArgs a{};
  for (int k = 0; k < o.outputs; ++k) a.out[k] = o.data[k];
  for (int k = o.outputs; k < o.count; ++k) a.in[k - o.outputs] = o.data[k];
  a.rank = layout.rank;
  for (int k = 0; k < o.count; ++k) {
    a.dtypes[k] = o.dtypes[k];
    for (int d = 0; d < layout.rank; ++d) a.strides[k][d] = layout.strides[k][d];
  }
  a.p = in_both_forms(parameters.p);
  a.q = in_both_forms(parameters.q);
  a.draw = draw;
  a.first = o.first;
  return a;
}

void set_sizes(KernelArgs& a, const std::int64_t* sizes) {
  for (int d = 1; d < a.rank; ++d) a.sizes[d] = Divider(static_cast<std::uint32_t>(sizes[d]));
}

// One launch per 2^30 elements: the longest axis is cut in two until the pieces fit.
void launch_elements(const char* op, Kernel kernel, int row, const Layout& layout, Operands operands,
                     const Parameters& parameters, const Draw& draw) {
  if (layout.numel > kMostElements) {
    int axis = 0;
    for (int d = 1; d < layout.rank; ++d)
      if (layout.sizes[d] > layout.sizes[axis]) axis = d;
    Layout half = layout;
    const std::int64_t size = layout.sizes[axis];
    half.sizes[axis] = size / 2;
    half.numel = layout.numel / size * half.sizes[axis];
    launch_elements(op, kernel, row, half, operands, parameters, draw);
    operands.advance(layout, axis, half.sizes[axis]);
    half.sizes[axis] = size - size / 2;
    half.numel = layout.numel / size * half.sizes[axis];
    return launch_elements(op, kernel, row, half, operands, parameters, draw);
  }
  KernelArgs a = arguments(layout, operands, parameters, draw);
  set_sizes(a, layout.sizes);
  a.count = layout.numel;
  a.row = row;
  a.per_thread = steps_per_thread(a.count, kElementUnroll);
  gpu::launch_waiting(op, kernel, gpu::blocks_for(op, a.count, kBlockThreads * a.per_thread), kBlockThreads,
                      0, a);
}

// True if every row of every operand is made of whole chunks of `v` elements that can be moved at once.
bool rows_are_chunks(const Layout& layout, const Operands& o, std::int64_t v) {
  const int inner = layout.rank - 1;
  if (layout.rank > 1 && (layout.sizes[inner] % v != 0 || layout.numel / v >= std::int64_t{1} << 31))
    return false;
  for (int k = 0; k < o.count; ++k) {
    const std::int64_t stride = layout.strides[k][inner];
    if (!o.data[k] || (k >= o.outputs && stride == 0)) continue;  // nothing, or one number per row
    if (stride != 1 || !gpu::is_aligned(o.data[k], static_cast<std::size_t>(v) * o.size[k])) return false;
    for (int d = 0; d < inner; ++d)
      if (layout.strides[k][d] % v != 0) return false;
  }
  return true;
}

}  // namespace

void run_cuda(const char* op, const CudaKernels& kernels, Tensor& out, std::span<const Tensor* const> inputs,
              const Parameters& parameters) {
  const Tensor* outputs[] = {&out};
  run_cuda(op, kernels, outputs, inputs, parameters);
}

void run_cuda(const char* op, const CudaKernels& kernels, std::span<const Tensor* const> outputs,
              std::span<const Tensor* const> given, const Parameters& parameters, const Draw* drawn) {
  const PackedInputs contiguous_inputs(given);
  const std::span<const Tensor* const> inputs = contiguous_inputs;
  Layout layout = make_layout(outputs, inputs);
  if (layout.numel == 0) return;
  const Draw draw = drawn ? *drawn : Draw{};
  CT_ASSERT(!drawn || layout.rank == 1);
  Operands operands{};
  operands.outputs = static_cast<int>(outputs.size());
  for (const auto& tensors : {outputs, inputs})
    for (const Tensor* t : tensors) {
      const int k = operands.count++;
      if (absent(t)) continue;
      operands.data[k] = static_cast<char*>(t->raw_data());
      operands.size[k] = size_of(t->dtype());
      operands.dtypes[k] = static_cast<std::uint8_t>(t->dtype());
    }
  const DType dtype = dtype_of_call(inputs);
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
  if (!vector || !rows_are_chunks(layout, operands, v) || (tail && layout.numel < kWorthTail))
    return launch_elements(op, element, kernels.row, layout, operands, parameters, draw);

  KernelArgs a = arguments(layout, operands, parameters, draw);
  std::int64_t sizes[kMaxRank];
  std::copy_n(layout.sizes, layout.rank, sizes);
  sizes[inner] /= v;
  for (int k = 0; k < operands.count; ++k) a.strides[k][inner] *= v;
  set_sizes(a, sizes);
  a.count = layout.numel / v;
  a.per_thread = steps_per_thread(a.count, kernels.unroll);
  gpu::launch_waiting(op, vector, gpu::blocks_for(op, a.count, std::int64_t{kBlockThreads} * a.per_thread),
                      kBlockThreads, 0, a);
  if (tail) {  // one axis, of which the last elements are left
    operands.advance(layout, 0, layout.numel - tail);
    layout.sizes[0] = layout.numel = tail;
    launch_elements(op, element, kernels.row, layout, operands, parameters, draw);
  }
}

}  // namespace ct::map
