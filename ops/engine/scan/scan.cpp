#include <cotangent/ops/engine/scan/scan.h>

#include <cotangent/ops/engine/walk/copy.h>

// Brings a call into the few forms that the devices' kernels are written for.

namespace ct::scan {
namespace {

// The types that kernels are made for; sums of 16 bits, which are called often, are read as they are on CUDA.
DType work_type(const Call& c) {
  const DType t = c.x.dtype();
  if (!is_floating(t)) return DType::i64;
  return size_of(t) > 2 || (c.x.is_cuda() && c.kind == Kind::sum) ? t : DType::f32;
}

// [outer, inner, n] of a contiguous tensor.
Tensor turned(const Tensor& t, const Lines& l) {
  return Tensor::from_storage(t.impl()->storage, {l.outer, l.inner, l.n}, {l.n * l.inner, 1, l.inner},
                              t.storage_offset(), t.dtype());
}

}  // namespace

void run(const Call& call) {
  if (call.x.numel() == 0) return;
  Lines lines(call.x.shape(), call.axis);
  const bool cuda = call.x.is_cuda(), turns = cuda && lines.inner > 1 && lines.n > 1;
  if (cuda && lines.n == 1) lines.inner = 1, lines.outer = call.x.numel();
  Call c = call;
  const DType work = work_type(call);
  const auto given = [&](const Tensor& t) { return converted(turns ? turned(t, lines) : t, work); };
  const auto result = [&](const Tensor& t, DType dtype) {
    return t.dtype() == dtype && !turns
               ? t
               : Tensor::allocate({lines.outer, lines.inner, lines.n}, dtype, t.device());
  };
  const auto hand_over = [&](const Tensor& to, const Tensor& t) {
    if (t.is_same(to)) return;
    // Without a turn the shapes differ in the way they are cut alone.
    copy_kernel(turned(to, lines), turns ? t : turned(t, lines));
  };
  c.x = given(call.x), c.y = result(call.y, work);
  if (call.a.defined()) c.a = given(call.a);
  if (call.indices.defined()) c.indices = result(call.indices, DType::i64);
  Lines rows = lines;
  if (cuda) rows.outer *= rows.inner, rows.inner = 1;
  functions_of(kernel_tables::scans, call.x.device()).run(c, rows);
  hand_over(call.y, c.y);
  if (call.indices.defined()) hand_over(call.indices, c.indices);
}

}  // namespace ct::scan
