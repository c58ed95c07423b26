#include <cotangent/ops/engine/gemm/plain.h>

namespace ct::plain {

Matrix product(const ConstMatrix& a, const ConstMatrix& b) { return a * b; }

}  // namespace ct::plain
