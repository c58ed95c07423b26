#include <cotangent/ops/engine/rows/exp_cpu.h>

namespace ct {

void exp_in_place(double* x, std::int64_t n) { on_cpu(cpu_tables::exponentials).run(x, n); }

}  // namespace ct
