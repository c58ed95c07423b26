#include <cotangent/core/base/dtype.h>

#include <ostream>

namespace ct {

std::string_view name(DType t) {
  constexpr std::string_view table[kDTypeCount] = {"f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool"};
  return table[static_cast<int>(t)];
}

std::ostream& operator<<(std::ostream& out, DType t) { return out << name(t); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  // The two 16-bit formats hold values that the other one can't: only f32 holds both.
  if (is_low_precision(a) && is_low_precision(b)) return DType::f32;
  constexpr int rank[kDTypeCount] = {/*f32*/ 5, /*f64*/ 6, /*f16*/ 4, /*bf16*/ 4,
                                     /*i64*/ 3, /*i32*/ 2, /*u8*/ 1,  /*bool*/ 0};
  return rank[static_cast<int>(a)] > rank[static_cast<int>(b)] ? a : b;
}

}  // namespace ct
