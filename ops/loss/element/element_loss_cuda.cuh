#pragma once

#include <string>

#include <cotangent/ops/loss/element/element_loss_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>
#include <cotangent/ops/loss/element/sum_elements.cuh>

// Losses that compare two tensors element by element on a GPU; the twin of element_loss_cpu.h.

// Text of the kernels (losses_text_cuda.cpp).
extern "C" [[gnu::visibility("hidden")]] const char cotangent_loss_elements[];

namespace ct::loss {

/// The forward kernel of a loss by formula F. loss_of(TypeTag<T>) gives its losses as they are summed, a loss::ROOM::Loss<T>.
template <class F, class LossOf>
bool forward_cuda(const Forward& f, Reduction reduction, const detail::Around* around, const char* room,
                  const LossOf& loss_of) {
  if (reduction == Reduction::none) return map::forward_cuda<F, true, false>(f), true;
  bool done = true;
  visit_floating(f.op.name, f.out().dtype(), [&]<class T>(TypeTag<T> tag) {
    const T *x = f.in(0).data<T>(), *t = f.in(1).data<T>();
    const long long n = f.in(0).numel();
    const bool vectors = gpu::is_aligned(x, 16) && gpu::is_aligned(t, 16);
    const auto loss = loss_of(tag);
    using Loss = std::remove_cv_t<decltype(loss)>;
    const compute_t<T> divisor = reduction == Reduction::mean ? static_cast<compute_t<T>>(n) : 1;
    const auto launch = [&](unsigned blocks, const Sums<T>& sums) {
      const SumCall<T, Loss> call{x, t, n, vectors ? n / gpu::Vector<T>::size : 0, loss, sums};
      if (!around)
        return gpu::launch_waiting(f.op.name, sum_kernel<T, Loss>, blocks, kReduceThreads, 0, call);
      const std::string element = detail::type_text<T>();
      const detail::KernelText text{
          cotangent_loss_elements,
          "loss::sum_elements(a, load)",
          "loss::SumCall<" + element + ", loss::" + room + "::Loss<" + element + ">>",
          vectors ? gpu::Vector<T>::size : 1,
          true,
          false};
      done = around->launch(f.op.name, text, blocks, kReduceThreads, 1, 0, &call, sizeof call);
    };
    reduce<T>(f.op.name, sum_blocks(n), true, {nullptr, divisor, f.out().data<T>()}, around, launch);
  });
  return done;
}

/// The backward kernel, from formula F of g, x, t and what else there is, with p of share_of().
template <class F>
void backward_cuda(const Backward& b, Reduction reduction) {
  const Shape& shape = b.in_meta(0).shape;
  map::joint_gradients<F>(b, b.grad(), shape, [&](auto outputs, auto inputs) {
    map::run_cuda(b.op.name, map::value_kernels<F, true, false>(), outputs, inputs,
                  {share_of(reduction, numel(shape)), 0});
  });
}

}  // namespace ct::loss
