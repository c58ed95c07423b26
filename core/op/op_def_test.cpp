#include <algorithm>
#include <string>
#include <vector>

#include <cotangent/core/op/registry.h>

#include "tests/catch.h"

// An OpDef's description of itself at run time.

using namespace ct;

namespace {

enum class Way : std::uint8_t { none, mean, sum };
struct Attrs {
  std::int64_t axis;
  bool keepdim;
  double p;
  Scalar value;
  Way way;
  Dims shape;
  DType dtype;
  Device device;
};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axis),
                                   CT_ATTRIBUTE(Attrs, keepdim),
                                   CT_ATTRIBUTE(Attrs, p),
                                   CT_ATTRIBUTE(Attrs, value),
                                   CT_ATTRIBUTE(Attrs, way, "none mean sum"),
                                   CT_ATTRIBUTE(Attrs, shape),
                                   CT_ATTRIBUTE(Attrs, dtype),
                                   CT_ATTRIBUTE(Attrs, device)};
constexpr InputDef kInputs[] = {
    {.name = "w", .needs = "xs y", .accumulates = true},
    {.name = "index", .gradient = false, .any_dtype = true},
    {.name = "xs", .needs = "w", .optional = true, .rest = true},
};
constexpr OutputDef kOutputs[] = {{.name = "y"}, {.name = "statistics", .gradient = false}};

void nothing(Infer&) {}
void no_kernel(const Forward&) {}
void no_gradient(const Backward&) {}
constexpr OpDef k_op = checked({.name = "described",
                                .formula = "y = w x",
                                .inputs = kInputs,
                                .outputs = kOutputs,
                                .attributes = kAttributes,
                                .infer = nothing,
                                .cpu = {no_kernel, no_gradient}});

}  // namespace

TEST_CASE("an OpDef names its inputs and outputs", "[op_def]") {
  CHECK(input_name(k_op, 0) == "w");
  CHECK(input_name(k_op, 1) == "index");
  CHECK(input_name(k_op, 2) == "xs[0]");
  CHECK(input_name(k_op, 40) == "xs[38]");
  CHECK(output_name(k_op, 1) == "statistics");
}

TEST_CASE("an OpDef's records become what dispatch and the tape read", "[op_def]") {
  CHECK(k_op.differentiable);
  CHECK(k_op.differentiable_inputs == 0xfffffffdu);
  CHECK(k_op.differentiable_outputs == 1);
  CHECK(k_op.accumulates == 1);
  CHECK(k_op.free_dtype_inputs == 2);
  CHECK(k_op.optional_inputs == 0xfffffffcu);
  CHECK(saves_of(k_op, 0).inputs == 0xfffffffcu);
  CHECK(saves_of(k_op, 0).outputs == 1);
  CHECK(saves_of(k_op, 1).inputs == 0);
  for (const std::size_t i : {2, 3, 100}) CHECK(saves_of(k_op, i).inputs == 1);
}

TEST_CASE("a shape rule that declares too many outputs is refused", "[op_def]") {
  Infer infer(k_op, {}, {});
  for (int k = 0; k < kMaxOutputs; ++k) infer.output({2}, f32);
  CHECK_THROWS_WITH(infer.output({2}, f32), Catch::Contains("[described]") && Catch::Contains("more than 4"));
  CHECK(infer.output_count() == kMaxOutputs);
}

TEST_CASE("an op's cost moves every tensor once, or is what the op says", "[op_def]") {
  const std::vector<TensorMeta> in = {{{2, 3}, f32, cpu}, {{5}, i64, cpu}}, out = {{{4, 3}, f16, cpu}};
  CHECK(bytes_of(in) == 2 * 3 * 4 + 5 * 8);
  OpDef op = k_op;
  CHECK(cost_of(op, in, out, {}).flops == 0);
  CHECK(cost_of(op, in, out, {}).bytes == 24 + 40 + 24);
  op.flops_each = 5;
  CHECK(cost_of(op, in, out, {}).flops == 5 * 12);  // of the largest tensor
  op.cost = [](std::span<const TensorMeta>, std::span<const TensorMeta>, AttrsView) {
    return Cost{.flops = 7};
  };
  CHECK(cost_of(op, in, out, {}).flops == 7);
  CHECK(cost_of(op, in, out, {}).bytes == 88);
  op.cost = gather_cost;
  CHECK(cost_of(op, in, out, {}).flops == 0);
  CHECK(cost_of(op, in, out, {}).bytes == 40 + 2 * 24);
  op.view = true;
  CHECK(cost_of(op, in, out, {}).bytes == 0);
}

TEST_CASE("attributes of a call are told by name", "[op_def]") {
  const Attrs attrs{-1, true, 0.25, 3, Way::sum, {2, 3}, f16, cpu};
  CHECK(describe_attributes(k_op, attrs) ==
        "axis = -1, keepdim = true, p = 0.25, value = 3, way = sum, shape = [2, 3], dtype = f16, "
        "device = cpu");
  CHECK(describe_attributes(k_op, {}) == "");
}

TEST_CASE("every op of the library has names of its own for what it takes and gives", "[op_def]") {
  for (const OpDef* op : registry()) {
    INFO(op->name);
    REQUIRE_FALSE(op->inputs.empty());
    REQUIRE_FALSE(op->outputs.empty());
    std::vector<std::string> names;
    for (const InputDef& in : op->inputs) names.emplace_back(in.name);
    for (const OutputDef& out : op->outputs) names.emplace_back(out.name);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
    for (const AttrDef& attr : op->attributes) CHECK(std::size_t{attr.offset} + attr.size <= kMaxAttrBytes);
  }
}
