#include <cotangent/core/base/rng.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/philox.h>
#include <cotangent/core/base/step_draws_internal.h>

namespace ct {

namespace {

constinit thread_local GeneratorState* t_step = nullptr;

// Where a generator counts: in a recorded step the default one does apart.
GeneratorState& counted(const Generator& generator, GeneratorState& own) {
  return t_step && &generator == &default_generator() ? *t_step : own;
}

}  // namespace

detail::StepDraws::StepDraws(const GeneratorState* live) noexcept
    : state{0, 0, live}, outer_(std::exchange(t_step, &state)) {}
detail::StepDraws::~StepDraws() { t_step = outer_; }

GeneratorState Generator::state() const {
  const std::lock_guard lock(lock_);
  return counted(*this, const_cast<Generator*>(this)->state_);
}

void Generator::set_state(const GeneratorState& state) {
  const std::lock_guard lock(lock_);
  counted(*this, state_) = state;
}

GeneratorState Generator::reserve(std::uint64_t draws) {
  const std::lock_guard lock(lock_);
  GeneratorState& state = counted(*this, state_);
  const GeneratorState first = state;
  state.offset += draws;
  return first;
}

bool Generator::give_back(const GeneratorState& draw) {
  const std::lock_guard lock(lock_);
  GeneratorState& state = counted(*this, state_);
  if (state != GeneratorState{draw.seed, draw.offset + 1, draw.live}) return false;
  state = draw;
  return true;
}

namespace {

// Blocks are made kBatch at a time, with all words of one lane side by side: every loop below then runs over
// independent elements of plain arrays, which the compiler turns into vector code.
constexpr int kBatch = 64;

struct Batch {
  alignas(64) std::uint32_t word[4][kBatch];

  void draw(const GeneratorState& draw, std::uint64_t first_block) {
    using detail::high_word, detail::low_word;
    const std::uint32_t c2 = low_word(draw.offset), c3 = high_word(draw.offset);
    const std::uint32_t k0 = low_word(draw.seed), k1 = high_word(draw.seed);
    for (int j = 0; j < kBatch; ++j) {
      const std::uint64_t block = first_block + static_cast<std::uint64_t>(j);
      const PhiloxBlock b = philox4x32(low_word(block), high_word(block), c2, c3, k0, k1);
      word[0][j] = b.word[0];
      word[1][j] = b.word[1];
      word[2][j] = b.word[2];
      word[3][j] = b.word[3];
    }
  }

  std::uint64_t wide(int pair, int j) const {
    return std::uint64_t{word[2 * pair][j]} << 32 | word[2 * pair + 1][j];
  }
};

struct Words {
  using T = std::uint32_t;
  static void full(const Batch& b, T* out) {
    for (int j = 0; j < kBatch; ++j)
      for (int lane = 0; lane < 4; ++lane) out[4 * j + lane] = b.word[lane][j];
  }
};

template <class Real>
struct Uniform;

template <>
struct Uniform<float> {
  using T = float;
  static void full(const Batch& b, T* out) {
    for (int j = 0; j < kBatch; ++j)
      for (int lane = 0; lane < 4; ++lane) out[4 * j + lane] = uniform_from(b.word[lane][j]);
  }
};

template <>
struct Uniform<double> {
  using T = double;
  static void full(const Batch& b, T* out) {
    for (int j = 0; j < kBatch; ++j) {
      out[2 * j] = uniform_from(b.wide(0, j));
      out[2 * j + 1] = uniform_from(b.wide(1, j));
    }
  }
};

template <class Real>
struct Normal;

template <>
struct Normal<float> {
  using T = float;
  static void full(const Batch& b, T* out) {
    alignas(64) float z[4][kBatch];
    for (int pair = 0; pair < 4; pair += 2)
      for (int j = 0; j < kBatch; ++j)
        normals_from(b.word[pair][j], b.word[pair + 1][j], z[pair][j], z[pair + 1][j]);
    for (int j = 0; j < kBatch; ++j)
      for (int lane = 0; lane < 4; ++lane) out[4 * j + lane] = z[lane][j];
  }
};

template <>
struct Normal<double> {
  using T = double;
  static void full(const Batch& b, T* out) {
    alignas(64) double z[2][kBatch];
    for (int j = 0; j < kBatch; ++j) normals_from(b.wide(0, j), b.wide(1, j), z[0][j], z[1][j]);
    for (int j = 0; j < kBatch; ++j) {
      out[2 * j] = z[0][j];
      out[2 * j + 1] = z[1][j];
    }
  }
};

// Whole batches go straight to `out`; the ragged ends through a small buffer.
template <class Kind>
void fill(const GeneratorState& draw, std::uint64_t first, std::int64_t count, typename Kind::T* out) {
  using T = typename Kind::T;
  constexpr std::int64_t lanes = philox_elements<T>;
  constexpr std::int64_t per_batch = lanes * kBatch;
  Batch batch;
  std::uint64_t block = first / lanes;
  std::int64_t skip = static_cast<std::int64_t>(first % lanes);
  while (count > 0) {
    batch.draw(draw, block);
    std::int64_t taken;
    if (skip == 0 && count >= per_batch) {
      Kind::full(batch, out);
      taken = per_batch;
    } else {
      alignas(64) T buffer[per_batch];
      Kind::full(batch, buffer);
      taken = std::min(count, per_batch - skip);
      std::copy_n(buffer + skip, taken, out);
      skip = 0;
    }
    out += taken;
    count -= taken;
    block += kBatch;
  }
}

}  // namespace

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().seed(seed); }

GeneratorState detail::on_host(const char* op, const GeneratorState& draw) {
  CT_CHECK(!draw.live, ValueError, op,
           "draws on the host, in a step that is being recorded; a replay would not draw again: call it "
           "before the step");
  return draw;
}

void fill_uniform(const GeneratorState& draw, std::uint64_t first, std::int64_t count, float* out) {
  fill<Uniform<float>>(draw, first, count, out);
}
void fill_uniform(const GeneratorState& draw, std::uint64_t first, std::int64_t count, double* out) {
  fill<Uniform<double>>(draw, first, count, out);
}
void fill_normal(const GeneratorState& draw, std::uint64_t first, std::int64_t count, float* out) {
  fill<Normal<float>>(draw, first, count, out);
}
void fill_normal(const GeneratorState& draw, std::uint64_t first, std::int64_t count, double* out) {
  fill<Normal<double>>(draw, first, count, out);
}
void fill_words(const GeneratorState& draw, std::uint64_t first, std::int64_t count, std::uint32_t* out) {
  fill<Words>(draw, first, count, out);
}

}  // namespace ct
