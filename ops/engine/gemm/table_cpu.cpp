#include <cotangent/ops/engine/gemm/gemm_cpu.h>

// Apart from the products: tests link those by name beside the library's, and a program has a table once.
CT_CPU_TABLE(GemmCpu, gemms, gemm_cpu<double>)
