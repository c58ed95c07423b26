#include "examples/mnist/drawn_digits.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace {

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;

// Part of an ellipse as a polyline; angles in turns, clockwise from the right (y points down).
Stroke arc(Point center, float rx, float ry, float from, float to) {
  Stroke points;
  constexpr int kSteps = 16;
  for (int i = 0; i <= kSteps; ++i) {
    const float a = 2 * std::numbers::pi_v<float> * (from + (to - from) * static_cast<float>(i) / kSteps);
    points.push_back({center.x + rx * std::cos(a), center.y + ry * std::sin(a)});
  }
  return points;
}

// The strokes of each digit in the unit square.
const std::vector<std::vector<Stroke>>& digit_strokes() {
  static const std::vector<std::vector<Stroke>> strokes = {
      {arc({.5f, .5f}, .28f, .42f, 0, 1)},
      {{{.35f, .22f}, {.52f, .08f}, {.52f, .92f}}},
      {arc({.5f, .3f}, .27f, .22f, .5f, 1.08f), {{.73f, .42f}, {.24f, .9f}, {.78f, .9f}}},
      {arc({.46f, .29f}, .26f, .21f, .55f, 1.25f), arc({.46f, .71f}, .3f, .21f, .75f, 1.45f)},
      {{{.62f, .92f}, {.62f, .08f}, {.2f, .64f}, {.82f, .64f}}},
      {{{.74f, .1f}, {.32f, .1f}, {.28f, .46f}}, arc({.47f, .66f}, .28f, .25f, .66f, 1.42f)},
      {arc({.62f, .5f}, .36f, .46f, .5f, .78f), arc({.5f, .68f}, .24f, .23f, 0, 1)},
      {{{.2f, .1f}, {.8f, .1f}, {.42f, .92f}}},
      {arc({.5f, .29f}, .22f, .2f, 0, 1), arc({.5f, .71f}, .27f, .21f, 0, 1)},
      {arc({.5f, .32f}, .24f, .23f, 0, 1), {{.74f, .32f}, {.7f, .62f}, {.56f, .92f}}},
  };
  return strokes;
}

float distance_to_segment(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float length2 = dx * dx + dy * dy;
  const float t = length2 > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.f, 1.f) : 0.f;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

class Pen {
 public:
  explicit Pen(std::uint64_t seed) : random_(seed) {}

  int digit() { return static_cast<int>(random_() % 10); }

  void draw(int digit, std::uint8_t* pixels) {
    const float angle = uniform(-.25f, .25f), shear = uniform(-.25f, .25f);
    const float sx = uniform(14, 20), sy = uniform(16, 22), width = uniform(.9f, 1.7f);
    const Point shift{14 + uniform(-2, 2), 14 + uniform(-2, 2)};
    std::vector<Stroke> strokes = digit_strokes()[static_cast<std::size_t>(digit)];
    for (Stroke& stroke : strokes)
      for (Point& p : stroke) {
        const float x = (p.x - .5f + uniform(-.015f, .015f)) * sx + shear * (p.y - .5f) * sy;
        const float y = (p.y - .5f + uniform(-.015f, .015f)) * sy;
        p = {shift.x + x * std::cos(angle) - y * std::sin(angle),
             shift.y + x * std::sin(angle) + y * std::cos(angle)};
      }
    for (int row = 0; row < 28; ++row)
      for (int column = 0; column < 28; ++column) {
        const Point p{static_cast<float>(column) + .5f, static_cast<float>(row) + .5f};
        float nearest = 1e9f;
        for (const Stroke& stroke : strokes)
          for (std::size_t i = 1; i < stroke.size(); ++i)
            nearest = std::min(nearest, distance_to_segment(p, stroke[i - 1], stroke[i]));
        const float ink = std::clamp(width + .5f - nearest, 0.f, 1.f);
        pixels[row * 28 + column] =
            static_cast<std::uint8_t>(std::lround(255 * std::clamp(ink + uniform(-.08f, .08f), 0.f, 1.f)));
      }
  }

 private:
  // Not std::uniform_real_distribution: its result may differ between standard libraries.
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(random_() >> 40) * 0x1p-24f;
  }
  std::mt19937_64 random_;
};

}  // namespace

Images draw_digits(std::int64_t count, std::uint64_t seed) {
  Pen pen(seed);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count) * 784);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const int digit = pen.digit();
    labels[i] = digit;
    pen.draw(digit, &pixels[i * 784]);
  }
  return {ct::from_vector(pixels, {count, 28, 28}), ct::from_vector(labels, {count})};
}
