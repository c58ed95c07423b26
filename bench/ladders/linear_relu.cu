#include "bench/ladders/linear_relu.h"

#include "bench/ladders/gemm.h"
#include "bench/ladders/gemm_pipeline.cuh"

// A layer on the GPU: y = relu(x W + b). The product is the last rung of gemm in f32; the ladder is about what comes after
// it. m, n and k are multiples of 256.

namespace ct::ladder::linear_relu {
namespace {

template <class Finish>
void product(const Call& call, Finish finish) {
  gemm::launch_pipeline<gemm::Best>(static_cast<int>(call.size(0)), static_cast<int>(call.size(1)),
                                    static_cast<int>(call.size(2)), call.input<float>(0),
                                    call.input<float>(1), call.output<float>(0), finish);
}

struct Same {
  __device__ float operator()(float sum, int) const { return sum; }
};

enum class Part { bias, relu, both };

template <Part part>
__global__ void pass_kernel(float4* y, const float4* bias, int n_4) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float4 v = y[at];
  if (part != Part::relu) {
    const float4 b = bias[at % n_4];
    v = make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
  }
  if (part != Part::bias) v = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
  y[at] = v;
}

template <Part part>
void pass(const Call& call) {
  gpu::launch("linear_relu", pass_kernel<part>, static_cast<unsigned>(call.out[0].numel() / 1024), 256, 0,
              call.output<float4>(0), call.input<float4>(2), static_cast<int>(call.size(1) / 4));
}

// Rung "three-passes". Op by op, a kernel each: the product is written, read and written with the bias, read and written
// once more with what is below 0 cut off.
void three_passes(const Call& call) {
  product(call, Same{});
  pass<Part::bias>(call);
  pass<Part::relu>(call);
}

// Rung "two-passes". Both in one kernel: y goes by once less.
void two_passes(const Call& call) {
  product(call, Same{});
  pass<Part::both>(call);
}

// Rung "fused". A thread has its numbers of y in registers when the sums are done. Bias and relu are taken there, before
// they are stored: y goes by once. That is an epilogue, and why libraries of products offer some.
struct BiasRelu {
  const float* bias;
  __device__ float operator()(float sum, int column) const { return fmaxf(sum + bias[column], 0); }
};
void fused(const Call& call) { product(call, BiasRelu{call.input<float>(2)}); }

const bool kAdded = ct::ladder::add(ladder(DeviceType::cuda, {{f32, {256, 512, 256}}},
                                           {{f32, {16384, 8192, 256}}}, three_passes, two_passes, fused));

}  // namespace
}  // namespace ct::ladder::linear_relu
