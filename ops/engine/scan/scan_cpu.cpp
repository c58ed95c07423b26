#include <algorithm>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/scan/operations.h>

// Some neighbouring lines are scanned together, element by element. Few long lines are cut into pieces: the pieces are
// joined each for itself, then their results one after the other, and with these every piece is scanned.

namespace ct::scan {
namespace {

constexpr std::int64_t kGrain = 1 << 15;
constexpr std::int64_t kTogether = 16;  // lines

template <class Op, class T>
struct Job {
  using Carry = typename Op::Carry;

  Op op;
  const T *x, *a;
  T* y;
  std::int64_t* indices;
  Lines lines;
  bool reverse;

  // Elements begin to end - 1 of `width` lines, whose first element is `start`. noinline: two call sites would
  // double the code.
  template <bool writes>
  [[gnu::noinline]] void scan(std::int64_t start, std::int64_t width, std::int64_t begin, std::int64_t end,
                              Carry* carries) const {
    const auto step = [&](Carry& carry, std::int64_t place, std::int64_t i) {
      using C = decltype(Op::value(carry));
      carry = op.join(carry, op.element(static_cast<C>(x[i]), a ? static_cast<C>(a[i]) : C{}, place));
      if constexpr (writes) {
        y[i] = static_cast<T>(Op::value(carry));
        if constexpr (requires { carry.at; }) indices[i] = carry.at;
      }
    };
    if (width == 1) {
      Carry carry = *carries;  // in registers
      for (std::int64_t j = begin; j < end; ++j) {
        const std::int64_t place = reverse ? lines.n - 1 - j : j;
        step(carry, place, start + place * lines.inner);
      }
      *carries = carry;
      return;
    }
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t place = reverse ? lines.n - 1 - j : j;
      for (std::int64_t c = 0; c < width; ++c) step(carries[c], place, start + place * lines.inner + c);
    }
  }

  void run() const {
    const std::int64_t groups = chunk_count(lines.inner, kTogether), items = lines.outer * groups;
    const auto start_of = [&](std::int64_t item) {
      return item / groups * lines.n * lines.inner + item % groups * kTogether;
    };
    const auto width_of = [&](std::int64_t item) {
      return std::min(kTogether, lines.inner - item % groups * kTogether);
    };
    const std::int64_t work = lines.n * std::min(kTogether, lines.inner);
    if (items >= 8 || work <= 2 * kGrain) {
      parallel_for(items, std::max<std::int64_t>(1, kGrain / work),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t item = begin; item < end; ++item) {
                       Carry carries[kTogether];
                       std::fill_n(carries, kTogether, op.identity());
                       scan<true>(start_of(item), width_of(item), 0, lines.n, carries);
                     }
                   });
      return;
    }
    for (std::int64_t item = 0; item < items; ++item) {
      const std::int64_t start = start_of(item), width = width_of(item);
      const std::int64_t piece = kGrain / width;
      std::vector<Carry> before(static_cast<std::size_t>((chunk_count(lines.n, piece) + 1) * width),
                                op.identity());
      const auto carries = [&](std::int64_t k) { return before.data() + k * width; };
      parallel_chunks(lines.n, piece, [&](std::int64_t k, std::int64_t begin, std::int64_t end) {
        scan<false>(start, width, begin, end, carries(k + 1));
      });
      for (std::int64_t i = width; i < static_cast<std::int64_t>(before.size()); ++i)
        before[static_cast<std::size_t>(i)] =
            op.join(before[static_cast<std::size_t>(i - width)], before[static_cast<std::size_t>(i)]);
      parallel_chunks(lines.n, piece, [&](std::int64_t k, std::int64_t begin, std::int64_t end) {
        scan<true>(start, width, begin, end, carries(k));
      });
    }
  }
};

}  // namespace

void run_cpu(const Call& call, const Lines& lines) {
  const auto go = [&]<class Op, class T>(const Op& op, TypeTag<T>) {
    const auto data = [](const Tensor& t) { return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr; };
    std::int64_t* const indices = call.indices.defined() ? call.indices.data<std::int64_t>() : nullptr;
    Job<Op, T>{op, data(call.x), data(call.a), data(call.y), indices, lines, call.reverse}.run();
  };
  if (call.x.dtype() == DType::i64) return visit_integers(call.kind, go);
  if (call.x.dtype() == DType::f64) return visit_floats<double, double>(call.kind, go);
  visit_floats<double, float>(call.kind, go);
}

}  // namespace ct::scan

CT_FUNCTIONS(cpu, ScanFunctions, scans, scan::run_cpu)
