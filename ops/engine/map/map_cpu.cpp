#include <cotangent/ops/engine/map/map_cpu.h>

#include <algorithm>
#include <array>

#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/map/blocks_cpu.h>
#include <cotangent/ops/engine/map/lookup_cpu.h>

namespace ct::map {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements brought into the L1 cache at a time
constexpr std::int64_t kLongRow = 64;  // from here on, blocks end with their row and inputs are read in place

struct Call {
  TileFn tile;
  std::size_t compute_size;  // of the inputs in a block
  std::size_t result_size;   // of the output in a block
  const Parameters* parameters;
  int inputs, outputs;
  int drawn;  // which input is a draw; -1: none
  const Draw* draw;
  Layout layout;
  Operand in[kMaxInputs];
  Operand out[kMaxOutputs];  // without data where it is not wanted
};

// Too large for small stacks.
struct alignas(64) Blocks {
  std::byte buffers[kMaxOperands][2 * kBlock * 8], narrowed[kBlock * 8];
};

// Elements [begin, end), block by block.
void run_blocks(const Call& call, std::int64_t begin, std::int64_t end) {
  auto& [buffers, narrowed] = per_thread<Blocks>();
  Filled filled[kMaxInputs];
  const Layout& layout = call.layout;
  const int inner = layout.rank - 1;
  const std::int64_t row = layout.sizes[inner];
  const bool by_row = row >= kLongRow;
  Tile tile;
  tile.parameters = call.parameters;
  if (call.draw && call.draw->threshold > 0) tile.last = static_cast<std::uint32_t>(call.draw->threshold - 1);
  bool repeats[kMaxInputs] = {};
  for (int k = 0; k < call.inputs; ++k) {
    const Operand& in = call.in[k];
    if (k == call.drawn) {
      // Where nothing is drawn, words beyond the last.
      if (call.draw->threshold == 0)
        std::fill_n(reinterpret_cast<std::uint32_t*>(buffers[k]), kBlock, ~std::uint32_t{0});
    } else if (in.scalar) {
      fill(filled[k], in.run, in.data, call.compute_size);
    } else if (!in.linear && in.period > 0 && in.period <= kBlock && !(by_row && in.as_is)) {
      // Written out once, far enough to start a block anywhere in it.
      repeats[k] = true;
      move_block(layout, in, buffers[k], call.compute_size, 0, std::min(kBlock + in.period, layout.numel));
    }
  }
  for (std::int64_t i = begin; i < end; i += tile.n) {
    tile.n = std::min(kBlock, end - i);
    if (by_row) tile.n = std::min(tile.n, row - i % row);
    for (int k = 0; k < call.inputs; ++k) {
      const Operand& in = call.in[k];
      tile.step[k] = 1;
      if (k == call.drawn) {
        auto* words = reinterpret_cast<std::uint32_t*>(buffers[k]);
        if (call.draw->threshold > 0)
          fill_words(call.draw->state, static_cast<std::uint64_t>(i), tile.n, words);
        tile.in[k] = words;
      } else if (in.scalar) {
        tile.in[k] = filled[k].bytes;
        tile.step[k] = 0;
      } else if (in.linear && in.as_is) {
        tile.in[k] = in.data + i * static_cast<std::int64_t>(in.size);
      } else if (repeats[k]) {
        tile.in[k] = buffers[k] + static_cast<std::size_t>(i % in.period) * call.compute_size;
      } else if (by_row && (in.strides[inner] == 0 || (in.strides[inner] == 1 && in.as_is))) {
        char* const at = in.data + Cursor(layout, in.strides, i).offset * static_cast<std::int64_t>(in.size);
        tile.step[k] = in.strides[inner];
        if (tile.step[k] == 0) fill(filled[k], in.run, at, call.compute_size);
        tile.in[k] = tile.step[k] == 0 ? static_cast<void*>(filled[k].bytes) : at;
      } else {
        move_block(layout, in, buffers[k], call.compute_size, i, tile.n);
        tile.in[k] = buffers[k];
      }
    }
    const auto direct = [](const Operand& out) {
      return out.data && out.linear && out.as_is && !out.streams;
    };
    for (int m = 0; m < call.outputs; ++m) {
      const Operand& out = call.out[m];
      tile.out[m] = direct(out) ? out.data + i * static_cast<std::int64_t>(out.size)
                                : reinterpret_cast<char*>(buffers[kMaxInputs + m]);
    }
    tile.streams = std::all_of(call.out, call.out + call.outputs, [&](const Operand& out) {
      return out.streams && out.as_is && simd::streams_to(tile.out[&out - call.out]);
    });
    call.tile(tile);
    for (int m = 0; m < call.outputs; ++m) {
      const Operand& out = call.out[m];
      std::byte* const block = buffers[kMaxInputs + m];
      if (!out.data || direct(out)) continue;
      if (out.streams) {
        out.run(block, narrowed, 1, tile.n);
        simd::stream(out.data + i * static_cast<std::int64_t>(out.size), narrowed,
                     static_cast<std::size_t>(tile.n) * out.size);
      } else {
        move_block(layout, out, block, call.result_size, i, tile.n);
      }
    }
  }
  if (std::any_of(call.out, call.out + call.outputs, [](const Operand& out) { return out.streams; }))
    simd::fence();
}

// A formula of one 16-bit number, of many, by a table of all its results.
void run_table(const Tiles& tiles, const Operand& out, const Operand& in, const Tensor& x, std::int64_t n,
               const Parameters& parameters) {
  Tensor table = Tensor::allocate({kTableSize}, x.dtype(), Device{});
  auto* const bits = static_cast<std::uint16_t*>(table.raw_data());
  for (std::int64_t i = 0; i < kTableSize; ++i) bits[i] = static_cast<std::uint16_t>(i);
  run_cpu(tiles, table, std::array<const Tensor*, 1>{&table}, parameters);
  parallel_for(n, kTableWorth / 8, [&](std::int64_t begin, std::int64_t end) {
    std::uint16_t block[kBlock];
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const std::int64_t count = std::min(kBlock, end - i);
      void* const to = out.data + 2 * i;
      look_up(bits, in.data + 2 * i, count, out.streams ? block : to);
      if (out.streams) simd::stream(to, block, static_cast<std::size_t>(2 * count));
    }
    if (out.streams) simd::fence();
  });
}

constexpr DType kComputeDType[] = {DType::f32, DType::f64, DType::i64};

// Floats that a formula has no tile for are computed in f64.
Compute computed_in(const Tiles& tiles, DType dtype) {
  const Compute compute = compute_type(dtype);
  return compute == Compute::f32 && !tiles.f32 ? Compute::f64 : compute;
}

TileFn tile_of(const Tiles& tiles, Compute compute) {
  const TileFn tile = compute == Compute::f32 ? tiles.f32 : compute == Compute::f64 ? tiles.f64 : tiles.i64;
  CT_ASSERT(tile != nullptr);
  return tile;
}

}  // namespace

[[gnu::noinline]] void run_cpu(const Tiles& tiles, std::span<const Tensor* const> outputs,
                               std::span<const Tensor* const> given, const Parameters& parameters,
                               const Draw* draw) {
  PackedInputs contiguous_inputs(given);
  const std::span<const Tensor* const> inputs = contiguous_inputs;
  const Compute compute = computed_in(tiles, dtype_of_call(inputs));
  // A number has the value that it would have in f32, also beside f32 that is computed in f64.
  const bool rounds = compute_type(dtype_of_call(inputs)) == Compute::f32;
  const Parameters numbers =
      rounds ? Parameters{parameters.p.to<float>(), parameters.q.to<float>()} : parameters;
  Call call;
  call.tile = tile_of(tiles, compute);
  const DType type = kComputeDType[static_cast<int>(compute)];
  call.compute_size = size_of(type);
  call.parameters = &numbers;
  call.inputs = static_cast<int>(inputs.size());
  call.outputs = static_cast<int>(outputs.size());
  call.layout = make_layout(outputs, inputs);
  if (call.layout.numel == 0) return;
  const auto operand = [&](const Tensor& t, int k, bool as_is, Run run) {
    return Operand{static_cast<char*>(t.raw_data()),
                   size_of(t.dtype()),
                   as_is,
                   false,
                   call.layout.linear(k),
                   call.layout.scalar(k),
                   period_of(call.layout, k),
                   run,
                   call.layout.strides[k]};
  };
  for (int k = 0; k < call.inputs; ++k) {
    const Tensor* t = inputs[static_cast<std::size_t>(k)];
    if (absent(t)) {
      static bool one = true;
      call.in[k] = {reinterpret_cast<char*>(&one),         1, false, false, false, true, 0,
                    runs_of(DType::boolean, compute).read, {}};
    } else {
      call.in[k] = operand(*t, call.outputs + k, t->dtype() == type, runs_of(t->dtype(), compute).read);
    }
  }
  const Draw now = draw ? Draw{draw->state.now(), draw->threshold} : Draw{};
  call.draw = draw ? &now : nullptr;
  call.drawn = draw ? call.inputs++ : -1;
  call.result_size = tiles.predicate ? 1 : call.compute_size;
  for (int m = 0; m < call.outputs; ++m) {
    const Tensor* t = outputs[static_cast<std::size_t>(m)];
    if (absent(t))
      call.out[m].data = nullptr;
    else if (tiles.predicate)  // the tile writes bools
      call.out[m] = operand(*t, m, true, [](void* block, void* to, std::int64_t stride, std::int64_t n) {
        write_run(static_cast<bool*>(to), static_cast<const bool*>(block), stride, n);
      });
    else
      call.out[m] = operand(*t, m, t->dtype() == type, runs_of(t->dtype(), compute).write);
    Operand& out = call.out[m];
    const auto same = [&](const Operand& in) {
      return in.data == out.data;
    };  // in place: the lines have been read
    out.streams = out.data && out.linear &&
                  simd::exceeds_caches(static_cast<std::size_t>(call.layout.numel) * out.size) &&
                  std::none_of(call.in, call.in + inputs.size(), same);
  }
  const bool one_to_one =
      call.inputs == 1 && call.outputs == 1 && !draw && call.in[0].linear && call.out[0].linear;
  if (one_to_one && call.in[0].size == 2 && inputs[0]->dtype() == outputs[0]->dtype() && !tiles.i64 &&
      call.layout.numel >= kTableWorth)
    return run_table(tiles, call.out[0], call.in[0], *inputs[0], call.layout.numel, parameters);
  parallel_for(call.layout.numel, tiles.grain,
               [&](std::int64_t begin, std::int64_t end) { run_blocks(call, begin, end); });
}

namespace {
// Fast path for small calls, whose set-up costs more than the work: all operands dense f32 of one size. Returns false if the
// call does not qualify.
bool run_small(const Tiles& tiles, Tensor& out, std::span<const Tensor* const> inputs,
               const Parameters& parameters) {
  const auto dense = [](const TensorImpl& t) { return t.contiguous && t.dtype == DType::f32; };
  const auto data = [](const TensorImpl& t) { return static_cast<float*>(t.storage->data()) + t.offset; };
  const TensorImpl& y = *out.impl();
  if (!tiles.f32 || tiles.predicate || y.numel > tiles.grain || y.numel == 0 || !dense(y)) return false;
  Tile tile;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const TensorImpl& x = *inputs[k]->impl();
    if (!dense(x) || x.numel != y.numel) return false;
    tile.in[k] = data(x);
    tile.step[k] = 1;
  }
  tile.out[0] = data(y);
  tile.n = y.numel;
  tile.parameters = &parameters;
  tiles.f32(tile);
  return true;
}

[[gnu::noinline]] void run_large(const Tiles& tiles, Tensor& out, std::span<const Tensor* const> inputs,
                                 const Parameters& parameters) {
  const std::int64_t n = out.numel();
  if (n == 0) return;
  const DType dtype = inputs.back()->dtype();
  const Compute compute = computed_in(tiles, dtype);
  bool plain = dtype == kComputeDType[static_cast<int>(compute)] && out.is_contiguous() &&
               (tiles.predicate || out.dtype() == dtype);
  Tile tile;
  Filled filled[kMaxInputs];
  for (std::size_t k = 0; k < inputs.size() && plain; ++k) {
    const Tensor& x = *inputs[k];
    tile.in[k] = x.raw_data();
    tile.step[k] = walks_along(x, n);
    plain = x.dtype() == dtype;
    if (tile.step[k] == 1 || !plain) continue;
    plain = x.numel() == 1 || std::ranges::count(x.strides(), 0) == x.dim();
    if (plain) fill(filled[k], runs_of(dtype, compute).read, x.raw_data(), size_of(dtype));
    tile.in[k] = filled[k].bytes;
  }
  if (!plain) return run_cpu(tiles, std::array{&out}, inputs, parameters);

  const TileFn tile_fn = tile_of(tiles, compute);
  tile.parameters = &parameters;
  tile.n = n;
  tile.out[0] = out.raw_data();
  if (n <= tiles.grain) return tile_fn(tile);
  tile.streams =
      simd::exceeds_caches(static_cast<std::size_t>(out.nbytes())) && simd::streams_to(tile.out[0]) &&
      std::count(tile.in, tile.in + inputs.size(), tile.out[0]) == 0;  // in place: the lines are there
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t result_size = tiles.predicate ? 1 : size;
  parallel_for(n, tiles.grain, [&](std::int64_t begin, std::int64_t end) {
    Tile part = tile;
    part.n = end - begin;
    part.out[0] = static_cast<char*>(tile.out[0]) + begin * result_size;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      part.in[k] = static_cast<const char*>(tile.in[k]) + begin * size * tile.step[k];
    tile_fn(part);
    if (part.streams) simd::fence();
  });
}

}  // namespace

void run_cpu(const Tiles& tiles, Tensor& out, std::span<const Tensor* const> inputs,
             const Parameters& parameters) {
  if (!run_small(tiles, out, inputs, parameters)) run_large(tiles, out, inputs, parameters);
}

void unary_backward_cpu(const Backward& b, const Tiles& tiles, Saved saved) {
  if (!b.needs(0)) return;
  const Tensor* inputs[2] = {&b.grad()};
  if (saved == Saved::x) inputs[1] = &b.in(0);
  if (saved == Saved::y) inputs[1] = &b.out();
  run_cpu(tiles, b.grad_in(0), {inputs, saved == Saved::none ? 1u : 2u}, parameters_of(b.attrs_view));
}

void operands_backward_cpu(const Backward& b, std::span<const OperandFormula> formulas) {
  int i = 0;
  for (const OperandFormula& f : formulas)
    operand_gradient(b, i++, f.saves, f.passes_on, [&](Tensor& out, std::span<const Tensor* const> inputs) {
      run_cpu(f.tiles, out, inputs, parameters_of(b.attrs_view));
    });
}

}  // namespace ct::map
