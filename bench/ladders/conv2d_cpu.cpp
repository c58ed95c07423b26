#include "bench/ladders/conv2d.h"

#include "bench/ladders/rows_cpu.h"

// 9 C multiply-adds for each number of y; a number of x is used 9 O times, and the ladder is about using it while it is there.

namespace ct::ladder::conv2d {
namespace {

struct Sizes {
  std::int64_t images, in, out, side;
};
Sizes sizes(const Call& c) { return {c.size(0), c.size(1), c.size(2), c.size(3)}; }

// Loops: the definition, seven of them, with the question for the border at each multiply-add.
void loops(const Call& c) {
  const Sizes s = sizes(c);
  const float *x = c.input<float>(0), *w = c.input<float>(1);
  for (std::int64_t i = 0; i < s.images; ++i)
    for (std::int64_t o = 0; o < s.out; ++o)
      for (std::int64_t p = 0; p < s.side; ++p)
        for (std::int64_t q = 0; q < s.side; ++q) {
          float sum = 0;
          for (std::int64_t k = 0; k < s.in; ++k)
            for (std::int64_t a = 0; a < 3; ++a)
              for (std::int64_t b = 0; b < 3; ++b) {
                const std::int64_t row = p + a - 1, column = q + b - 1;
                if (row < 0 || row >= s.side || column < 0 || column >= s.side) continue;
                sum += x[((i * s.in + k) * s.side + row) * s.side + column] *
                       w[((o * s.in + k) * 3 + a) * 3 + b];
              }
          c.output<float>(0)[((i * s.out + o) * s.side + p) * s.side + q] = sum;
        }
}

// An image with its border of zeros, rows of `pitch` numbers: no question is left, and a vector may begin at any q.
struct Padded {
  std::int64_t pitch;
  std::vector<float> values;
};
Padded padded(const Call& c, std::int64_t image) {
  const Sizes s = sizes(c);
  Padded to{s.side + 2 + V::kSize, {}};
  to.values.resize(static_cast<std::size_t>(s.in * (s.side + 2) * to.pitch));
  for (std::int64_t k = 0; k < s.in; ++k)
    for (std::int64_t p = 0; p < s.side; ++p) {
      const float* const row = c.input<float>(0) + ((image * s.in + k) * s.side + p) * s.side;
      std::copy(row, row + s.side, to.values.data() + (k * (s.side + 2) + p + 1) * to.pitch + 1);
    }
  return to;
}

// kOutputs channels of an image, a vector of neighbours of a row at a time. A vector of x, once loaded, is multiplied by the
// weights of that many channels, whose sums stay in registers.
template <int kOutputs>
void channels(const Call& c, std::int64_t image, std::int64_t o, const Padded& from) {
  const Sizes s = sizes(c);
  const float* const w = c.input<float>(1);
  for (std::int64_t p = 0; p < s.side; ++p)
    each_vector(s.side, [&](std::int64_t q, auto first) {
      V sum[kOutputs] = {};
      for (std::int64_t k = 0; k < s.in; ++k)
        for (std::int64_t a = 0; a < 3; ++a)
          for (std::int64_t b = 0; b < 3; ++b) {
            const V x = V::load(from.values.data() + (k * (s.side + 2) + p + a) * from.pitch + q + b);
#pragma GCC unroll 8
            for (int n = 0; n < kOutputs; ++n)
              sum[n] = fma(x, V(w[(((o + n) * s.in + k) * 3 + a) * 3 + b]), sum[n]);
          }
      for (int n = 0; n < kOutputs; ++n)
        sum[n].store(c.output<float>(0) + ((image * s.out + o + n) * s.side + p) * s.side + q, first);
    });
}

// Vectors: one channel at a time, a vector of neighbours of a row: one load of x for each multiply-add, and a single chain of
// sums, each of which waits four cycles for the one before.
void vectors(const Call& c) {
  for (std::int64_t image = 0; image < c.size(0); ++image) {
    const Padded from = padded(c, image);
    for (std::int64_t o = 0; o < c.size(2); ++o) channels<1>(c, image, o, from);
  }
}

// Channels: eight at a time, so that a load serves eight multiply-adds, and eight chains of sums do not wait for one another.
void eight(const Call& c, std::int64_t image, const Padded& from, std::int64_t begin, std::int64_t end) {
  std::int64_t o = begin;
  for (; o + 8 <= end; o += 8) channels<8>(c, image, o, from);
  for (; o < end; ++o) channels<1>(c, image, o, from);
}
void at_once(const Call& c) {
  for (std::int64_t image = 0; image < c.size(0); ++image) eight(c, image, padded(c, image), 0, c.size(2));
}

// Threads: images do not know of each other; neither do channels, for a single image.
void threads(const Call& c) {
  const std::int64_t groups = (c.size(2) + 7) / 8;
  std::vector<Padded> from(static_cast<std::size_t>(c.size(0)));
  parallel_for(c.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) from[static_cast<std::size_t>(i)] = padded(c, i);
  });
  parallel_for(c.size(0) * groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      eight(c, k / groups, from[static_cast<std::size_t>(k / groups)], k % groups * 8,
            std::min(c.size(2), (k % groups + 1) * 8));
  });
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cpu);
  ladder.timed = {{f32, {8, 64, 64, 56}}};
  ladder.rungs = {{"loops", "the definition: a question for the border at each multiply-add", loops},
                  {"vectors", "a border of zeros, and neighbours of a row in a vector", vectors},
                  {"channels", "a vector of x serves eight channels of y", at_once},
                  {"threads", "images and channels do not know of each other", threads}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::conv2d
