#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include <cotangent/core/base/dtype.h>
#include <cotangent/nn/optim/grouped.h>

namespace ct::optim {

/// Factor of a step of Muon besides lr, for a parameter [rows, columns].
enum class MuonLr {
  original,         ///< sqrt(max(1, rows / columns))
  match_rms_adamw,  ///< 0.2 sqrt(max(rows, columns)): steps as long as AdamW's, whose lr and weight_decay then serve
};

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};  ///< a, b, c below
  double eps = 1e-7;  ///< the smallest norm that is divided by
  int ns_steps = 5;
  MuonLr adjust_lr = MuonLr::original;  ///< PyTorch's adjust_lr_fn
  DType ns_dtype = bf16;                ///< dtype of Newton and Schulz's steps; PyTorch has bf16
  bool master_weights = true;           ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};
CT_API void check_options(const char* op, const MuonOptions& options);
extern template class CT_API GroupedOptimizer<MuonOptions>;

/// Muon (Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024), as torch.optim.Muon: the step
/// is the matrix of all-equal singular values that is nearest to the momentum. For matrices only; other parameters
/// (embeddings, biases, norms) need another optimizer.
///
///     m <- m + (1 - momentum) (g - m)
///     x <- g + momentum (m - g)  (nesterov),  or  m
///     x <- x / max(||x||, eps);    ns_steps times:  s = x x^T,  x <- a x + (b s + c s s) x
///     p <- (1 - lr weight_decay) p - lr adjusted x
///
/// a y + b y^3 + c y^5 takes the singular values y of x, all at once, to near 1 (between about 0.7 and 1.2).
///
/// Parameters are updated one after the other: if memory runs out within step(), some have moved.
class CT_API Muon final : public GroupedOptimizer<MuonOptions> {
 public:
  /// Throws ValueError for options out of range (lr, weight_decay, eps finite and >= 0; 0 <= momentum < 1; finite
  /// coefficients; 0 <= ns_steps < 100), ShapeError for a parameter that is no matrix, DTypeError for an ns_dtype that
  /// is not floating.
  explicit Muon(std::vector<Tensor> params, const MuonOptions& options = {});
  explicit Muon(std::vector<ParamGroup<MuonOptions>> groups);
  void add_param_group(ParamGroup<MuonOptions> group);

 private:
  int moment_count(int) const override { return 1; }
  const char* moment_name(int) const override { return "momentum_buffer"; }
  void update(int group, std::span<const int> members) override;
  bool takes_gate() const override { return false; }
};

}  // namespace ct::optim
