#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include <cotangent/core/op/kernel_records.h>

// An op's own kernel of rows on a GPU with formulas in the place of its load and its store: the device code that the library is
// built from is compiled once more, as a text, with the formulas in it (map/chain.h). The op plans its launch as ever, so the order of
// its sums, and with it each bit, stays.

namespace ct::detail {

/// A kernel as a text has it: the call of a __device__ template, which goes over vectors of `vector` elements.
struct KernelText {
  const char* headers;   // one behind the other, without what they include
  std::string call;      // "normalization::forward_rows<true, 2>(a, load, store)"
  std::string argument;  // the type of a
  int vector;
  bool loads = true, stores = true;  // of a call that takes several launches not each does both
};

/// The name of an element's type there.
template <class T>
constexpr const char* type_text() {
  return sizeof(T) == 8 ? "double" : sizeof(T) == 4 ? "float" : std::is_same_v<T, Half> ? "Half" : "BFloat16";
}

/// Formulas around a call of an op's kernel.
struct Around {
  enum class Ask : std::uint8_t { fits, ready, run };
  Ask ask = Ask::fits;

  virtual ~Around() = default;
  /// Whether there is something to compile; else the launch is the op's.
  virtual bool wraps(const KernelText& text) const = 0;
  /// In the place of the op's launch. False where the kernel does not take these formulas, or (Ask::ready) does not compile.
  /// Ask::run alone launches.
  virtual bool launch(const char* op, const KernelText& text, unsigned blocks, unsigned threads,
                      unsigned threads_y, std::size_t shared, const void* argument,
                      std::size_t bytes) const = 0;
};

/// Ops whose kernels on a GPU can be wrapped so. One tensor is loaded, input 0 or the cotangent, and one stored, output 0 (a loss: that
/// of engine/rows/record.h) or the gradient of input 0. The functions are the op's kernels, but for null: false where the shape is one for another kernel.
struct AroundRecord {
  bool stores = true;  // false: results have another shape, and no formulas behind them
  bool (*forward)(const Forward& f, const Around* around) = nullptr;
  bool (*backward)(const Backward& b, const Around* around) = nullptr;
};

/// Behind an op's name: the entry of a table of CUDA's kernels that hands out its record.
inline constexpr std::string_view kAround = " around";

/// The record of an op, null where its kernels take no formulas.
inline const AroundRecord* around_of(const OpDef& op) {
  return static_cast<const AroundRecord*>(record_of(op, kAround, true));
}

}  // namespace ct::detail
