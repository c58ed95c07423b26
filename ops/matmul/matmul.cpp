
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(matmul)
namespace {

// The batch part of a shape: all but its matrix (or vector).
Shape leading(const Shape& s) {
  const int matrix_axes = s.size() == 1 ? 1 : 2;
  return Shape(s.begin(), static_cast<std::size_t>(s.size() - matrix_axes));
}

void matmul_infer(Infer& in) {
  const Tensor &a = in.in(0), &b = in.in(1);
  CT_CHECK(a.dim() > 0 && b.dim() > 0, ShapeError, "matmul", "a is ", describe(a), ", b is ", describe(b),
           "; both need at least one axis: multiply by a scalar with ct::mul");
  const int b_inner = b.dim() == 1 ? -1 : -2;
  CT_CHECK(a.size(-1) == b.size(b_inner), ShapeError, "matmul", "inner dimensions differ: a is ", describe(a),
           ", b is ", describe(b), "; a.size(-1) must equal b.size(", b_inner, ")");
  Shape out = a.dim() <= 2 && b.dim() <= 2
                  ? Shape{}
                  : broadcast_shapes("matmul", leading(a.shape()), leading(b.shape()));
  if (a.dim() > 1) out.push_back(a.size(-2));
  if (b.dim() > 1) out.push_back(b.size(-1));
  in.output(out, a.dtype());
}

Cost matmul_cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  return {.flops = 2.0 * static_cast<double>(numel(out[0].shape)) * static_cast<double>(in[0].shape.back())};
}

// da = g b^T, db = a^T g, with vectors taken as a row or a column, and summed where a stack was broadcast.
void matmul_rule(const Backward& call) {
  const bool row = call.in_meta(0).shape.size() == 1, column = call.in_meta(1).shape.size() == 1;
  Tensor g = call.grad();
  if (column) g = g.unsqueeze(-1);
  if (row) g = g.unsqueeze(-2);
  const auto share = [&](int i, const Tensor& product, bool vector, std::int64_t axis) {
    Shape shape = call.in_meta(i).shape;
    if (vector) shape.insert(wrap_axis("matmul", axis, shape.size() + 1), 1);
    call.set_grad_in(i, rules::unbroadcast(product, shape).reshape(call.in_meta(i).shape));
  };
  if (call.needs(0)) {
    const Tensor b = column ? call.in(1).unsqueeze(-1) : call.in(1);
    share(0, ct::matmul(g, b.transpose(-1, -2)), row, -2);
  }
  if (call.needs(1)) {
    const Tensor a = row ? call.in(0).unsqueeze(-2) : call.in(0);
    share(1, ct::matmul(a.transpose(-1, -2), g), column, -1);
  }
}

constexpr InputDef kInputs[] = {{.name = "a", .needs = "b", .accumulates = true, .wide_grad = true},
                                {.name = "b", .needs = "a", .accumulates = true, .wide_grad = true}};
constexpr OutputDef kOutputs[] = {{.name = "y"}};

}  // namespace

constexpr OpDef k_matmul = checked({
    .name = "matmul",
    .formula = "y = a b",
    .inputs = kInputs,
    .outputs = kOutputs,
    .infer = matmul_infer,
    .kernels = &kernel_tables::matmul,
    .fast_f64 = true,
    .rule = matmul_rule,
    .low_rule = true,
    .autocast = AutocastPolicy::lower,
    .dtypes = kNumericTypes,
    .cost = matmul_cost,
});

CT_ROOM(matmul, &k_matmul)

Tensor matmul(const Tensor& a, const Tensor& b) { return dispatch(k_matmul, {a, b}); }
CT_MEMBER(Tensor, matmul, (const Tensor& b) const, b)
CT_MEMBER(Tensor, mm, (const Tensor& b) const, b)
CT_MEMBER(Tensor, bmm, (const Tensor& b) const, b)
CT_MEMBER(Tensor, dot, (const Tensor& b) const, b)

Tensor mm(const Tensor& a, const Tensor& b) {
  CT_CHECK(a.dim() == 2 && b.dim() == 2, ShapeError, "mm", "a is ", describe(a), ", b is ", describe(b),
           "; both must be matrices: use ct::matmul for other ranks");
  return matmul(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  CT_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0), ShapeError, "bmm", "a is ", describe(a),
           ", b is ", describe(b),
           "; both must have rank 3 and the same size(0): use ct::matmul for other ranks, or to broadcast");
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  CT_CHECK(a.dim() == 1 && b.dim() == 1, ShapeError, "dot", "a is ", describe(a), ", b is ", describe(b),
           "; both must be vectors: use ct::matmul for other ranks");
  return matmul(a, b);
}

}  // namespace ct
