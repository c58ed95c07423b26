#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/reduce/reduce.h>

// Questions about all elements; apart from binary.cpp, since they need sums.

namespace ct {

namespace elementwise::binary {
extern const OpDef k_isclose;
}

Tensor isclose(const Tensor& a, const Tensor& b, Real rtol, Real atol, Flag equal_nan) {
  CT_CHECK(rtol >= 0 && atol >= 0, ValueError, "isclose", "rtol is ", double{rtol}, " and atol ",
           double{atol}, "; they must be numbers >= 0");
  const auto wide = [](const Tensor& t) { return !t.defined() || is_floating(t.dtype()) ? t : t.to(f64); };
  const Tensor x = wide(a), y = wide(b);
  const Tensor close =
      dispatch(elementwise::binary::k_isclose, {x, y}, map::Parameters{double{rtol}, double{atol}});
  return equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}
bool allclose(const Tensor& a, const Tensor& b, Real rtol, Real atol, Flag equal_nan) {
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}
bool equal(const Tensor& a, const Tensor& b) {
  if (a.defined() && b.defined() && !(a.shape() == b.shape())) return false;
  return all(eq(a, b)).item<bool>();
}

CT_MEMBER(bool, allclose, (const Tensor& b, Real rtol, Real atol, Flag equal_nan) const, b, rtol, atol,
          equal_nan)
CT_MEMBER(bool, equal, (const Tensor& b) const, b)

}  // namespace ct
