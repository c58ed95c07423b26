#pragma once

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/sorting/sort.h>

#include "bench/ladders/ladder.h"

// How often each of 256 values stands among n numbers. Shared by both devices. Half of the numbers are small, as bytes of a
// picture or of a text are: some places are added to by far more often than others.

namespace ct::ladder::histogram {

inline constexpr int kValues = 256;

inline Tensors counted(const Tensors& in) { return {bincount(in[0], std::nullopt, kValues)}; }

/// The ladder but for its timed cases. Input x, i32; output counts, i64.
inline Ladder described(DeviceType device, std::vector<Rung> rungs) {
  for (Rung& rung : rungs) rung.dtypes = {i32};
  return {.name = "histogram",
          .what = "counts of 256 values among n numbers",
          .device = device,
          .unit = Unit::bytes,
          .small = {{i32, {100'003}}, {i32, {1}}},
          .timed = {},
          .work = [](const Case& c) { return 4.0 * static_cast<double>(c.size[0]); },
          .inputs = [](const Case& c) -> Tensors {
            const Tensor x = randint(0, kValues, {c.size[0]}, {.dtype = i32});
            x.narrow(0, 0, c.size[0] / 2).copy_(randint(0, 4, {c.size[0] / 2}, {.dtype = i32}));
            return {x};
          },
          .plain = counted,
          .library = counted,
          .library_name = "ct::bincount",
          .rungs = std::move(rungs)};
}

}  // namespace ct::ladder::histogram
