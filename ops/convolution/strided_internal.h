#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <cotangent/core/cuda/divider.h>
#include <cotangent/ops/convolution/convolution_internal.h>

// A convolution with a stride s as one of stride 1 (strided.cu). Elements of x that lie s apart are an image of their own,
// a phase, and every tap sees one phase: so the phases take the place of channels, and of the taps each keeps its own.
// Compiled for the host too, where a test goes through it.

namespace ct::convolution {

/// The phases of an axis: element h of phase k is element h * stride + offset[k] of x, 0 outside of x.
struct Phases {
  static constexpr int kMost = 8, kMostTaps = 16;

  gpu::Divider stride, sizes;       // of x, and what a phase has of elements
  int in = 0, size = 0, count = 0;  // elements of x and of a phase, phases that are seen
  int taps = 0, kernel = 0;         // of the convolution, and of that of stride 1
  int step = 1, before = 0;         // dilation and padding of that of stride 1
  std::array<int, kMost> offset{};
  std::array<std::int8_t, kMostTaps> phase{}, tap{};  // of each tap: the phase it sees, and its place there
  std::uint32_t at =
      ~0u;  // where no element is in two phases: four bits for each residue of a place by the stride

  static constexpr int kNone = 15;
  /// The phase that elements of this residue are in, or kNone.
  CT_HD int phase_at(int residue) const { return static_cast<int>(at >> 4 * residue & 15); }
  /// Element h of phase k in x, or -1.
  CT_HD int seen(int k, int h) const {
    const int i = h * static_cast<int>(stride.divisor) + offset[static_cast<std::size_t>(k)];
    return i >= 0 && i < in ? i : -1;
  }
  /// The axis of the convolution of stride 1.
  Axis axis(std::int64_t out) const { return {size, out, kernel, 1, before, step}; }
};

/// The phases that the taps of an axis see, with `kernel` taps each; 0 for as many as needed ("whole": no element of x is in
/// two phases). False if they are too many.
inline bool find_phases(const Axis& a, int kernel, Phases& p) {
  constexpr std::int64_t kLarge = 1 << 28;
  if (a.stride > Phases::kMost || a.kernel > Phases::kMostTaps ||
      std::max({a.in, a.out, a.padding, a.dilation * a.kernel}) > kLarge)
    return false;
  const int stride = static_cast<int>(a.stride), dilation = static_cast<int>(a.dilation);
  const int padding = static_cast<int>(a.padding), before = (padding + stride - 1) / stride;
  p.taps = static_cast<int>(a.kernel);
  p.step = dilation % stride == 0 ? dilation / stride : 1;
  const auto place = [&](int i) {
    return i * dilation - padding + before * stride;
  };  // from -before on, in elements
  int needed = 0;
  for (int i = 0; i < p.taps; ++i) needed = std::max(needed, place(i) / stride / p.step + 1);
  p.kernel = kernel > 0 ? kernel : needed;
  if (p.kernel > 127) return false;
  const bool whole = p.kernel >= needed;
  p.in = static_cast<int>(a.in);
  p.before = whole ? before : 0;
  p.size = static_cast<int>(whole ? (a.in + stride - 1) / stride : a.out + (p.kernel - 1) * p.step);
  p.stride = gpu::Divider(static_cast<std::uint32_t>(stride));
  p.sizes = gpu::Divider(static_cast<std::uint32_t>(p.size));
  for (int i = 0; i < p.taps; ++i) {
    const int residue = place(i) % stride, tap = place(i) / stride / p.step, run = tap / p.kernel;
    const int offset = residue + (whole ? 0 : stride * (run * p.kernel * p.step - before));
    const auto known = std::find(p.offset.begin(), p.offset.begin() + p.count, offset) - p.offset.begin();
    if (known == p.count) {
      if (p.count == Phases::kMost) return false;
      p.offset[static_cast<std::size_t>(p.count++)] = offset;
    }
    p.phase[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(known);
    p.tap[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(tap % p.kernel);
    const std::uint32_t bits = static_cast<std::uint32_t>(known) << 4 * residue, all = 15u << 4 * residue;
    if (whole) p.at = (p.at & ~all) | bits;
  }
  return true;
}

/// The convolution of stride 1 of these phases. Channel c of phases (k, l) is channel (k * across.count + l) * C + c.
inline Geometry of_phases(const Geometry& g, const Phases& down, const Phases& across) {
  Geometry to = g;
  to.channels = g.channels * down.count * across.count;
  to.height = down.axis(g.height.out), to.width = across.axis(g.width.out);
  return to;
}

/// Computes a part of a convolution with a stride by `run`, of one without; false where that would not pay.
bool run_strided(const Job& job, Run run);

}  // namespace ct::convolution
