#include <benchmark/benchmark.h>
#include <cotangent/core/parallel.h>
#include <cotangent/ops/engine/gemm/gemm_cpu.h>
#include <dlfcn.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

// Products of f32 matrices on the CPU, beside Eigen and, where the system has it, OpenBLAS; and of bf16. The shapes are
// cubes and those of a perceptron 784-256-10 on 64 images. Rows are named C1/MxKxN/form/who/threads; form NT
// reads the right operand transposed, TN the left one.
//
// OpenBLAS is loaded when the benchmark runs, so that building needs none. If it does not know the processor,
// set OPENBLAS_CORETYPE (SkylakeX for AVX-512).

namespace {

using std::int64_t;

struct Shape {
  int64_t m, k, n;
};
constexpr Shape kShapes[] = {{64, 64, 64},       {128, 128, 128},   {256, 256, 256}, {64, 784, 256},
                             {64, 256, 10},      {784, 64, 256},    {64, 10, 256},   {512, 512, 512},
                             {1024, 1024, 1024}, {2048, 2048, 2048}};
constexpr const char* kForms[] = {"NN", "NT", "TN"};

template <class T>
struct Problem {
  explicit Problem(const benchmark::State& state)
      : s(kShapes[state.range(0)]),
        form(static_cast<int>(state.range(1))),
        a(static_cast<std::size_t>(s.m * s.k)),
        b(static_cast<std::size_t>(s.k * s.n)),
        c(static_cast<std::size_t>(s.m * s.n)) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(static_cast<float>(i % 17) - 8.0f);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i % 13) - 6.0f);
  }
  bool a_turned() const { return form == 2; }
  bool b_turned() const { return form == 1; }

  Shape s;
  int form;
  std::vector<T> a, b, c;
};

template <class T>
void count(benchmark::State& state, const Problem<T>& p) {
  const double flops =
      2.0 * static_cast<double>(p.s.m) * static_cast<double>(p.s.k) * static_cast<double>(p.s.n);
  state.counters["flops"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

template <class T>
void ours(benchmark::State& state) {
  Problem<T> p(state);
  const int before = ct::num_threads();
  ct::set_num_threads(static_cast<int>(state.range(2)));
  const auto [m, k, n] = p.s;
  const ct::Gemm shape{
      m, n, k, p.a_turned() ? 1 : k, p.a_turned() ? m : 1, p.b_turned() ? 1 : n, p.b_turned() ? k : 1, n};
  for (auto _ : state) {
    ct::gemm_cpu<T>(shape, 1, p.a.data(), p.b.data(), 0, p.c.data());
    benchmark::ClobberMemory();
  }
  ct::set_num_threads(before);
  count(state, p);
}

void eigen(benchmark::State& state) {
  Problem<float> p(state);
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto [m, k, n] = p.s;
  const Eigen::Map<Matrix> a(p.a.data(), p.a_turned() ? k : m, p.a_turned() ? m : k);
  const Eigen::Map<Matrix> b(p.b.data(), p.b_turned() ? n : k, p.b_turned() ? k : n);
  Eigen::Map<Matrix> c(p.c.data(), m, n);
  for (auto _ : state) {
    if (p.a_turned()) {
      c.noalias() = a.transpose() * b;
    } else if (p.b_turned()) {
      c.noalias() = a * b.transpose();
    } else {
      c.noalias() = a * b;
    }
    benchmark::ClobberMemory();
  }
  count(state, p);
}

// The C interface of BLAS; the numbers are those of its standard: row-major order, as it is, transposed.
struct OpenBlas {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
  Sgemm sgemm = nullptr;
  void (*set_threads)(int) = nullptr;
  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  }
};

void openblas(benchmark::State& state, const OpenBlas& blas) {
  Problem<float> p(state);
  blas.set_threads(static_cast<int>(state.range(2)));
  const int m = static_cast<int>(p.s.m), k = static_cast<int>(p.s.k), n = static_cast<int>(p.s.n);
  for (auto _ : state) {
    blas.sgemm(101, p.a_turned() ? 112 : 111, p.b_turned() ? 112 : 111, m, n, k, 1.0f, p.a.data(),
               p.a_turned() ? m : k, p.b.data(), p.b_turned() ? k : n, 0.0f, p.c.data(), n);
    benchmark::ClobberMemory();
  }
  count(state, p);
}

[[maybe_unused]] const bool registered = [] {
  static const OpenBlas blas;
  for (int s = 0; s < static_cast<int>(std::size(kShapes)); ++s)
    for (int form = 0; form < 3; ++form) {
      const auto [m, k, n] = kShapes[s];
      const std::string name =
          "C1/" + std::to_string(m) + 'x' + std::to_string(k) + 'x' + std::to_string(n) + '/' + kForms[form];
      for (const int threads : {1, 2}) {
        const std::string t = "/t" + std::to_string(threads);
        benchmark::RegisterBenchmark((name + "/ours" + t).c_str(), ours<float>)
            ->Args({s, form, threads})
            ->UseRealTime();
        benchmark::RegisterBenchmark((name + "/ours-bf16" + t).c_str(), ours<ct::BFloat16>)
            ->Args({s, form, threads})
            ->UseRealTime();
        if (blas.sgemm != nullptr && blas.set_threads != nullptr)
          benchmark::RegisterBenchmark((name + "/openblas" + t).c_str(),
                                       [](benchmark::State& state) { openblas(state, blas); })
              ->Args({s, form, threads})
              ->UseRealTime();
      }
      benchmark::RegisterBenchmark((name + "/eigen/t1").c_str(), eigen)->Args({s, form, 1})->UseRealTime();
    }
  return true;
}();

}  // namespace
