#pragma once

#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/engine/map/map.h>

// From a line of a table of one-input ops to formulas, and how their kernels read a call.

namespace ct::map {

// Dtypes of a table's `types` column.
inline constexpr DTypeSet floats = kFloatingTypes;
inline constexpr DTypeSet numbers = kNumericTypes;
inline constexpr DTypeSet signed_numbers = kNumericTypes & ~dtype_bit(DType::u8);
inline constexpr DTypeSet any_type = kAllTypes;
inline constexpr DTypeSet whole_numbers = kAllTypes & ~kFloatingTypes;
inline constexpr DTypeSet integers = numbers & ~floats;
constexpr bool has_floats(DTypeSet types) { return types & kFloatingTypes; }
constexpr bool has_integers(DTypeSet types) { return types & dtype_bit(DType::i64); }

// Meaning of a table's `saved` column for backward.
enum class Saved { none, x, y };

inline Parameters parameters_of(AttrsView attrs) {
  if (attrs.size == sizeof(Parameters)) [[likely]]
    return *static_cast<const Parameters*>(attrs.data);
  return {attrs.size == sizeof(Scalar) ? *static_cast<const Scalar*>(attrs.data) : Scalar{}, {}};  // p alone
}

// The value that `s` has as an element of dtype t, for comparisons with such elements.
inline Scalar rounded(Scalar s, DType t) {
  if (t == DType::f16) return Scalar(static_cast<float>(s.to<Half>()));
  if (t == DType::bf16) return Scalar(static_cast<float>(s.to<BFloat16>()));
  return s;
}

}  // namespace ct::map

// The arguments of a backward formula beside g, p and q.
#define CT_SAVED_ARGUMENT_none
#define CT_SAVED_ARGUMENT_x X x,
#define CT_SAVED_ARGUMENT_y X y,

// How many values that is.
#define CT_SAVED_COUNT_none 0
#define CT_SAVED_COUNT_x 1
#define CT_SAVED_COUNT_y 1

// Two formulas with the traits of Formula or Cold: name_y(x) and name_dx(g, saved). An expression that names a value its
// line does not save does not compile.
#define CT_UNARY_FORMULAS(traits, name, saved, y_expression, dx_expression)                         \
  CT_UNARY_PREDICATE_FORMULA(traits, name, y_expression)                                            \
  struct name##_saved : ::ct::map::traits {                                                         \
    static constexpr ::ct::map::Saved kSaved = ::ct::map::Saved::saved;                             \
  };                                                                                                \
  CT_MAP_FORMULA(                                                                                   \
      name##_dx, name##_saved, 1 + CT_SAVED_COUNT_##saved, 1,                                       \
      ([[maybe_unused]] X g, CT_SAVED_ARGUMENT_##saved [[maybe_unused]] X p, [[maybe_unused]] X q), \
      return dx_expression)

// A formula of one input, whose result may be a truth value.
#define CT_UNARY_PREDICATE_FORMULA(traits, name, y_expression)                                         \
  CT_MAP_FORMULA(name##_y, ::ct::map::traits, 1, 1, (X x, [[maybe_unused]] X p, [[maybe_unused]] X q), \
                 return y_expression)
