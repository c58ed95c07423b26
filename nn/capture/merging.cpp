#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <cotangent/nn/capture/assembly_internal.h>
#include <cotangent/nn/capture/program_internal.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/loss/classes/cross_entropy_internal.h>
#include <cotangent/ops/update/update_internal.h>

// Calls of a step that a kernel of another one does along with its own, to the same bits: a loss whose cotangent is known has
// its gradient in one, a step of an optimizer clips the gradients that it reads anyhow. A call that moves behind others is one
// that none of them tells: by addresses, as in groups (assembly.cpp).

namespace ct::capture_impl {
namespace {

std::size_t occupied(const Place& p) {
  return static_cast<std::size_t>(ct::numel(p.shape)) * size_of(p.dtype);
}

class Merger {
 public:
  Merger(std::vector<RecordedCall>& calls, const std::unordered_set<std::uint64_t>& passing)
      : calls_(calls), passing_(passing) {}

  std::vector<Tensor> run() && {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      keep_constant(i);
      merge_loss(i);
      count_blocks(i);
      merge_clip(i);
      merge_rounding(i);
    }
    return std::move(own_);
  }

 private:
  bool runs(std::size_t i) const { return calls_[i].runs == RecordedCall::Runs::each; }

  // Whether a call that reads and writes these places, as call i does, may as well be made at call j.
  bool may_move(std::size_t i, std::size_t j, std::span<const Place> read,
                std::span<const Place> written) const {
    const auto meet_any = [](const Place& p, std::span<const Place> list) {
      return std::ranges::any_of(list, [&](const Place& q) { return meet(p, q); });
    };
    for (std::size_t k = i + 1; k < j; ++k) {
      if (!runs(k)) continue;
      bool meets = false;
      calls_[k].for_each_place([&](const Place& p) { meets = meets || meet_any(p, written); });
      for (const Place& p : calls_[k].results) meets = meets || meet_any(p, read);
      if (meets) return false;
    }
    return true;
  }

  // A number that the step fills a tensor of its own with, and only reads, is written once, into memory of the recording.
  void keep_constant(std::size_t i) {
    constexpr std::size_t kMost = 4096;
    RecordedCall& c = calls_[i];
    if (std::string_view(c.op->name) != "fill" || c.backward) return;
    const Place was = c.results[0];
    if (was.bytes == 0 || was.bytes > kMost || was.bytes != occupied(was) || !passing_.contains(was.storage))
      return;
    for (std::size_t k = 0; k < calls_.size(); ++k)
      for (const Place& p : calls_[k].results)
        if (k != i && p.storage == was.storage) return;
    Tensor& own = own_.emplace_back(Tensor::allocate(was.shape, was.dtype, was.device));
    const Tensor* const target[] = {&own};
    const Forward fill{*c.op, target, {&own, 1}, c.attrs.view()};
    observed(fill, c.forward_kernel);
    const Place is(own);
    for (RecordedCall& call : calls_)
      for (auto* const list : {&call.inputs, &call.outputs, &call.grads, &call.results})
        for (Place& p : *list)
          if (p.storage == was.storage) p.storage = is.storage, p.data = is.data;
    c.runs = RecordedCall::Runs::once;
  }

  // Call j is the backward of a cross_entropy.
  void merge_loss(std::size_t j) {
    RecordedCall& b = calls_[j];
    constexpr std::string_view kOp = "cross_entropy";
    if (!b.backward || b.op->name != kOp || b.flags[0] != kGradNeeded) return;
    std::size_t i = j;
    while (i-- > 0) {
      const RecordedCall& f = calls_[i];
      if (f.op == b.op && !f.backward && f.results[1].storage == b.outputs[1].storage) break;
    }
    if (i >= j) return;
    RecordedCall& f = calls_[i];
    if (!runs(i) || !may_move(i, j, f.inputs, f.results)) return;
    RecordedCall both = f;
    both.op = &k_cross_entropy_with_gradient;
    const Place& x = f.inputs[0];
    both.forward_kernel = kernels_of(*both.op, kernel_kind(*both.op, x.device, x.dtype)).forward;
    both.inputs.resize(3);
    both.inputs.push_back(b.grads[0]);
    both.results.push_back(b.results[0]);
    f.runs = RecordedCall::Runs::elsewhere;
    b = std::move(both);
  }

  // A GPU's norm is one launch where a counter lies in memory.
  void count_blocks(std::size_t i) {
    std::vector<Place>& results = calls_[i].results;
    if (calls_[i].op != &update::k_total_norm || results[0].device.is_cpu()) return;
    results.emplace_back(own_.emplace_back(zeros({1}, {.dtype = DType::i64, .device = results[0].device})));
  }

  // Call i is a clip_to_norm: the steps of its gradients take it over, if each is in one of them.
  void merge_clip(std::size_t i) {
    using namespace update;
    if (calls_[i].op != &k_clip_to_norm) return;
    const Place norm = calls_[i].inputs[0];
    std::vector<Place> left;
    for (const Place& g : calls_[i].results)
      if (g.storage != 0) left.push_back(g);
    std::vector<std::pair<std::size_t, std::vector<Place>>> steps;
    for (std::size_t j = i + 1; j < calls_.size() && !left.empty(); ++j) {
      const RecordedCall& step = calls_[j];
      if (!is_step(*step.op)) continue;
      std::vector<Place> own;
      bool others = false;
      for (std::size_t at = kShared; at < step.inputs.size(); at += step.op->inputs.back().turn) {
        const Place& g = step.inputs[at + kGrad];
        if (!step.inputs[at + kParam].defined || g.storage == 0) continue;
        const auto found = std::ranges::find_if(
            left, [&](const Place& p) { return p.storage == g.storage && p.laid_out_as(g); });
        if (found == left.end()) {
          others = true;
        } else {
          own.push_back(g);
          left.erase(found);
        }
      }
      if (own.empty()) continue;
      if (others || step.inputs[kFoundInf].defined || step.inputs[kInverseScale].defined ||
          step.inputs[kNorm].defined || !may_move(i, j, {&norm, 1}, own))
        return;
      steps.emplace_back(j, std::move(own));
    }
    if (!left.empty() || steps.empty()) return;
    for (const auto& [j, own] : steps) {
      RecordedCall& step = calls_[j];
      step.inputs[kNorm] = norm;
      step.results.insert(step.results.end(), own.begin(), own.end());
      const auto field = std::ranges::find(step.op->attributes, std::string_view("max_norm"), &AttrDef::name);
      std::memcpy(step.attrs.bytes.data() + field->offset,
                  &reinterpret_cast<const ClipAttrs*>(calls_[i].attrs.bytes.data())->max_norm,
                  sizeof(double));
    }
    calls_[i].runs = RecordedCall::Runs::elsewhere;
  }

  // Call i rounds what was there before the step, a weight, to 16 bits: the first such call does so for all, whose memory
  // nobody has touched since.
  void merge_rounding(std::size_t i) {
    RecordedCall& c = calls_[i];
    if (c.backward || c.op->name != std::string_view("copy")) return;
    const Place &source = c.inputs[0], &target = c.results[0];
    const auto plain = [](const Place& p) {
      return p.storage != 0 && p.strides == contiguous_strides(p.shape);
    };
    if (!plain(source) || !plain(target) || source.dtype != DType::f32 || !is_low_precision(target.dtype))
      return;
    for (std::size_t k = 0; k < i; ++k)
      for (const Place& p : calls_[k].results)
        if (meet(p, source)) return;
    if (rounding_ > i) return void(rounding_ = i);
    RecordedCall& first = calls_[rounding_];
    bool joins = first.results[0].dtype == target.dtype && may_move(rounding_, i, {&source, 1}, {&target, 1});
    for (auto* const list : {&first.inputs, &first.results})
      for (const Place& p : *list) joins = joins && !meet(p, target);
    if (!joins) return void(rounding_ = i);
    if (first.op != &update::k_round_all) {
      first.op = &update::k_round_all, first.attrs = {};
      first.forward_kernel = kernels_of(*first.op, kernel_kind(*first.op, target.device, DType::f32)).forward;
      first.inputs.push_back(first.results[0]);
    }
    first.inputs.insert(first.inputs.end(), {source, target});
    first.results.push_back(target);
    c.runs = RecordedCall::Runs::elsewhere;
  }

  std::vector<RecordedCall>& calls_;
  const std::unordered_set<std::uint64_t>& passing_;
  std::vector<Tensor> own_;
  std::size_t rounding_ = ~std::size_t{0};  // the last call that rounds, and may do so for others
};

}  // namespace

std::vector<Tensor> merge_calls(std::vector<RecordedCall>& calls,
                                const std::unordered_set<std::uint64_t>& passing) {
  return Merger(calls, passing).run();
}

}  // namespace ct::capture_impl
