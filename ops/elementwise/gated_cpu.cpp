#include <algorithm>

#include <cotangent/core/parallel.h>
#include <cotangent/ops/elementwise/gated_formulas_internal.h>
#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/map/math_cpu.h>

// Rows are cut into blocks that stay in the first-level cache; 16-bit elements are widened there.

namespace ct::gated {
namespace {

using reduction::kBlock;
using reduction::load_block;
using reduction::store_block;

// Calls body(row, first column, columns) for all blocks.
template <class Body>
void for_blocks(const Rows& r, const Body& body) {
  const std::int64_t blocks = chunk_count(r.columns, kBlock);
  const std::int64_t size = std::min<std::int64_t>(kBlock, r.columns);
  parallel_for(
      r.rows * blocks, std::max<std::int64_t>(1, 8192 / size), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t first = i % blocks * kBlock;
          body(i / blocks, first, static_cast<int>(std::min<std::int64_t>(kBlock, r.columns - first)));
        }
      });
}

// Calls step(i, lanes) for vectors of n elements; `lanes` is less than a whole vector in the last one only.
template <class P, class Step>
CT_INLINE void for_vectors(int n, const Step& step) {
  int i = 0;
  for (; i + P::kSize <= n; i += P::kSize) step(i, P::kSize);
  if (i < n) step(i, n - i);
}
template <class C>
CT_INLINE elementwise::Pack<C> load(const C* from, int lanes) {
  using P = elementwise::Pack<C>;
  return lanes == P::kSize ? P::load(from) : elementwise::load_first(from, lanes);
}
template <class C>
CT_INLINE void store(C* to, elementwise::Pack<C> p, int lanes) {
  using P = elementwise::Pack<C>;
  lanes == P::kSize ? p.store(to) : elementwise::store_first(to, p, lanes);
}

template <class T>
const T* row_of(const Rows& r, int input, std::int64_t row) {
  return static_cast<const T*>(r.inputs[input].raw_data()) + row * r.strides[input];
}

template <Gate kGate, class T>
void forward(const Rows& r, T* y) {
  using C = compute_t<T>;
  using P = elementwise::Pack<C>;
  for_blocks(r, [&](std::int64_t row, std::int64_t first, int n) {
    C gates[kBlock], ups[kBlock], out[kBlock];
    const C* gate = load_block<T, C>(row_of<T>(r, 0, row) + first, 1, n, gates);
    const C* up = load_block<T, C>(row_of<T>(r, 1, row) + first, 1, n, ups);
    for_vectors<P>(n, [&](int i, int lanes) {
      store(out + i, gate_of<kGate>(load(gate + i, lanes)).value * load(up + i, lanes), lanes);
    });
    store_block<T, C>(y + row * r.columns + first, 0, out, n, false);
  });
}

template <Gate kGate, class T>
void backward(const Rows& r, T* dgate, T* dup) {
  using C = compute_t<T>;
  using P = elementwise::Pack<C>;
  for_blocks(r, [&](std::int64_t row, std::int64_t first, int n) {
    C gates[kBlock], ups[kBlock], gs[kBlock], gate_out[kBlock], up_out[kBlock];
    const C* gate = load_block<T, C>(row_of<T>(r, 0, row) + first, 1, n, gates);
    const C* up = load_block<T, C>(row_of<T>(r, 1, row) + first, 1, n, ups);
    const C* g = load_block<T, C>(row_of<T>(r, 2, row) + first, 1, n, gs);
    for_vectors<P>(n, [&](int i, int lanes) {
      const GateValue<P> v = gate_of<kGate>(load(gate + i, lanes));
      const P cotangent = load(g + i, lanes);
      store(gate_out + i, cotangent * load(up + i, lanes) * v.slope, lanes);
      store(up_out + i, cotangent * v.value, lanes);
    });
    if (dgate) store_block<T, C>(dgate + row * r.columns + first, 0, gate_out, n, false);
    if (dup) store_block<T, C>(dup + row * r.columns + first, 0, up_out, n, false);
  });
}

}  // namespace

template <Gate kGate>
void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Rows rows(f.out(), {&f.in(0), &f.in(1)});
  visit_fast(f.op.name, f.out().dtype(),
             [&]<class T>(TypeTag<T>) { forward<kGate>(rows, static_cast<T*>(f.out().raw_data())); });
}

template <Gate kGate>
void backward_cpu(const Backward& b) {
  if (b.grad().numel() == 0) {
    for (const int i : {0, 1})
      if (b.needs(i)) b.grad_in(i);
    return;
  }
  const Tensor dgate = b.needs(0) ? b.grad_in(0) : Tensor{}, dup = b.needs(1) ? b.grad_in(1) : Tensor{};
  const Rows rows(dgate.defined() ? dgate : dup, {&b.in(0), &b.in(1), &b.grad()});
  visit_fast(b.op.name, b.grad().dtype(), [&]<class T>(TypeTag<T>) {
    backward<kGate>(rows, dgate.defined() ? static_cast<T*>(dgate.raw_data()) : nullptr,
                    dup.defined() ? static_cast<T*>(dup.raw_data()) : nullptr);
  });
}

}  // namespace ct::gated

#define CT_GATE(name, gate) \
  { name, gated::forward_cpu<gated::Gate::gate>, gated::backward_cpu<gated::Gate::gate> }
CT_KERNELS(cpu, gated, CT_GATE("swiglu", silu), CT_GATE("geglu", gelu), CT_GATE("geglu_tanh", gelu_tanh))
