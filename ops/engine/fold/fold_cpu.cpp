#include <cotangent/ops/engine/fold/fold_cpu.h>

#include <optional>

#include <cotangent/core/memory/scratch_internal.h>

namespace ct::fold {
namespace {

constexpr std::int64_t kMaxPieces = 256;
constexpr int kSlot = detail::kSharedScratch + 1;  // a convolution sums what lies in the other

// Space for partial results.
class Partials {
 public:
  Partials(int slot, std::int64_t n, std::int64_t size)
      : size_(size), bytes_(detail::scratch<std::byte>(slot, n * size)) {}
  std::byte* at(std::int64_t i) const { return bytes_ + i * size_; }

 private:
  std::int64_t size_;
  std::byte* bytes_;
};

// Number of elements of one output that a piece takes. Outputs are cut only if there are too few to go
// round.
std::int64_t piece_size(std::int64_t outputs, std::int64_t count) {
  if (outputs >= 64 || count <= 2 * kChunkWork) return std::max<std::int64_t>(count, 1);
  return std::max(kChunkWork, (count + kMaxPieces - 1) / kMaxPieces);
}

void walk_rows(const Plan& plan, const Steps& fold) {
  const std::int64_t step = piece_size(plan.outputs, plan.count);
  const std::int64_t pieces = chunk_count(plan.count, step);
  if (pieces <= 1) {
    const std::int64_t grain = std::max<std::int64_t>(1, kChunkWork / std::max<std::int64_t>(plan.count, 1));
    parallel_for(plan.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
      constexpr int kTile = 64;
      alignas(16) std::byte acc[kTile * kMaxAcc];
      for (std::int64_t k = begin; k < end; k += kTile) {
        const int n = static_cast<int>(std::min<std::int64_t>(kTile, end - k));
        fold.rows(k, n, 0, plan.count, acc);
        fold.write(acc, k, n);
      }
    });
    return;
  }
  const Partials partials(kSlot, plan.outputs * pieces, static_cast<std::int64_t>(fold.acc_size));
  parallel_for(plan.outputs * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % pieces * step;
      fold.rows(item / pieces, 1, first, std::min(first + step, plan.count), partials.at(item));
    }
  });
  for (std::int64_t k = 0; k < plan.outputs; ++k) {
    std::byte* acc = partials.at(k * pieces);
    for (std::int64_t p = 1; p < pieces; ++p) fold.merge(acc, partials.at(k * pieces + p), 1);
    fold.write(acc, k, 1);
  }
}

void walk_columns(const Plan& plan, const Steps& fold) {
  const std::int64_t width = plan.kept[0].size, tiles = chunk_count(width, kColumns);
  const std::int64_t items = plan.kept[1].size * tiles;
  const std::int64_t tile_width = std::min<std::int64_t>(width, kColumns);
  const std::int64_t step =
      items >= 64 || plan.count * tile_width <= 2 * kChunkWork
          ? std::max<std::int64_t>(plan.count, 1)
          : std::max({kChunkWork / tile_width, (plan.count + kMaxPieces - 1) / kMaxPieces, std::int64_t{64}});
  const std::int64_t pieces = chunk_count(plan.count, step);

  const auto columns_of = [&](std::int64_t item) {
    return static_cast<int>(std::min<std::int64_t>(kColumns, width - item % tiles * kColumns));
  };
  const auto fold_tile = [&](std::int64_t item, std::int64_t begin, std::int64_t end, std::byte* acc) {
    fold.columns(item / tiles * plan.kept[1].stride + item % tiles * kColumns, columns_of(item), begin, end,
                 acc);
  };
  const auto write_tile = [&](std::int64_t item, const std::byte* acc) {
    const std::int64_t first = item / tiles * width + item % tiles * kColumns;
    for (int j = 0, n = columns_of(item); j < n; j += kBlock)
      fold.write(acc + static_cast<std::size_t>(j) * fold.acc_size, first + j, std::min(kBlock, n - j));
  };
  if (pieces <= 1) {
    const std::int64_t grain =
        std::max<std::int64_t>(1, kChunkWork / std::max<std::int64_t>(plan.count * tile_width, 1));
    parallel_for(items, grain, [&](std::int64_t begin, std::int64_t end) {
      // Few partials lie on the stack, many on the heap: stacks of a program's threads may be small.
      alignas(64) std::byte few[4096];
      std::optional<Partials> many;
      const auto size = static_cast<std::int64_t>(fold.acc_size);
      if (tile_width * size > static_cast<std::int64_t>(sizeof few))
        many.emplace(detail::kCallersScratch, tile_width, size);
      std::byte* const acc = many ? many->at(0) : few;
      for (std::int64_t item = begin; item < end; ++item) {
        fold_tile(item, 0, plan.count, acc);
        write_tile(item, acc);
      }
    });
    return;
  }
  const Partials partials(kSlot, items * pieces * tile_width, static_cast<std::int64_t>(fold.acc_size));
  parallel_for(items * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % pieces * step;
      fold_tile(i / pieces, first, std::min(first + step, plan.count), partials.at(i * tile_width));
    }
  });
  for (std::int64_t item = 0; item < items; ++item) {
    std::byte* acc = partials.at(item * pieces * tile_width);
    for (std::int64_t p = 1; p < pieces; ++p)
      fold.merge(acc, partials.at((item * pieces + p) * tile_width), columns_of(item));
    write_tile(item, acc);
  }
}

}  // namespace

void walk_plan(const Plan& plan, const Steps& steps) {
  if (plan.outputs == 0) return;
  if (plan.count > 0 && plan.columns()) {
    walk_columns(plan, steps);
  } else {
    walk_rows(plan, steps);
  }
}

}  // namespace ct::fold
