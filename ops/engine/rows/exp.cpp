#include <cotangent/ops/engine/rows/exp_cpu.h>

namespace ct {

void exp_in_place(double* x, std::int64_t n) { functions_of(kernel_tables::exponentials, cpu).run(x, n); }

}  // namespace ct
