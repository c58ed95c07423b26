#include <dlfcn.h>

#include <Eigen/Core>
#include <string>

#include "bench/bench.h"

// C1: matrix products in f32 on the CPU, y[m, n] = sum_k a[m, k] b[k, n], of plain and of transposed operands (N, T). Beside
// ours the same by Eigen and by OpenBLAS, where it is installed, as the rows NAME@eigen-VERSION and NAME@openblas. They
// write the same y again and again; ours has no such form: matmul() returns a new y, whose memory is that of the one
// before. An OpenBLAS that does not know the processor is told by OPENBLAS_CORETYPE (SkylakeX for AVX-512).

namespace {

using namespace ct::bench;
using ct::Tensor;

struct Product {
  std::int64_t m, k, n;
  bool a_transposed, b_transposed;

  Tensor a() const { return a_transposed ? numbers(0, {k, m}).t() : numbers(0, {m, k}); }
  Tensor b() const { return b_transposed ? numbers(m * k, {n, k}).t() : numbers(m * k, {k, n}); }
  double flops() const { return 2.0 * static_cast<double>(m * k) * static_cast<double>(n); }
};

void ours(benchmark::State& state, const Product& p) {
  const Tensor a = p.a(), b = p.b();
  ct::matmul(a, b);  // the first result's memory is new
  for (auto _ : state) benchmark::DoNotOptimize(ct::matmul(a, b));
  count_flops(state, p.flops());
}

/// A row of a peer: `multiply(p, a, b, y)`, where a, b and y are what the tensors hold.
template <class F>
void peer(benchmark::State& state, const Product& p, F multiply) {
  const Tensor a = p.a(), b = p.b();
  Tensor y = ct::empty({p.m, p.n});
  multiply(p, a.data<float>(), b.data<float>(), y.data<float>());
  for (auto _ : state) {
    multiply(p, a.data<float>(), b.data<float>(), y.data<float>());
    benchmark::ClobberMemory();
  }
  count_flops(state, p.flops());
}

void eigen(benchmark::State& state, const Product& p) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Columns = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  Eigen::setNbThreads(ct::num_threads());
  peer(state, p, [](const Product& p, const float* a, const float* b, float* y) {
    const Eigen::Map<const Rows> left(a, p.m, p.k), right(b, p.k, p.n);
    Eigen::Map<Rows> result(y, p.m, p.n);
    if (p.a_transposed) {
      result.noalias() = Eigen::Map<const Columns>(a, p.m, p.k) * right;
    } else if (p.b_transposed) {
      result.noalias() = left * Eigen::Map<const Columns>(b, p.k, p.n);
    } else {
      result.noalias() = left * right;
    }
  });
}

void openblas(benchmark::State& state, const Product& p) {
  using Sgemm =
      void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  // Loaded here and not when the program starts: loading starts its threads, which spin for a while.
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (library == nullptr) return state.SkipWithError("no libopenblas.so.0");
  static const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  static const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  set_threads(ct::num_threads());
  peer(state, p, [](const Product& p, const float* a, const float* b, float* y) {
    enum { row_major = 101, plain = 111, transposed = 112 };  // CBLAS's
    const int m = static_cast<int>(p.m), k = static_cast<int>(p.k), n = static_cast<int>(p.n);
    sgemm(row_major, p.a_transposed ? transposed : plain, p.b_transposed ? transposed : plain, m, n, k, 1, a,
          p.a_transposed ? m : k, b, p.b_transposed ? k : n, 0, y, n);
  });
}

const bool matmul_registered = [] {
  const std::int64_t shapes[][3] = {{64, 64, 64},    {128, 128, 128},    {256, 256, 256},
                                    {64, 784, 256},  {64, 256, 10},      {784, 64, 256},
                                    {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}};
  const std::string version = std::to_string(EIGEN_WORLD_VERSION) + "." +
                              std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION);
  const std::pair<std::string, void (*)(benchmark::State&, const Product&)> all[] = {
      {"", ours}, {"@eigen-" + version, eigen}, {"@openblas", openblas}};
  for (const auto& [mode, function] : all) {
    for (const auto& [m, k, n] : shapes) {
      for (const auto& [a, b] : {std::pair(false, false), std::pair(false, true), std::pair(true, false)}) {
        const std::string name = "C1/" + std::to_string(m) + "x" + std::to_string(k) + "x" +
                                 std::to_string(n) + "_" + (a ? "T" : "N") + (b ? "T" : "N") + mode;
        benchmark::RegisterBenchmark(name.c_str(), function, Product{m, k, n, a, b})
            ->Apply(five_runs)
            ->UseRealTime();
      }
    }
  }
  return true;
}();

}  // namespace
