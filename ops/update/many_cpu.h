#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/walk/convert_cpu.h>
#include <cotangent/ops/update/many_internal.h>

// CPU. All tensors are laid end to end, and that line is cut into chunks of one size, whatever the tensors:
// a hundred small ones are one chunk and wake no thread. Sums per chunk are cut at the same places for any number of
// threads, hence have the same bits. The loops are plain and leave the vectors to the compiler.

namespace ct::update::many {

inline constexpr std::int64_t kChunk = 1 << 14;
inline constexpr std::int64_t kAlign = 64;  // tensors start on multiples of it, so that vectors stay aligned

/// Start of each entry on the line; the last element is its length.
inline std::span<const std::int64_t> lay_out(std::span<const Entry> entries) {
  std::vector<std::int64_t>& starts = scratch_starts();
  std::int64_t at = 0;
  for (const Entry& e : entries) {
    starts.push_back(at);
    at += (e.count + kAlign - 1) / kAlign * kAlign;
  }
  starts.push_back(at);
  return starts;
}

/// Cut of updates, which sum nothing: into as many chunks for each thread, so that a thread that is done sooner takes
// little from the part of another, whose core has it in its cache from the backward pass before, and for the forward pass
// after. The cuts move with the number of threads, the bits do not: at multiples of kAlign every vector holds the same
// elements.
inline std::int64_t update_chunk(std::int64_t size) {
  constexpr int kChunksPerThread = 8;
  const int threads = num_threads();
  if (size <= kChunk || threads == 1) return kChunk;
  const std::int64_t chunk = size / (threads * kChunksPerThread) / kAlign * kAlign + kAlign;
  return std::clamp(chunk, kChunk / 4, kChunk);
}

/// Calls body(chunk, entry, begin, end) for every piece of an entry in every chunk, chunks in parallel.
template <class Body>
void for_pieces(std::span<const Entry> entries, std::span<const std::int64_t> starts, Body body,
                std::int64_t chunk_size = kChunk) {
  parallel_chunks(starts.back(), chunk_size, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    auto k = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end() - 1, begin) -
                                      starts.begin() - 1);
    for (; k < entries.size() && starts[k] < end; ++k) {
      const std::int64_t from = std::max(begin - starts[k], std::int64_t{0});
      const std::int64_t to = std::min(end - starts[k], entries[k].count);
      if (from < to) body(chunk, entries[k], from, to);
    }
  });
}

inline constexpr std::int64_t kBlock = 1024;  // 16-bit elements that are f32 for a while, in the first cache

// Elements of a dtype that is calculated with in C: 16-bit ones in f32, whose code serves them, too.
template <class C>
struct Elements {
  DType dtype;

  bool narrow() const { return dtype != dtype_of<C>; }
  // Elements from number `at` on, as they are calculated with, and back.
  void widen(const void* from, std::int64_t at, std::int64_t n, C* to) const {
    walk::converter(dtype_of<C>, dtype)(to, static_cast<const std::uint16_t*>(from) + at, n);
  }
  void round(const C* from, std::int64_t n, void* to, std::int64_t at) const {
    walk::converter(dtype, dtype_of<C>)(static_cast<std::uint16_t*>(to) + at, from, n);
  }
};

// Calls f(Elements<double>) or f(Elements<float>).
template <class F>
void visit_elements(const char* op, DType dtype, const F& f) {
  visit_floating(op, dtype, [&]<class T>(TypeTag<T>) { f(Elements<compute_t<T>>{dtype}); });
}

// Calls f(values, n) for blocks of a gradient's elements as they are calculated with.
template <class C, class F>
void for_blocks(const Elements<C>& elements, const void* g, std::int64_t begin, std::int64_t end, F f) {
  if (!elements.narrow()) return f(static_cast<const C*>(g) + begin, end - begin);
  alignas(64) C values[kBlock];
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    elements.widen(g, at, n, values);
    f(values, n);
  }
}

/// Replaces elements x of a gradient by f(x).
template <class C, class F>
void change_piece(const Elements<C>& elements, const Entry& e, std::int64_t begin, std::int64_t end, F f) {
  alignas(64) C values[kBlock];
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    C* x = elements.narrow() ? values : static_cast<C*>(e.grad) + at;
    if (elements.narrow()) elements.widen(e.grad, at, n, x);
    for (std::int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
    if (elements.narrow()) elements.round(x, n, e.grad, at);
  }
}

/// The same of every gradient.
template <class F>
void change_all(const char* op, DType dtype, std::span<const Entry> entries, F f) {
  const auto starts = lay_out(entries);
  visit_elements(op, dtype, [&]<class C>(const Elements<C>& elements) {
    for_pieces(entries, starts, [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
      change_piece(elements, e, begin, end, f);
    });
  });
}

}  // namespace ct::update::many
