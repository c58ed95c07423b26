#include <cotangent/ops/attention/mma/attention.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/attention/mma/params.h>

// Calls that go to the tensor cores: 16-bit dtypes, head dimensions that are multiples of 8 up to 256, and
// rows of whole 16-byte chunks (in_chunks), which other layouts are copied into before.

namespace ct::attention {
namespace {

mma::Rows rows(const Tensor& x) { return {x.raw_data(), x.stride(0), x.stride(1), x.stride(2)}; }

// Fills in all but the tensors that only one direction has; false if the call is not for these kernels.
bool describe_call(mma::Problem& p, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                   const Attrs& attrs) {
  if (q.dtype() != DType::bf16 && q.dtype() != DType::f16) return false;
  const Extents e(q.shape(), k.shape(), v.shape());
  // Tiles of wide heads are made for the shared memory of the large GPUs, more than 100 KiB.
  const std::size_t needed = (std::max(e.dim, e.value_dim) <= 64 ? 96 : 160) * 1024;
  if (cuda_properties(q.device().index).shared_bytes_per_block < needed) return false;
  const std::array<std::int64_t, 5> sizes{e.batch, e.heads, e.queries, e.keys, e.kv_heads};
  constexpr std::int64_t most = 1 << 28;  // so that positions and offsets add up within an int
  for (const std::int64_t n : sizes)
    if (n <= 0 || n > most) return false;
  if (e.batch * e.heads > most) return false;
  for (const std::int64_t d : {e.dim, e.value_dim})
    if (d <= 0 || d > 256 || d % 8 != 0) return false;
  p.scale = static_cast<float>(attrs.scale);
  if (!(p.scale > 0)) return false;  // the largest score would not be that of the largest product
  p.dtype = q.dtype();
  p.batch = static_cast<int>(e.batch), p.heads = static_cast<int>(e.heads);
  p.kv_heads = static_cast<int>(e.kv_heads);
  p.queries = static_cast<int>(e.queries), p.keys = static_cast<int>(e.keys);
  p.head_dim = static_cast<int>(e.dim), p.value_dim = static_cast<int>(e.value_dim);
  p.causal = attrs.causal;
  p.causal_offset = static_cast<int>(std::clamp(attrs.causal_offset, -e.queries, e.keys));
  if (mask.defined()) {
    if (mask.dtype() == DType::boolean) {
      p.mask.kind = mma::MaskKind::boolean;
    } else if (mask.dtype() == DType::f32) {
      p.mask.kind = mma::MaskKind::f32;
    } else if (mask.dtype() == q.dtype()) {
      p.mask.kind = mma::MaskKind::same;
    } else {
      return false;
    }
    const Strides s = broadcast_strides(mask.shape(), mask.strides(), {e.batch, e.heads, e.queries, e.keys});
    p.mask.data = mask.raw_data();
    p.mask.batch = s[0], p.mask.head = s[1], p.mask.query = s[2], p.mask.key = s[3];
  }
  const DropRule rule(attrs);
  p.dropout.active = rule.threshold > 0;
  p.dropout.draw = rule.draw;
  p.dropout.last = static_cast<std::uint32_t>(rule.threshold > 0 ? rule.threshold - 1 : 0);
  p.dropout.scale = p.dropout.active ? static_cast<float>(rule.keep) : 1.0f;
  return true;
}

// Where q, k and v are the parts of one packed projection [B, T, 3, H, D], whose gradients are all wanted:
// sets those up as the parts of one tensor in the same order, which unbind's gradient then is without a copy.
void pack_gradients(const Backward& b) {
  const Tensor &q = b.in(0), &k = b.in(1), &v = b.in(2);
  const std::int64_t batch = q.size(0), heads = q.size(1), length = q.size(2), dim = q.size(3);
  const std::int64_t part = heads * dim, position = 3 * part;
  const Strides strides{length * position, dim, position, 1};
  if (b.grad_inputs[0].defined()) return;  // a recorded call, whose gradients lie where they did
  const Tensor* parts[3] = {&q, &k, &v};
  for (int i = 0; i < 3; ++i) {
    const Tensor& x = *parts[i];
    if (!b.needs(i) || !(x.shape() == q.shape()) || !(x.strides() == strides) ||
        !(x.impl()->storage == q.impl()->storage) || x.storage_offset() != q.storage_offset() + i * part)
      return;
  }
  const Tensor whole = Tensor::allocate({batch, length, 3, heads, dim}, q.dtype(), q.device());
  for (int i = 0; i < 3; ++i)
    b.set_grad_in(i,
                  Tensor::from_storage(whole.impl()->storage, q.shape(), strides, i * part, whole.dtype()));
}

}  // namespace

bool mma_forward(const Forward& f) {
  mma::Problem p;
  if (!describe_call(p, f.in(0), f.in(1), f.in(2), f.in(3), f.attrs<Attrs>())) return false;
  const Tensor &q = f.in(0), &k = f.in(1), &v = f.in(2);
  for (const Tensor* x : std::initializer_list<const Tensor*>{&q, &k, &v, &f.out(0)})
    if (!in_chunks(*x)) return false;
  p.q = rows(q), p.k = rows(k), p.v = rows(v), p.out = rows(f.out(0));
  p.statistics = reinterpret_cast<float2*>(f.out(1).data<float>());
  mma::run_forward(p);
  return true;
}

bool mma_backward(const Backward& b) {
  mma::BackwardProblem p;
  const Tensor& mask = b.saved_inputs[3];
  if (mask.defined() && b.needs(3)) return false;
  if (!describe_call(p, b.in(0), b.in(1), b.in(2), mask, b.attrs<Attrs>())) return false;
  const Tensor &q = b.in(0), &k = b.in(1), &v = b.in(2), &g = b.grad();
  for (const Tensor* x : std::initializer_list<const Tensor*>{&q, &k, &v, &g, &b.out(0)})
    if (!in_chunks(*x)) return false;
  p.q = rows(q), p.k = rows(k), p.v = rows(v), p.out = rows(b.out(0)), p.grad_out = rows(g);
  p.statistics = reinterpret_cast<float2*>(b.out(1).data<float>());

  pack_gradients(b);
  // The three gradients come out of one kernel; one that is not wanted goes to memory of its own.
  std::array<Tensor, 3> unwanted;
  const auto gradient = [&](int i) {
    Tensor& t = unwanted[static_cast<std::size_t>(i)];
    if (!b.needs(i)) t = Tensor::allocate(b.in_meta(i).shape, b.in_meta(i).dtype, b.in_meta(i).device);
    return rows(b.needs(i) ? b.grad_in(i) : t);
  };
  p.grad_q = gradient(0), p.grad_k = gradient(1), p.grad_v = gradient(2);

  const mma::Workspace w = mma::workspace(p);
  const Device device = q.device();
  const Tensor row_terms = Tensor::allocate({w.row_terms / 4}, f32, device);
  const Tensor partial_q = Tensor::allocate({w.partial_q / 4}, f32, device);
  const Tensor turns = Tensor::allocate({w.turns / 4}, i32, device);
  p.row_terms = row_terms.data<float>();
  p.partial_q = partial_q.data<float>();
  p.turns = turns.data<std::int32_t>();
  mma::run_backward(p);
  return true;
}

}  // namespace ct::attention
