#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/core/philox.h>

namespace ct::dropout_kernels {

struct Attrs {
  double p;
  GeneratorState draw;
};

/// What a kernel needs: element i is dropped if philox_word(draw, i) < threshold, else multiplied by scale.
struct Rule {
  GeneratorState draw;
  std::uint64_t threshold;
  double scale;

  explicit Rule(const Attrs& attrs)
      : draw(attrs.draw),
        threshold(bernoulli_threshold(attrs.p)),
        scale(attrs.p < 1 ? 1 / (1 - attrs.p) : 0) {}
};

/// y = x with elements dropped: of an input in forward, of the cotangent in backward. Both contiguous.
void apply_cpu(const Tensor& x, const Tensor& y, const Rule& rule);
void apply_cuda(const Tensor& x, const Tensor& y, const Rule& rule);

}  // namespace ct::dropout_kernels
