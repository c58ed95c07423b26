#include <cotangent/ops/engine/map/map.h>

#include <algorithm>

#include <cotangent/core/device/cpu_level.h>
#include <cotangent/core/op/kernel_records.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/map/binary.h>
#include <cotangent/ops/engine/map/record.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct::map {
namespace {

constexpr std::int64_t kWorthPacking = 1 << 14;  // elements

// True if the last axis is strided and another one is not.
bool is_transposed(const Tensor& t) {
  int last = t.dim() - 1;
  while (last >= 0 && t.shape()[last] == 1) --last;
  if (last < 0 || t.strides()[last] == 0 || t.strides()[last] == 1) return false;
  for (int d = 0; d < last; ++d)
    if (t.shape()[d] > 1 && t.strides()[d] == 1) return true;
  return false;
}

}  // namespace

PackedInputs::PackedInputs(std::span<const Tensor* const> inputs) : count_(inputs.size()) {
  for (std::size_t k = 0; k < count_; ++k) {
    inputs_[k] = inputs[k];
    if (absent(inputs[k]) || inputs[k]->numel() < kWorthPacking || inputs[k]->is_contiguous() ||
        !is_transposed(*inputs[k]))
      continue;
    copies_[k] = contiguous(*inputs[k]);
    inputs_[k] = &copies_[k];
  }
}

void lay_out(const Shape& shape, std::span<const Tensor* const> operands, int& rank, std::int64_t* sizes,
             std::int64_t (*strides)[kMaxRank]) {
  const std::size_t count = operands.size();
  const auto stride = [&](std::size_t k, int axis) -> std::int64_t {
    if (absent(operands[k])) return 0;
    const Tensor& t = *operands[k];
    const int own = axis - (shape.size() - t.dim());
    return own < 0 || t.shape()[own] == 1 ? 0 : t.strides()[own];
  };
  rank = 0;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    // The last axis kept so far takes this one in if every operand's stride fits.
    const int last = rank - 1;
    bool merge = last >= 0;
    for (std::size_t k = 0; k < count && merge; ++k)
      merge = strides[k][last] == stride(k, axis) * shape[axis];
    const int at = merge ? last : rank++;
    sizes[at] = merge ? sizes[at] * shape[axis] : shape[axis];
    for (std::size_t k = 0; k < count; ++k) strides[k][at] = stride(k, axis);
  }
  if (rank == 0) {  // a single element is a row of one
    rank = 1;
    sizes[0] = 1;
    for (std::size_t k = 0; k < count; ++k) strides[k][0] = 1;
  }
}

Layout make_layout(std::span<const Tensor* const> outputs, std::span<const Tensor* const> inputs) {
  const Tensor& out = **std::find_if_not(outputs.begin(), outputs.end(), absent);
  const Tensor* tensors[kMaxOperands];
  std::copy(inputs.begin(), inputs.end(), std::copy(outputs.begin(), outputs.end(), tensors));
  Layout layout;
  layout.numel = out.numel();
  lay_out(out.shape(), {tensors, outputs.size() + inputs.size()}, layout.rank, layout.sizes, layout.strides);
  return layout;
}

const MapRecord* formulas_of(const OpDef& op) {
  return static_cast<const MapRecord*>(record_of(op, kFormulas));
}

void operand_gradient(const Backward& call, int i, std::uint32_t saves, bool passes_on, RunOne run) {
  if (!call.needs(i)) return;
  const Shape& shape = call.in_meta(i).shape;
  const Tensor& g = call.grad();
  if (saves == 0) {
    if (passes_on) return set_summed_grad(call, i, g);
    const Tensor summed = sum_to(g, shape);
    const Tensor* const inputs[] = {&summed};
    return run(call.grad_in(i), inputs);
  }
  const Tensor* inputs[kMaxInputs] = {&g};
  std::size_t count = 1;
  for (int k = 0; k < 3; ++k)
    if (saves >> k & 1u) inputs[count++] = &call.in(k);
  const std::span<const Tensor* const> operands(inputs, count);
  if (g.shape() == shape) return run(call.grad_in(i), operands);
  Tensor whole = Tensor::allocate(g.shape(), call.in_meta(i).dtype, call.in_meta(i).device);
  run(whole, operands);
  set_summed_grad(call, i, whole);
}

void joint_gradients(const Backward& call, const Tensor& g, const Shape& shape, int output_count,
                     int input_count, RunSeveral run) {
  const Tensor *outputs[kMaxOutputs], *inputs[kMaxInputs] = {&g};
  for (int k = 1; k < input_count; ++k) inputs[k] = &call.saved_inputs[static_cast<std::size_t>(k - 1)];
  Tensor whole[kMaxOutputs];  // of broadcast inputs
  bool wanted = false;
  for (int i = 0; i < output_count; ++i) {
    outputs[i] = nullptr;
    if (!call.needs(i)) continue;
    wanted = true;
    const TensorMeta& meta = call.in_meta(i);
    outputs[i] = meta.shape == shape ? &call.grad_in(i)
                                     : &(whole[i] = Tensor::allocate(shape, meta.dtype, meta.device));
  }
  if (wanted)
    run({outputs, static_cast<std::size_t>(output_count)}, {inputs, static_cast<std::size_t>(input_count)});
  for (int i = 0; i < output_count; ++i)
    if (whole[i].defined()) set_summed_grad(call, i, whole[i]);
}

}  // namespace ct::map
