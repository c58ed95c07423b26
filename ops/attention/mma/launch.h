#pragma once

#include <algorithm>

#include <cotangent/ops/attention/mma/params.h>

// The kernels are compiled in one file per direction and dtype.

namespace ct::attention::mma {

/// Head dimensions that kernels exist for; others are padded with zeros to the next.
template <class Call>
void visit_head_dim(const Problem& p, const Call& call) {
  const int d = std::max(p.head_dim, p.value_dim);
  if (d <= 32) return call.template operator()<32>();
  if (d <= 64) return call.template operator()<64>();
  if (d <= 96) return call.template operator()<96>();
  if (d <= 128) return call.template operator()<128>();
  call.template operator()<256>();
}

void forward_bf16(const Problem& p);
void forward_f16(const Problem& p);
void backward_bf16(const BackwardProblem& p);
void backward_f16(const BackwardProblem& p);

}  // namespace ct::attention::mma
