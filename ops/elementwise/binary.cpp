#include <cotangent/ops/elementwise/binary.h>

#include <cmath>
#include <string_view>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/elementwise/rule_internal.h>
#include <cotangent/ops/engine/map/op.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) CT_KERNEL_TABLES(name)
#define CT_PREDICATE(name, text, types, samples, y) CT_KERNEL_TABLES(name)
#define CT_BITWISE CT_PREDICATE
#define CT_TERNARY(name, ...) CT_KERNEL_TABLES(name)
#include <cotangent/ops/elementwise/binary_table.inc>
#define CT_SCALAR(name, text, types, saved, samples, y, dx) CT_KERNEL_TABLES(name)
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_KERNEL_TABLES(name)
#include <cotangent/ops/elementwise/scalar_table.inc>
namespace elementwise::binary {
namespace {

using namespace map;

// ---- Definitions -----------------------------------------------------------------------------------------

void infer_predicate(Infer& i) {
  i.output(broadcast_shapes(i.op.name, i.in(0).shape(), i.in(1).shape()), DType::boolean);
}

// Powers and reciprocals leave the range of 16 bits.
consteval AutocastPolicy autocast_policy(std::string_view name) {
  for (const std::string_view steep : {"pow", "pow_scalar", "rpow_scalar", "rdiv_scalar"})
    if (name == steep) return AutocastPolicy::f32;
  return AutocastPolicy::promote;
}

// Whether an op has a gradient, or is a truth value, is said by the table it stands in, not by whether a kernel was given: one
// without its backward must not build.
consteval OpDef define(bool truth, const char* name, const char* formula, DTypeSet types,
                       std::span<const InputDef> inputs, const KernelTables* kernels, BackwardFn rule) {
  return define_row(name, formula, types, inputs, truth, truth ? infer_predicate : infer_broadcast, kernels,
                    rule, autocast_policy(name), true);
}
}  // namespace

// The records of the operands, by what a table's `saves` columns say.
#define CT_NEEDS_none ""
#define CT_NEEDS_a "a"
#define CT_NEEDS_b "b"
#define CT_NEEDS_ab "a b"
#define CT_NEEDS_c "c"
#define CT_NEEDS_bc "b c"
namespace {
constexpr InputDef kOperandsWithoutGradient[] = {{.name = "a", .gradient = false},
                                                 {.name = "b", .gradient = false}};
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  constexpr InputDef k_##name##_inputs[] = {{"a", CT_NEEDS_##saves_a}, {"b", CT_NEEDS_##saves_b}};
#define CT_PREDICATE(name, text, types, samples, y)
#define CT_BITWISE CT_PREDICATE
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc) \
  constexpr InputDef k_##name##_inputs[] = {                                             \
      {"a", CT_NEEDS_##saves_a}, {"b", CT_NEEDS_##saves_b}, {"c", CT_NEEDS_##saves_c}};
#include <cotangent/ops/elementwise/binary_table.inc>
}  // namespace

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db)       \
  extern constexpr OpDef k_##name =                                              \
      define(false, #name, text, types, k_##name##_inputs, &kernel_tables::name, \
             operands_rule<formulas::name##_da, formulas::name##_db>);
#define CT_PREDICATE(name, text, types, samples, y) \
  extern constexpr OpDef k_##name =                 \
      define(true, #name, text, types, kOperandsWithoutGradient, &kernel_tables::name, nullptr);
#define CT_BITWISE(name, text, types, samples, y) \
  extern constexpr OpDef k_##name =               \
      define(false, #name, text, types, kOperandsWithoutGradient, &kernel_tables::name, nullptr);
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc) \
  extern constexpr OpDef k_##name =                                                      \
      define(false, #name, text, types, k_##name##_inputs, &kernel_tables::name,         \
             operands_rule<formulas::name##_da, formulas::name##_db, formulas::name##_dc>);
#include <cotangent/ops/elementwise/binary_table.inc>

#define CT_SCALAR(name, text, types, saved, samples, y, dx)                                                \
  extern constexpr OpDef k_##name =                                                                        \
      define_row(#name, text, types, unary_inputs(Saved::saved), false, infer_unary, &kernel_tables::name, \
                 unary_rule<formulas::name##_dx>, autocast_policy(#name), false);
#define CT_SCALAR_PREDICATE(name, text, types, samples, y)                                                 \
  extern constexpr OpDef k_##name =                                                                        \
      define_row(#name, text, types, kXWithoutGradient, true, infer_unary_predicate, &kernel_tables::name, \
                 nullptr, autocast_policy(#name), false);
#include <cotangent/ops/elementwise/scalar_table.inc>

namespace {
constexpr const OpDef* ops[] = {
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) &k_##name,
#define CT_PREDICATE(name, text, types, samples, y) &k_##name,
#define CT_BITWISE CT_PREDICATE
#define CT_TERNARY(name, ...) &k_##name,
#include <cotangent/ops/elementwise/binary_table.inc>
#define CT_SCALAR(name, text, types, saved, samples, y, dx) &k_##name,
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) &k_##name,
#include <cotangent/ops/elementwise/scalar_table.inc>
};
}  // namespace
}  // namespace elementwise::binary
namespace binary = elementwise::binary;

namespace rooms {
extern const Room binary;
const Room binary{"binary", ct::binary::ops};
}  // namespace rooms

// ---- Functions -------------------------------------------------------------------------------------------

namespace {

using map::Parameters;

// Integers wrap around, numbers that they are calculated with do not. Where integers become f32, any will do.
void check_number(const OpDef& op, const char* name, const Scalar& p, DType dtype) {
  if (!op.int_to_float) check_fits(name, p, dtype);
}

// A tensor and a number: the tensor is converted if the number is of a higher category.
Tensor with_number(const OpDef& op, const Tensor& x, const Scalar& p) {
  const DType dtype = promote(x.dtype(), p);
  if (dtype != x.dtype()) return dispatch(op, {x.to(dtype)}, Parameters{p, 0});
  return dispatch(op, {x}, Parameters{p, 0});
}
// The same for comparisons: the number takes the value that it has in the tensor's dtype.
Tensor compare_with_number(const OpDef& op, const Tensor& x, const Scalar& p) {
  return with_number(op, x, map::rounded(p, promote(x.dtype(), p)));
}
Tensor calculate(const OpDef& op, const char* name, const Tensor& x, const Scalar& p) {
  check_number(op, name, p, promote(x.dtype(), p));
  return with_number(op, x, p);
}
Tensor& with_number_in_place(const OpDef& op, Tensor& x, const Scalar& p) {
  const DType dtype = promote(x.dtype(), p);
  CT_CHECK(dtype == x.dtype(), DTypeError, op.name, "a result of dtype ", dtype,
           " can't be written in place into ", describe(x),
           "; use the out-of-place form or an integer operand");
  return dispatch_inplace(op, x, {}, Parameters{p, 0});
}
Tensor& calculate_in_place(const OpDef& op, const char* name, Tensor& x, const Scalar& p) {
  check_number(op, name, p, promote(x.dtype(), p));
  return with_number_in_place(op, x, p);
}

bool is_one(const Scalar& s) { return s.to<double>() == 1; }
Scalar negative(const Scalar& s) {
  if (s.is_floating()) return -s.to<double>();
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(s.to<std::int64_t>()));
}
Scalar product(const Scalar& a, const Scalar& b) {
  if (a.is_floating() || b.is_floating()) return a.to<double>() * b.to<double>();
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a.to<std::int64_t>()) *
                                   static_cast<std::uint64_t>(b.to<std::int64_t>()));
}

// Arithmetic on bool alone: dispatch is to refuse it, so the number must not become an integer on its way.
bool only_bool(const Tensor& a, const Scalar& b, const Scalar& alpha) {
  return a.dtype() == DType::boolean && b.kind() == Scalar::Kind::boolean && !alpha.is_floating();
}

// a + alpha * b, or a - alpha * b.
Tensor add_scaled(const char* op, const Tensor& a, const Tensor& b, const Scalar& alpha, bool subtracts) {
  CT_CHECK(!alpha.is_floating() || is_floating(a.dtype()) || is_floating(b.dtype()), DTypeError, op,
           "alpha is a floating number, ", alpha, ", and the tensors are ", describe(a), " and ", describe(b),
           "; integers need an integer alpha");
  if (a.defined() && b.defined()) check_fits(op, alpha, promote(a.dtype(), b.dtype()));
  return dispatch(binary::k_add_scaled, {a, b}, Parameters{subtracts ? negative(alpha) : alpha, 0});
}
// The same with a number. The product may wrap around, as one of tensors does.
Tensor add_number(const char* op, const Tensor& a, const Scalar& b, const Scalar& alpha, bool subtracts) {
  if (only_bool(a, b, alpha)) return with_number(binary::k_add_scalar, a, b);
  const DType dtype = promote(promote(a.dtype(), b), alpha);
  for (const Scalar& number : {b, alpha}) check_fits(op, number, dtype);
  const Scalar term = is_one(alpha) ? b : product(alpha, b);
  return with_number(binary::k_add_scalar, a, subtracts ? negative(term) : term);
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (is_one(alpha)) [[likely]]
    return dispatch(binary::k_add, {a, b});
  return add_scaled("add", a, b, alpha, false);
}
Tensor add(const Tensor& a, const Scalar& b, const Scalar& alpha) {
  return add_number("add", a, b, alpha, false);
}
Tensor add(const Scalar& a, const Tensor& b) { return calculate(binary::k_add_scalar, "add", b, a); }

Tensor sub(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (is_one(alpha)) [[likely]]
    return dispatch(binary::k_sub, {a, b});
  return add_scaled("sub", a, b, alpha, true);
}
Tensor sub(const Tensor& a, const Scalar& b, const Scalar& alpha) {
  return add_number("sub", a, b, alpha, true);
}
Tensor sub(const Scalar& a, const Tensor& b) { return calculate(binary::k_rsub_scalar, "sub", b, a); }

Tensor mul(const Tensor& a, const Tensor& b) { return dispatch(binary::k_mul, {a, b}); }
Tensor mul(const Tensor& a, const Scalar& b) { return calculate(binary::k_mul_scalar, "mul", a, b); }
Tensor mul(const Scalar& a, const Tensor& b) { return calculate(binary::k_mul_scalar, "mul", b, a); }

Tensor div(const Tensor& a, const Tensor& b) { return dispatch(binary::k_div, {a, b}); }
Tensor div(const Tensor& a, const Scalar& b) { return with_number(binary::k_div_scalar, a, b); }
Tensor div(const Scalar& a, const Tensor& b) { return with_number(binary::k_rdiv_scalar, b, a); }

namespace elementwise::unary {
extern const OpDef k_square, k_cube, k_sqrt, k_rsqrt, k_reciprocal;
}

Tensor pow(const Tensor& a, const Tensor& b) { return dispatch(binary::k_pow, {a, b}); }
Tensor pow(const Tensor& a, const Scalar& b) {
  const DType dtype = promote(a.dtype(), b);
  CT_CHECK(dtype != DType::u8 && dtype != DType::boolean, DTypeError, "pow", "the base is ", describe(a),
           " and the exponent ", b,
           "; powers of u8 and bool are not there: convert with .to(i64) or .to(f32)");
  const double p = b.to<double>();
  // Powers with an operation of their own: faster, and exact to the last place.
  if (p == 2) return dispatch(elementwise::unary::k_square, {a.to(dtype)});
  if (p == 3) return dispatch(elementwise::unary::k_cube, {a.to(dtype)});
  if (p == 1) return with_number(binary::k_mul_scalar, a, b);
  // In 16 bits not: their gradients start from the rounded result.
  if (is_floating(dtype) && !is_low_precision(dtype)) {
    if (p == 0.5) return dispatch(elementwise::unary::k_sqrt, {a});
    if (p == -0.5) return dispatch(elementwise::unary::k_rsqrt, {a});
    if (p == -1) return dispatch(elementwise::unary::k_reciprocal, {a});
  } else if (!is_floating(dtype)) {
    CT_CHECK(p >= 0, ValueError, "pow", "the exponent ", b, " of an integer tensor, ", describe(a),
             ", is negative; convert the tensor with .to(f32)");
  }
  return calculate(binary::k_pow_scalar, "pow", a, b);
}
Tensor pow(const Scalar& a, const Tensor& b) { return calculate(binary::k_rpow_scalar, "pow", b, a); }

#define CT_EXTREME(name)                                                                       \
  Tensor name(const Tensor& a, const Tensor& b) { return dispatch(binary::k_##name, {a, b}); } \
  Tensor name(const Tensor& a, const Scalar& b) {                                              \
    check_fits(#name, b, promote(a.dtype(), b));                                               \
    return compare_with_number(binary::k_##name##_scalar, a, b);                               \
  }                                                                                            \
  Tensor name(const Scalar& a, const Tensor& b) { return name(b, a); }
CT_EXTREME(maximum)
CT_EXTREME(minimum)
#undef CT_EXTREME

namespace {
// The whole number that integers are to be compared with in place of p, by a comparison that rounds p down or up, or has no
// answer but one for a fraction: f32 would round both. Other numbers, beyond all integers, stay.
Scalar whole(const Tensor& x, const Scalar& p, double (*round)(double)) {
  if (!x.defined() || is_floating(x.dtype()) || x.dtype() == DType::boolean || !p.is_floating()) return p;
  const double v = p.to<double>(), n = round ? round(v) : v;
  if (v < -0x1p63 || v >= 0x1p63) return v < 0 ? -INFINITY : INFINITY;
  if (n != std::trunc(n)) return NAN;  // equal to none
  return static_cast<std::int64_t>(n);
}
Tensor compare(const OpDef& op, const Tensor& x, const Scalar& p, double (*round)(double)) {
  const Scalar n = whole(x, p, round);
  const bool exact = p.is_floating() && !n.is_floating();  // u8 and i32 may not hold n
  return compare_with_number(op, exact ? x.to(DType::i64) : x, n);
}
}  // namespace

#define CT_COMPARE(name, round)                                                                \
  Tensor name(const Tensor& a, const Tensor& b) { return dispatch(binary::k_##name, {a, b}); } \
  Tensor name(const Tensor& a, const Scalar& b) { return compare(binary::k_##name##_scalar, a, b, round); }
CT_COMPARE(eq, nullptr)
CT_COMPARE(ne, nullptr)
CT_COMPARE(lt, std::ceil)
CT_COMPARE(le, std::floor)
CT_COMPARE(gt, std::floor)
CT_COMPARE(ge, std::ceil)
#undef CT_COMPARE

Tensor logical_and(const Tensor& a, const Tensor& b) { return dispatch(binary::k_logical_and, {a, b}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return dispatch(binary::k_logical_or, {a, b}); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return dispatch(binary::k_logical_xor, {a, b}); }
Tensor logical_not(const Tensor& x) { return dispatch(binary::k_logical_not, {x}); }
Tensor isnan(const Tensor& x) { return dispatch(binary::k_isnan, {x}); }
Tensor isinf(const Tensor& x) { return dispatch(binary::k_isinf, {x}); }
Tensor isfinite(const Tensor& x) { return dispatch(binary::k_isfinite, {x}); }

const Tensor& detail::compared(const char* op, const Tensor& a) {
  CT_CHECK(a.dtype() != DType::boolean, DTypeError, op, "the left side, ", describe(a),
           ", is a mask: a < b < c compares the answer of a < b with c; write logical_and(a < b, b < c), or "
           "lt(), le(), gt() or ge() to order masks");
  return a;
}

Tensor& Tensor::add_(const Tensor& other) { return dispatch_inplace(binary::k_add, *this, {other}); }
Tensor& Tensor::add_(const Scalar& other) {
  return calculate_in_place(binary::k_add_scalar, "add_", *this, other);
}
Tensor& Tensor::sub_(const Tensor& other) { return dispatch_inplace(binary::k_sub, *this, {other}); }
Tensor& Tensor::sub_(const Scalar& other) {
  check_number(binary::k_add_scalar, "sub_", other, promote(dtype(), other));
  return with_number_in_place(binary::k_add_scalar, *this, negative(other));
}
Tensor& Tensor::mul_(const Tensor& other) { return dispatch_inplace(binary::k_mul, *this, {other}); }
Tensor& Tensor::mul_(const Scalar& other) {
  return calculate_in_place(binary::k_mul_scalar, "mul_", *this, other);
}
Tensor& Tensor::div_(const Tensor& other) { return dispatch_inplace(binary::k_div, *this, {other}); }
Tensor& Tensor::div_(const Scalar& other) {
  return calculate_in_place(binary::k_div_scalar, "div_", *this, other);
}

#define CT_WITH_EITHER(name)                          \
  CT_MEMBER(Tensor, name, (const Tensor& b) const, b) \
  CT_MEMBER(Tensor, name, (const Scalar& b) const, b)
CT_WITH_EITHER(add)
CT_WITH_EITHER(sub)
CT_WITH_EITHER(mul)
CT_WITH_EITHER(div)
CT_WITH_EITHER(pow)
CT_WITH_EITHER(maximum)
CT_WITH_EITHER(minimum)
CT_WITH_EITHER(eq)
CT_WITH_EITHER(ne)
CT_WITH_EITHER(lt)
CT_WITH_EITHER(le)
CT_WITH_EITHER(gt)
CT_WITH_EITHER(ge)
#undef CT_WITH_EITHER
CT_MEMBER(Tensor, logical_and, (const Tensor& b) const, b)
CT_MEMBER(Tensor, logical_or, (const Tensor& b) const, b)
CT_MEMBER(Tensor, logical_xor, (const Tensor& b) const, b)
CT_MEMBER(Tensor, logical_not, () const)
CT_MEMBER(Tensor, isnan, () const)
CT_MEMBER(Tensor, isinf, () const)
CT_MEMBER(Tensor, isfinite, () const)

}  // namespace ct
