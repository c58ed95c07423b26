#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/engine/random/fill.h>
#include <cotangent/ops/engine/scan/scan.h>
#include <cotangent/ops/engine/scatter/scatter.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine_ops_internal.h>

// A library without CUDA has these in place of the functions that host files call on CUDA tensors. Nothing gets
// here: no tensor without CUDA is on a GPU.

namespace ct {

using detail::runtime::fail_without_cuda;

void copy_cuda(const Tensor&, const Tensor&) { fail_without_cuda("copy"); }
void fill_cuda(const Tensor&, const Scalar&) { fail_without_cuda("fill"); }

namespace fold {
void sum_cuda(const Tensor&, AxisMask, const Tensor&, double, bool) { fail_without_cuda("sum"); }
}  // namespace fold

namespace scan {
void run_cuda(const Call& call, const Lines&) { fail_without_cuda(call.op); }
}  // namespace scan

namespace scattering {
void take_cuda(IndexSite site, const Selection&, std::int64_t, const Tensor&, std::int64_t, const Tensor&) {
  fail_without_cuda(site.op);
}
void add_cuda(const char* op, const IndexSite*, const Selection&, std::int64_t, const Tensor&, const Tensor&,
              bool) {
  fail_without_cuda(op);
}
void set_cuda(IndexSite site, const Selection&, std::int64_t, const Tensor&, const Tensor&) {
  fail_without_cuda(site.op);
}
}  // namespace scattering

namespace detail {
void find_non_finite_cuda(const Tensor&, const Tensor&) { fail_without_cuda("all_finite"); }
void sequence_cuda(const Tensor&, const Sequence&) { fail_without_cuda("arange"); }
void random_cuda(const Tensor&, const Draw&) { fail_without_cuda("rand"); }
}  // namespace detail

}  // namespace ct
