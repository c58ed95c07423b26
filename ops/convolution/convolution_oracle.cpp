#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/convolution/convolution_plain.h>

// The plain kernels: oracles alone, the fast ones run in f64 as well.

namespace ct::plain {
namespace {

void run(const convolution::Job& job) {
  using convolution::Part;
  double *x = job.data<double>(Part::x), *w = job.data<double>(Part::weight), *y = job.data<double>(Part::y);
  double* const out = job.data<double>(job.result);
  const Shape& shape = job.out().shape();
  const std::int64_t pixels = shape[2] * shape[3];
  for (std::int64_t i = 0; i < job.out().numel(); ++i)
    if (!job.accumulate) out[i] = job.bias ? job.bias->data<double>()[i / pixels % shape[1]] : 0;
  if (job.result == Part::y) return convolve(job.g, x, w, y);
  if (job.result == Part::x) return input_gradient(job.g, x, w, y);
  weight_gradient(job.g, x, w, y);
}

}  // namespace
}  // namespace ct::plain

CT_KERNELS(oracle, convolution, CT_CONVOLUTION_KERNELS(plain::run))
