#include <cotangent/nn/convolution.h>

#include <cmath>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>

namespace ct::nn {
namespace detail {

ConvolutionLayer::ConvolutionLayer(const char* kind, std::int64_t in, std::int64_t out, const Shape& kernel,
                                   std::int64_t groups, bool transposed, bool bias, DType dtype,
                                   Device device) {
  CT_CHECK(groups >= 1, ValueError, kind, "groups is ", groups, "; it must be at least 1");
  CT_CHECK(in >= 0 && out >= 0 && in % groups == 0 && out % groups == 0, ShapeError, kind, "got ", in,
           " and ", out, " channels in ", groups,
           " groups; both must be multiples of groups, and at least 0");
  for (const std::int64_t size : kernel)
    CT_CHECK(size >= 1, ShapeError, kind, "the kernel is ", kernel, "; its sizes must be at least 1");
  describe_as(kind, ct::detail::cat(in, ", ", out, ", kernel=", kernel,
                                    groups == 1 ? "" : ", groups=", groups == 1 ? "" : std::to_string(groups),
                                    ", bias=", bias ? "true" : "false"));
  Shape weight{transposed ? in : out, (transposed ? out : in) / groups};
  for (const std::int64_t size : kernel) weight.push_back(size);
  weight_ = parameter("weight", Tensor::allocate(weight, dtype, device));
  bias_ = parameter("bias", bias ? Tensor::allocate({out}, dtype, device) : Tensor());
  reset_parameters();
}

void ConvolutionLayer::reset_parameters() {
  const Tensor& weight = weight_;
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.0), .nonlinearity = init::Nonlinearity::leaky_relu});
  if (!bias_.defined()) return;
  double fan = 1;
  for (int i = 1; i < weight.dim(); ++i) fan *= static_cast<double>(weight.size(i));
  const double bound = fan > 0 ? 1 / std::sqrt(fan) : 0;
  init::uniform_(bias_, -bound, bound);
}

}  // namespace detail

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size, Conv1dOptions o)
    : ConvolutionLayer("Conv1d", in_channels, out_channels, {kernel_size}, o.groups, false, o.bias, o.dtype,
                       o.device),
      options_{o.stride, o.padding, o.dilation, o.groups} {}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel_size, Conv2dOptions o)
    : ConvolutionLayer("Conv2d", in_channels, out_channels, {kernel_size.height, kernel_size.width}, o.groups,
                       false, o.bias, o.dtype, o.device),
      options_{o.stride, o.padding, o.dilation, o.groups} {}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel_size,
                                 ConvTranspose2dOptions o)
    : ConvolutionLayer("ConvTranspose2d", in_channels, out_channels, {kernel_size.height, kernel_size.width},
                       o.groups, true, o.bias, o.dtype, o.device),
      options_{o.stride, o.padding, o.output_padding, o.groups, o.dilation} {}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                                 std::int64_t kernel_size, ConvTranspose1dOptions o)
    : ConvolutionLayer("ConvTranspose1d", in_channels, out_channels, {kernel_size}, o.groups, true, o.bias,
                       o.dtype, o.device),
      options_{o.stride, o.padding, o.output_padding, o.groups, o.dilation} {}

}  // namespace ct::nn
