#include <algorithm>

#include <cotangent/ops/engine/map/math_f64_cpu.h>
#include <cotangent/ops/recurrence/steps_internal.h>

// On the CPU a thread takes some sequences through all steps, so that threads wait for each other once.

namespace ct::recurrence {
namespace {

constexpr std::int64_t kRows = 8;  // enough for a product to be worth reading the weight

// A vector of elements of a row, or the first few of one.
struct At {
  using X = simd::Vector<float>;
  std::int64_t first, hidden;
  int count;

  template <class S>
  CT_INLINE X load(const S* row, int k) const {
    const S* const from = row + k * hidden + first;
    return count == X::kSize ? X::load(from) : X::load(from, X::first(count));
  }
  template <class S>
  CT_INLINE void store(X x, S* row, int k) const {
    S* const to = row + k * hidden + first;
    count == X::kSize ? x.store(to) : x.store(to, X::first(count));
  }
};

template <class C, bool kBack>
void step(const Step& given) {
  const Step s = given;  // which no store changes, as the compiler sees then
  visit_fast("recurrence", s.dtype, [&]<class T>(TypeTag<T>) {
    for (std::int64_t row = 0; row < s.rows; ++row)
      for (std::int64_t i = 0; i < s.hidden; i += At::X::kSize) {
        const At at{i, s.hidden, static_cast<int>(std::min<std::int64_t>(At::X::kSize, s.hidden - i))};
        if constexpr (kBack)
          make_step_back<C, T>(s, row, at);
        else
          make_step<C, T>(s, row, at);
      }
  });
}

template <class C>
constexpr Steps kSteps{gemm::cpu_backend, kRows, step<C, false>, step<C, true>};

template <class C>
void forward_cpu(const Forward& f) {
  forward(f, kCell<C>, kSteps<C>);
}
template <class C>
void backward_cpu(const Backward& b) {
  backward(b, kCell<C>, kSteps<C>);
}

}  // namespace
}  // namespace ct::recurrence

CT_KERNELS(cpu, recurrence, CT_RECURRENCE_KERNELS(cpu))
