#include <cotangent/core/cuda/device_error.h>
#include <cotangent/ops/loss/class_loss_internal.h>
#include <cotangent/ops/loss/nll_loss_internal.h>
#include <cotangent/ops/loss/loss_cuda.cuh>

namespace ct::nll_loss_kernels {
namespace {

using loss::ClassLayout;
using loss::Labels;

constexpr IndexSite kSite{"nll_loss", IndexKind::class_label};

template <class T>
struct Rows {
  ClassLayout layout;
  Labels labels;
  const T* weight;  // null: 1
  std::int64_t ignore_index;
  ct::detail::DeviceErrors* errors;
  IndexSite site;  // filled in by the host, whose address of the op's name it must hold

  __device__ bool counts(std::int64_t label) const {
    return label != ignore_index && label >= 0 && label < layout.classes;
  }
  __device__ compute_t<T> weight_of(std::int64_t label) const {
    return weight ? gpu::to_compute(weight[label]) : compute_t<T>(1);
  }
};

// Rows with a label out of range are reported and count as ignored.
template <class T>
__global__ void __launch_bounds__(loss::kReduceThreads)
    nll_kernel(Rows<T> rows, const T* x, T* each, loss::Sums<T> sums) {
  using C = compute_t<T>;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x, count = rows.layout.rows();
  C total = 0, weights = 0;
  for (long long r = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; r < count; r += step) {
    const std::int64_t label = rows.labels[r];
    C value = 0;
    if (rows.counts(label)) {
      const C w = rows.weight_of(label);
      value = -w * gpu::to_compute(x[rows.layout.start(r) + label * rows.layout.inner]);
      total += value;
      weights += w;
    } else if (label != rows.ignore_index) {
      gpu::report_index_error(rows.errors, rows.site, label, rows.layout.classes);
    }
    if (each) each[r] = gpu::from_compute<T>(value);
  }
  if (!each) sums.finish(total, weights);
}

// Every element of dx is written once: zero but in the label's column.
template <class T>
__global__ void __launch_bounds__(loss::kThreads)
    nll_gradient_kernel(Rows<T> rows, const T* g, bool each, const compute_t<T>* divisor, T* dx) {
  using C = compute_t<T>;
  const ClassLayout& layout = rows.layout;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x, count = layout.count();
  for (long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; e < count; e += step) {
    const long long d = e % layout.inner, q = e / layout.inner;
    const long long c = q % layout.classes, r = q / layout.classes * layout.inner + d;
    const std::int64_t label = rows.labels[r];
    C value = 0;
    if (label == c && label != rows.ignore_index) {
      const C scale = gpu::to_compute(g[each ? r : 0]);
      value = -rows.weight_of(label) * (divisor ? scale / *divisor : scale);
    }
    dx[e] = gpu::from_compute<T>(value);
  }
}

void forward_cuda(const Forward& f) {
  const auto& attrs = f.attrs<NllLossAttrs>();
  const Tensor &x = f.in(0), &target = f.in(1), &weight = f.in(2);
  visit_floating("nll_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const Rows<T> rows{
        ClassLayout(x.shape()), Labels(target),      weight.defined() ? weight.data<T>() : nullptr,
        attrs.ignore_index,     gpu::index_errors(), kSite};
    const bool each = attrs.reduction == Reduction::none, mean = attrs.reduction == Reduction::mean;
    if (each && rows.layout.rows() == 0) return;
    loss::reduce<T>("nll_loss", loss::sum_blocks(rows.layout.rows()), !each,
                    {nullptr, C(mean ? 0 : 1), f.out().data<T>(), mean ? f.out(1).data<C>() : nullptr},
                    [&](unsigned blocks, const loss::Sums<T>& sums) {
                      gpu::launch("nll_loss", nll_kernel<T>, blocks, loss::kReduceThreads, 0, rows,
                                  x.data<T>(), each ? f.out().data<T>() : nullptr, sums);
                    });
  });
}

void backward_cuda(const Backward& b) {
  const auto& attrs = b.attrs<NllLossAttrs>();
  const Tensor &target = b.in(1), &g = b.grad(), &weight = b.saved_inputs[2];
  const Tensor& dx = b.grad_in(0);
  visit_floating("nll_loss", dx.dtype(), [&]<class T>(TypeTag<T>) {
    const Rows<T> rows{ClassLayout(dx.shape()), Labels(target), weight.defined() ? weight.data<T>() : nullptr,
                       attrs.ignore_index,      nullptr,        kSite};
    const compute_t<T>* divisor =
        attrs.reduction == Reduction::mean ? b.out(1).data<compute_t<T>>() : nullptr;
    gpu::launch("nll_loss", nll_gradient_kernel<T>, gpu::grid_stride_blocks(dx.numel(), loss::kThreads),
                loss::kThreads, 0, rows, g.data<T>(), attrs.reduction == Reduction::none, divisor,
                dx.data<T>());
  });
}

}  // namespace
}  // namespace ct::nll_loss_kernels

CT_KERNELS(cuda, nll_loss, {"nll_loss", nll_loss_kernels::forward_cuda, nll_loss_kernels::backward_cuda})
