#include <cotangent/ops/rotary/rotary_embedding.h>

#include <cmath>

#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/rotary/rotary_embedding_internal.h>

namespace ct {
CT_KERNEL_TABLES(rotary_embedding)
namespace rotary {
namespace {

// Every step is rounded to C: in f32 the frequencies are those that models in f32 were trained with.
template <class C>
C frequency(const RotaryOptions& options, std::int64_t turned, std::int64_t pair) {
  const C exponent = static_cast<C>(2 * pair) / static_cast<C>(turned);
  const C power = static_cast<C>(
      std::pow(static_cast<double>(static_cast<C>(options.base)), static_cast<double>(exponent)));
  const C plain = C(1) / power;
  const RotaryScaling& s = options.scaling;
  const C factor = static_cast<C>(s.factor);
  if (s.kind == RotaryScaling::Kind::none) return plain;
  if (s.kind == RotaryScaling::Kind::linear) return plain / factor;
  const C length = static_cast<C>(s.original_length), low = static_cast<C>(s.low_frequency_factor),
          high = static_cast<C>(s.high_frequency_factor);
  const C wave = static_cast<C>(2 * 3.14159265358979323846) / plain;
  if (wave > length / low) return plain / factor;
  if (wave < length / high) return plain;
  const C smooth = (length / wave - low) / (high - low);
  return (C(1) - smooth) * plain / factor + smooth * plain;
}

bool same(const RotaryOptions& a, const RotaryOptions& b) {
  return a.base == b.base && a.scaling.kind == b.scaling.kind && a.scaling.factor == b.scaling.factor &&
         a.scaling.low_frequency_factor == b.scaling.low_frequency_factor &&
         a.scaling.high_frequency_factor == b.scaling.high_frequency_factor &&
         a.scaling.original_length == b.scaling.original_length;
}

}  // namespace

template <class C>
const Frequencies<C>& frequencies(const RotaryOptions& options, std::int64_t turned) {
  struct Remembered {
    RotaryOptions options;
    std::int64_t turned = -1;
    Frequencies<C> values;
  };
  Remembered& last = per_thread<Remembered>();
  if (last.turned != turned || !same(last.options, options)) {
    for (std::int64_t i = 0; i < turned / 2; ++i) last.values.of[i] = frequency<C>(options, turned, i);
    last.options = options;
    last.turned = turned;
  }
  return last.values;
}
template const Frequencies<float>& frequencies(const RotaryOptions&, std::int64_t);
template const Frequencies<double>& frequencies(const RotaryOptions&, std::int64_t);

Call::Call(const char* op, const Tensor& from, const Tensor& positions, const Tensor& y, const Attrs& attrs,
           bool back)
    : op(op), x(from), y(y), positions(positions), back(back), options(attrs.options) {
  const int rank = x.dim();
  columns = x.size(-1);
  length = x.size(-2);
  pairs = attrs.turned(columns) / 2;
  position_stride = positions.dim() == 2 ? length : 0;
  for (int i = rank - 3; i >= 1; --i) {
    if (x.size(i) == 1) continue;
    if (heads == 1) head_stride = x.stride(i);
    heads *= x.size(i);
  }
  if (rank >= 3) batch = x.size(0);
  row_stride = x.stride(-2);
  if (rank >= 3) batch_stride = x.stride(0);
}

}  // namespace rotary

namespace {

using rotary::Attrs;

// Rows lie together, and the axes between the batch and T are one to the kernels: from the innermost of them outwards,
// each begins where the one before it ends.
bool readable(const Tensor& x) {
  std::int64_t heads = 1, stride = 0;
  for (int i = x.dim() - 3; i >= 1; --i) {
    if (x.size(i) == 1) continue;
    if (heads == 1) stride = x.stride(i);
    if (x.stride(i) != stride * heads) return false;
    heads *= x.size(i);
  }
  return x.size(-1) <= 1 || x.stride(-1) == 1;
}

void infer(Infer& in) {
  const Tensor &x = in.in(0), &positions = in.in(1);
  const RotaryOptions& options = in.attrs<Attrs>().options;
  CT_CHECK(x.dim() >= 2, ShapeError, in.op.name, "x is ", describe(x), "; it must be [..., T, D]");
  CT_CHECK(positions.dtype() == DType::i64 || positions.dtype() == DType::i32, DTypeError, in.op.name,
           "positions is ", describe(positions), "; positions must be i64 or i32: convert with .to(i64)");
  const bool shared = positions.dim() == 1 && positions.size(0) == x.size(-2);
  const bool own = positions.dim() == 2 && x.dim() >= 3 && positions.size(0) == x.size(0) &&
                   positions.size(1) == x.size(-2);
  CT_CHECK(shared || own, ShapeError, in.op.name, "positions is ", describe(positions), ", x is ",
           describe(x), "; positions must be [", x.size(-2), "], one per row of x's last two axes",
           x.dim() >= 3 ? ", or have x's first axis in front" : "");
  const std::int64_t turned = in.attrs<Attrs>().turned(x.size(-1));
  CT_CHECK(turned >= 0 && turned % 2 == 0 && turned <= x.size(-1) && turned <= kMaxRotaryDim, ValueError,
           in.op.name, "rotary_dim is ", turned, ", x is ", describe(x),
           "; it must be even, at most x.size(-1) and at most ", kMaxRotaryDim);
  const RotaryScaling& s = options.scaling;
  CT_CHECK(options.base > 0 && std::isfinite(options.base), ValueError, in.op.name, "base is ", options.base,
           "; it must be positive and finite");
  if (s.kind != RotaryScaling::Kind::none)
    CT_CHECK(s.factor > 0 && std::isfinite(s.factor), ValueError, in.op.name, "scaling.factor is ", s.factor,
             "; it must be positive and finite");
  if (s.kind == RotaryScaling::Kind::llama3)
    CT_CHECK(s.low_frequency_factor > 0 && s.high_frequency_factor > s.low_frequency_factor &&
                 std::isfinite(s.high_frequency_factor) && s.original_length > 0,
             ValueError, in.op.name, "scaling has low_frequency_factor ", s.low_frequency_factor,
             ", high_frequency_factor ", s.high_frequency_factor, " and original_length ", s.original_length,
             "; all must be positive and finite, and the second larger than the first");
  in.output(x.shape(), x.dtype());
}

// The cotangent turned back: by the angles of the negative positions.
void rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, ct::rotary_embedding(b.grad(), neg(b.in(1)), b.attrs<Attrs>().options));
}

constexpr InputDef kInputs[] = {
    {.name = "x", .needs = "positions", .contiguous = true, .readable = readable},
    {.name = "positions", .gradient = false, .any_dtype = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true, .readable = readable}};
constexpr AttrDef kAttributes[] = {
    CT_ATTRIBUTE(Attrs, options.base),
    CT_ATTRIBUTE(Attrs, options.interleaved),
    CT_ATTRIBUTE(Attrs, options.rotary_dim),
    CT_ATTRIBUTE(Attrs, options.scaling.kind, "none linear llama3"),
    CT_ATTRIBUTE(Attrs, options.scaling.factor),
    CT_ATTRIBUTE(Attrs, options.scaling.low_frequency_factor),
    CT_ATTRIBUTE(Attrs, options.scaling.high_frequency_factor),
    CT_ATTRIBUTE(Attrs, options.scaling.original_length),
};

constexpr OpDef k_rotary_embedding = checked({
    .name = "rotary_embedding",
    .formula = "y = (a cos phi - b sin phi, a sin phi + b cos phi)",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::rotary_embedding,
    .rule = rule,
    .flops_each = 3,
});

}  // namespace

Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& options) {
  return dispatch(k_rotary_embedding, {x, positions}, Attrs{options});
}

CT_ROOM(rotary_embedding, &k_rotary_embedding)
}  // namespace ct
