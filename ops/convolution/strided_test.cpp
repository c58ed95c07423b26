#include <cotangent/cotangent.h>
#include <cotangent/ops/convolution/convolution_plain.h>
#include <cotangent/ops/convolution/strided_internal.h>

#include "tests/catch.h"

using namespace ct;
using namespace ct::convolution;

namespace {

using V = std::vector<double>;

V numbers(std::int64_t count) { return randn({count}, {.dtype = f64}).to_vector<double>(); }
void check(const V& got, const V& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-12));
}

// Images and filters by phases, on the host.
struct Split {
  Geometry g, phased;
  Phases down, across;

  // Calls f(element of x, element of the phases) for all that a phase holds.
  template <class F>
  void each_element(const F& f) const {
    std::int64_t to = 0;
    for (std::int64_t n = 0; n < g.batch; ++n)
      for (int phase = 0; phase < down.count * across.count; ++phase)
        for (std::int64_t c = 0; c < g.channels; ++c)
          for (int p = 0; p < down.size; ++p)
            for (int q = 0; q < across.size; ++q, ++to) {
              const int h = down.seen(phase / across.count, p), w = across.seen(phase % across.count, q);
              if (h >= 0 && w >= 0) f(((n * g.channels + c) * down.in + h) * across.in + w, to);
            }
  }
  // The same of filters.
  template <class F>
  void each_tap(const F& f) const {
    std::int64_t from = 0;
    for (std::int64_t o = 0; o < g.filters; ++o)
      for (std::int64_t c = 0; c < g.channels; ++c)
        for (std::size_t i = 0; i < static_cast<std::size_t>(down.taps); ++i)
          for (std::size_t j = 0; j < static_cast<std::size_t>(across.taps); ++j, ++from) {
            const int phase = down.phase[i] * across.count + across.phase[j];
            f(from, (o * phased.channels + phase * g.channels + c) * phased.taps() +
                        down.tap[i] * across.kernel + across.tap[j]);
          }
  }
};
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

TEST_CASE("a convolution with a stride is one of stride 1 over the phases of its images", "[convolution]") {
  struct Case {
    Axis axis;       // in, out, kernel, stride, padding, dilation
    int kernel = 0;  // that is asked for
  };
  const Case cases[] = {{{8, 4, 3, 2, 1, 1}},     {{7, 4, 3, 2, 1, 1}},     {{8, 4, 3, 2, 1, 1}, 3},
                        {{9, 5, 1, 2, 0, 1}},     {{13, 7, 7, 2, 3, 1}},    {{13, 7, 7, 2, 3, 1}, 1},
                        {{13, 7, 7, 2, 3, 1}, 3}, {{11, 3, 3, 3, 2, 2}},    {{9, 4, 3, 2, 2, 2}},
                        {{9, 3, 2, 4, 0, 1}},     {{5, 5, 3, 1, 2, 2}},     {{12, 4, 5, 2, 0, 1}},
                        {{9, 3, 3, 3, 7, 1}},     {{10, 4, 3, 2, 0, 1}, 1}, {{10, 2, 3, 3, 1, 3}}};
  for (const Case& down : cases)
    for (const Case& across : cases) {
      const Shape x{2, 2, down.axis.in, across.axis.in}, w{3, 2, down.axis.kernel, across.axis.kernel};
      Split s{{Attrs{}, x, w, {2, 3, down.axis.out, across.axis.out}}, s.g, {}, {}};
      s.g.height = down.axis, s.g.width = across.axis;
      REQUIRE(find_phases(s.g.height, down.kernel, s.down));
      REQUIRE(find_phases(s.g.width, across.kernel, s.across));
      s.phased = of_phases(s.g, s.down, s.across);
      const V image = numbers(numel(x)), filters = numbers(numel(w)),
              cotangent = numbers(2 * 3 * s.g.out_pixels());
      V images(at(2 * s.phased.channels * s.phased.in_pixels())),
          taps(at(3 * s.phased.channels * s.phased.taps()));
      s.each_element([&](std::int64_t from, std::int64_t to) { images[at(to)] = image[at(from)]; });
      s.each_tap([&](std::int64_t from, std::int64_t to) {
        CHECK(taps[at(to)] == 0);
        taps[at(to)] = filters[at(from)];
      });
      V got(cotangent.size()), want(cotangent.size());
      plain::convolve(s.g, image.data(), filters.data(), want.data());
      plain::convolve(s.phased, images.data(), taps.data(), got.data());
      check(got, want);

      V dw(filters.size()), picked(filters.size()), dtaps(taps.size());
      plain::weight_gradient(s.g, image.data(), dw.data(), cotangent.data());
      plain::weight_gradient(s.phased, images.data(), dtaps.data(), cotangent.data());
      s.each_tap([&](std::int64_t to, std::int64_t from) { picked[at(to)] = dtaps[at(from)]; });
      check(picked, dw);

      if (down.kernel > 0 || across.kernel > 0) continue;  // whole: each element of x in one phase, or unseen
      V dx(image.size()), merged(image.size()), dimages(images.size());
      plain::input_gradient(s.g, dx.data(), filters.data(), cotangent.data());
      plain::input_gradient(s.phased, dimages.data(), taps.data(), cotangent.data());
      std::vector<int> writers(image.size());
      s.each_element([&](std::int64_t to, std::int64_t from) {
        merged[at(to)] = dimages[at(from)], ++writers[at(to)];
        const std::int64_t column = to % s.across.in, row = to / s.across.in % s.down.in;
        const std::int64_t phase =
            from / s.phased.in_pixels() / s.g.channels % (s.down.count * s.across.count);
        CHECK(s.down.phase_at(static_cast<int>(row % s.g.height.stride)) == phase / s.across.count);
        CHECK(s.across.phase_at(static_cast<int>(column % s.g.width.stride)) == phase % s.across.count);
      });
      for (const int count : writers) CHECK(count <= 1);
      check(merged, dx);
    }
}

TEST_CASE("phases that are too many are not looked for", "[convolution]") {
  Phases p;
  CHECK_FALSE(find_phases({40, 4, 3, 9, 0, 1}, 0, p));
  CHECK_FALSE(find_phases({40, 10, 17, 2, 0, 1}, 0, p));
  CHECK_FALSE(find_phases({40, 16, 9, 2, 0, 1}, 1, p));
}
