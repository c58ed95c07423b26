#include <algorithm>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/nn/capture/fusion_internal.h>

// Groups as observers see them, and the account of a plan for people.

namespace ct::capture_impl {
namespace {

struct Attrs {
  const FusedCalls* group;
};

void forward(const Forward& f) {
  InlineVector<const Tensor*, 8> outputs;
  for (const Tensor& t : f.outputs) outputs.emplace_back(&t);
  const FusedCalls& group = *f.attrs<Attrs>().group;
  if (group.rows && (group.rows->sums || f.out().device().is_cuda())) {
    run_whole(group, f.inputs, f.outputs, detail::Around::Ask::run);
    return;
  }
  if (group.rows) return run_rows(group, f.inputs, f.outputs);
  CT_CHECK(map::chain::run(group.program, {outputs.begin(), outputs.size()}, f.inputs), Error, "fused",
           "the kernel of a group is gone");
}

Cost cost(std::span<const TensorMeta>, std::span<const TensorMeta> outputs, AttrsView attrs) {
  const FusedCalls& group = *static_cast<const Attrs*>(attrs.data)->group;
  const Shape& shape = group.rows ? group.rows->shape : outputs[0].shape;
  return {.flops = static_cast<double>(group.steps()) * static_cast<double>(numel(shape))};
}

constexpr InputDef kTensors[] = {{.name = "tensors", .gradient = false, .any_dtype = true, .rest = true}};
constexpr OutputDef kResults[] = {{.name = "results", .gradient = false, .rest = true}};

constexpr OpDef k_fused_calls = checked({
    .name = "fused",
    .formula = "several calls of a captured step in one pass",
    .inputs = kTensors,
    .outputs = kResults,
    .infer = [](Infer&) {},
    .cpu = {forward, nullptr},
    .cuda = {forward, nullptr},
    .dtypes = kAllTypes,
    .cost = cost,
});

std::size_t bytes_of(const Place& p) { return static_cast<std::size_t>(numel(p.shape)) * size_of(p.dtype); }

}  // namespace

void run_fused(const FusedCalls& group, std::span<const Tensor* const> inputs, std::span<Tensor> outputs) {
  const Attrs attrs{&group};
  const Forward call{k_fused_calls, inputs, outputs, {&attrs, sizeof attrs}};
  observed(call, forward);
}

std::string FusedCalls::name(const std::vector<RecordedCall>& list) const {
  std::string text = "fused(";
  for (const std::size_t i : calls) text += (i == calls.front() ? "" : ", ") + list[i].name();
  return text + ')';
}

const FusedCalls* FusionPlan::ending_with(std::size_t i) const {
  const std::size_t g = group_of[i];
  return g != kNone && groups[g].calls.back() == i ? &groups[g] : nullptr;
}

bool FusionPlan::any() const {
  return std::ranges::any_of(group_of, [](std::size_t g) { return g != kNone; });
}

void FusionPlan::dissolve(std::size_t k, const char* why) {
  for (const std::size_t i : groups[k].calls) group_of[i] = kNone, reasons[i] = why;
}

std::string explain(const FusionPlan& plan, const std::vector<RecordedCall>& calls) {
  std::size_t alone = 0, groups = 0;
  std::string text, apart;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (plan.group_of[i] == FusionPlan::kNone) {
      ++alone;
      apart += cat("  call ", i, ", ", calls[i].name(), ": ", plan.reasons[i], '\n');
    }
    const FusedCalls* const group = plan.ending_with(i);
    if (!group) continue;
    ++groups;
    std::size_t together = 0, one_by_one = 0;
    for (const auto* list : {&group->inputs, &group->outputs})
      for (const Place& p : *list) together += bytes_of(p);
    std::string members;
    for (const std::size_t m : group->calls) {
      calls[m].for_each_place([&](const Place& p) { one_by_one += bytes_of(p); });
      members += cat("  call ", m, ", ", calls[m].name(), '\n');
    }
    const Place& y = group->outputs[0];
    text += cat("one pass over ", group->rows ? "rows of " : "", ct::name(y.dtype), ' ',
                group->rows ? group->rows->shape : y.shape, ", ", group->steps(), " steps, ", together,
                " bytes where its calls move ", one_by_one, ":\n", members);
  }
  return cat(calls.size(), " calls, of which ", calls.size() - alone, " run as ", groups,
             groups == 1 ? " pass\n" : " passes\n", text, apart.empty() ? "" : "not fused:\n", apart);
}

}  // namespace ct::capture_impl
