#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/walk/copy.h>

// The functions of the table's cold lines. A number among their operands becomes a tensor of rank 0, which broadcasts and
// promotes as a number does.

namespace ct {
namespace elementwise::binary {
#define CT_BINARY(...)
#define CT_PREDICATE(...)
#define CT_BINARY_COLD(name, ...) extern const OpDef k_##name;
#define CT_BITWISE CT_BINARY_COLD
#define CT_TERNARY CT_BINARY_COLD
#include <cotangent/ops/elementwise/binary_table.inc>
}  // namespace elementwise::binary

namespace {

using map::Parameters;

// `number`, to be combined with x.
Tensor operand(const OpDef& op, const Scalar& number, const Tensor& x) {
  CT_CHECK(x.defined(), Error, op.name,
           "the tensor is undefined; create it with ct::zeros, ct::randn, ... first");
  DType dtype = promote(x.dtype(), number);
  if (op.int_to_float && !is_floating(dtype)) dtype = DType::f32;
  check_fits(op.name, number, dtype);
  return full({}, number, {.dtype = dtype, .device = x.device()});
}
Tensor combine(const OpDef& op, const Tensor& a, const Scalar& b) {
  return dispatch(op, {a, operand(op, b, a)});
}
Tensor combine(const OpDef& op, const Scalar& a, const Tensor& b) {
  return dispatch(op, {operand(op, a, b), b});
}
Tensor combine(const OpDef& op, const Tensor& a, const Tensor& b) { return dispatch(op, {a, b}); }

// Integers divided by the number 0 are an error.
void check_divisor(const OpDef& op, const Tensor& a, const Scalar& b) {
  if (a.defined() && !is_floating(promote(a.dtype(), b)))
    CT_CHECK(b.to<std::int64_t>() != 0, ValueError, op.name, "the integers of ", describe(a),
             " are divided by 0; divide by another number, or convert with .to(f32)");
}

void check_value(const OpDef& op, const Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value) {
  if (!a.defined() || !b.defined() || !c.defined()) return;  // dispatch says so
  const DType dtype = promote(promote(a.dtype(), b.dtype()), c.dtype());
  if (is_floating(dtype) || op.int_to_float) return;
  CT_CHECK(!value.is_floating(), DTypeError, op.name, "value is a floating number, ", value,
           ", and the tensors are ", describe(a), ", ", describe(b), " and ", describe(c),
           "; integers need an integer value");
  check_fits(op.name, value, dtype);
}

}  // namespace

#define CT_WITH_NUMBERS(name)                                                                            \
  Tensor name(const Tensor& a, const Tensor& b) { return combine(elementwise::binary::k_##name, a, b); } \
  Tensor name(const Tensor& a, const Scalar& b) { return combine(elementwise::binary::k_##name, a, b); } \
  Tensor name(const Scalar& a, const Tensor& b) { return combine(elementwise::binary::k_##name, a, b); }
CT_WITH_NUMBERS(atan2)
CT_WITH_NUMBERS(hypot)
CT_WITH_NUMBERS(xlogy)
CT_WITH_NUMBERS(bitwise_and)
CT_WITH_NUMBERS(bitwise_or)
CT_WITH_NUMBERS(bitwise_xor)
CT_WITH_NUMBERS(bitwise_left_shift)
CT_WITH_NUMBERS(bitwise_right_shift)
#undef CT_WITH_NUMBERS

#define CT_DIVISION(name)                                                                                \
  Tensor name(const Tensor& a, const Tensor& b) { return combine(elementwise::binary::k_##name, a, b); } \
  Tensor name(const Tensor& a, const Scalar& b) {                                                        \
    check_divisor(elementwise::binary::k_##name, a, b);                                                  \
    return combine(elementwise::binary::k_##name, a, b);                                                 \
  }                                                                                                      \
  Tensor name(const Scalar& a, const Tensor& b) { return combine(elementwise::binary::k_##name, a, b); }
CT_DIVISION(fmod)
CT_DIVISION(remainder)
CT_DIVISION(floor_divide)
#undef CT_DIVISION

Tensor bitwise_not(const Tensor& x) {
  CT_CHECK(x.defined() && !is_floating(x.dtype()), DTypeError, "bitwise_not", "x is ", describe(x),
           "; integers and bool have bits: convert it with .to(dtype)");
  if (x.dtype() == DType::boolean) return logical_not(x);
  return bitwise_xor(x, x.dtype() == DType::u8 ? 255 : -1);
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const std::int64_t channels = x.defined() && x.dim() > 1 ? x.shape()[1] : 1;
  if (!x.defined() || !weight.defined() || weight.numel() == 1)
    return dispatch(elementwise::binary::k_prelu,
                    {x, weight.defined() && weight.dim() > 0 ? weight.view({}) : weight});
  CT_CHECK(weight.dim() == 1 && weight.numel() == channels, ShapeError, "prelu", "the weight is ",
           describe(weight), " and x ", describe(x),
           "; it has one number, or one for each place of axis 1, here ", channels);
  Shape along{channels};
  for (int d = 2; d < x.dim(); ++d) along.push_back(1);
  return dispatch(elementwise::binary::k_prelu, {x, weight.view(along)});
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  return dispatch(elementwise::binary::k_lerp, {a, b, weight});
}
Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight) {
  return dispatch(elementwise::binary::k_lerp_scalar, {a, b}, Parameters{weight, 0});
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  check_value(elementwise::binary::k_addcmul, x, a, b, value);
  return dispatch(elementwise::binary::k_addcmul, {x, a, b}, Parameters{value, 0});
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return dispatch(elementwise::binary::k_addcdiv, {x, a, b}, Parameters{value, 0});
}

CT_MEMBER(Tensor, atan2, (const Tensor& b) const, b)
CT_MEMBER(Tensor, atan2, (const Scalar& b) const, b)
CT_MEMBER(Tensor, fmod, (const Tensor& b) const, b)
CT_MEMBER(Tensor, fmod, (const Scalar& b) const, b)
CT_MEMBER(Tensor, remainder, (const Tensor& b) const, b)
CT_MEMBER(Tensor, remainder, (const Scalar& b) const, b)
CT_MEMBER(Tensor, bitwise_not, () const)
CT_MEMBER(Tensor, lerp, (const Tensor& b, const Tensor& weight) const, b, weight)
CT_MEMBER(Tensor, lerp, (const Tensor& b, const Scalar& weight) const, b, weight)

}  // namespace ct
