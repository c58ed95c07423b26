#include <algorithm>
#include <type_traits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/engine/rows/order_key.h>
#include <cotangent/ops/engine/scatter/pair_sort_cpu.h>
#include <cotangent/ops/sorting/topk_internal.h>

// A row becomes pairs of key and position. All pairs differ, so there is one order of them: a few are selected, many are
// sorted by their digits.

namespace ct::sorting {
namespace {

// The first k pairs, in order. Nothing here depends on the dtype, but for i64 all have keys of one type.
template <class K>
[[gnu::noinline]] void choose(scatter_impl::Pairs<K>& pairs, std::int64_t k) {
  if (k >= static_cast<std::int64_t>(pairs.size()) / 2) return scatter_impl::sort_pairs(pairs);
  std::nth_element(pairs.begin(), pairs.begin() + k, pairs.end());
  std::sort(pairs.begin(), pairs.begin() + k);
}

// Pairs worth keeping where few are wanted: once there are k, only what is before the k-th of them can be among the first.
template <class K>
class Best {
 public:
  static constexpr std::int64_t kBlock = 64;

  Best(scatter_impl::Pairs<K>& pairs, std::int64_t k) : pairs_(pairs), k_(static_cast<std::size_t>(k)) {
    pairs_.resize(k_ + 2 * kBlock);
  }
  // n <= kBlock elements from number `first` on; most blocks have none to keep. Without a branch, which could not be
  // predicted.
  void add(const K* keys, std::int64_t n, std::int64_t first) {
    K least = keys[0];
    for (std::int64_t i = 1; i < n; ++i) least = std::min(least, keys[i]);
    if (full_ && least >= bound_) return;
    for (std::int64_t i = 0; i < n; ++i) {
      pairs_[size_] = {keys[i], static_cast<std::uint32_t>(first + i)};
      size_ += !full_ || keys[i] < bound_;
    }
    if (size_ < k_ + kBlock) return;
    std::nth_element(pairs_.begin(), pairs_.begin() + (k_ - 1), pairs_.begin() + size_);
    bound_ = pairs_[k_ - 1].key, full_ = true;
    size_ = k_;
  }
  void end() { pairs_.resize(size_); }

 private:
  scatter_impl::Pairs<K>& pairs_;
  std::size_t k_, size_ = 0;
  K bound_{};
  bool full_ = false;
};

// noinline where a call has no threads: rows of every dtype would be in the library twice.
template <class T>
[[gnu::noinline]] void forward_rows(const T* x, T* values, std::int64_t* indices, const Choice& rows,
                                    bool descending, std::int64_t begin, std::int64_t end) {
  using C = compute_t<T>;
  using K = OrderKey<C>;
  const K turn = descending ? static_cast<K>(~K(0)) : K(0);
  const auto key = [turn](T value) { return static_cast<K>(order_key(static_cast<C>(value)) ^ turn); };
  const bool few = rows.k <= rows.n / 8;
  scatter_impl::Pairs<K> pairs(few ? 0 : static_cast<std::size_t>(rows.n));
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const row = x + rows.start(r, rows.n);
    if (few) {
      Best<K> best(pairs, rows.k);
      K keys[Best<K>::kBlock];
      for (std::int64_t first = 0; first < rows.n; first += Best<K>::kBlock) {
        const std::int64_t n = std::min(Best<K>::kBlock, rows.n - first);
        if (rows.inner == 1)  // in vectors
          for (std::int64_t i = 0; i < n; ++i) keys[i] = key(row[first + i]);
        else
          for (std::int64_t i = 0; i < n; ++i) keys[i] = key(row[(first + i) * rows.inner]);
        best.add(keys, n, first);
      }
      best.end();
    } else {
      for (std::int64_t i = 0; i < rows.n; ++i)
        pairs[static_cast<std::size_t>(i)] = {key(row[i * rows.inner]), static_cast<std::uint32_t>(i)};
    }
    choose(pairs, rows.k);
    const std::int64_t to = rows.start(r, rows.k);
    for (std::int64_t j = 0; j < rows.k; ++j) {
      const std::int64_t from = pairs[static_cast<std::size_t>(j)].place;
      values[to + j * rows.inner] = row[from * rows.inner];
      indices[to + j * rows.inner] = from;
    }
  }
}

template <class T>
void forward(const T* x, T* values, std::int64_t* indices, const Choice& rows, bool descending) {
  parallel_for(rows.rows, std::max<std::int64_t>(1, 4096 / rows.n),
               [&](std::int64_t begin, std::int64_t end) {
                 forward_rows(x, values, indices, rows, descending, begin, end);
               });
}

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& x = f.in(0);
  const Choice rows(f.op, f.attrs_view, x.shape(), f.out().shape());
  CT_CHECK(rows.n <= UINT32_MAX, ShapeError, f.op.name, "x is ", describe(x),
           "; rows have at most 2^32 - 1 elements");
  // A bool is a byte of 0 or 1.
  const DType dtype = x.dtype() == DType::boolean ? DType::u8 : x.dtype();
  visit_numeric(f.op.name, dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, double>)  // that is topk_plain.cpp's
      forward(static_cast<const T*>(x.raw_data()), static_cast<T*>(f.out().raw_data()),
              f.out(1).data<std::int64_t>(), rows, f.attrs<Attrs>().descending);
  });
}

void backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  zero_bytes(dx.raw_data(), dx.device(), static_cast<std::size_t>(dx.nbytes()));
  const Tensor& g = b.grad();
  if (g.numel() == 0) return;
  const Choice rows(b.op, b.attrs_view, dx.shape(), g.shape());
  const std::int64_t* indices = b.out(1).data<std::int64_t>();
  visit_fast(b.op.name, dx.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = g.data<T>();
    T* to = dx.data<T>();
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t j = 0; j < rows.k; ++j) {
        const std::int64_t at = rows.start(r, rows.k) + j * rows.inner;
        to[rows.start(r, rows.n) + indices[at] * rows.inner] = from[at];
      }
  });
}

}  // namespace
}  // namespace ct::sorting

CT_KERNELS(cpu, topk, {"topk", sorting::forward_cpu, sorting::backward_cpu},
           {"sort", sorting::forward_cpu, sorting::backward_cpu})
