#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

// Pictures of a run as SVG text: any browser shows them, and they need no library.

namespace svg {

struct Curve {
  std::string name;
  std::string color;
  std::vector<double> x, y;
};

inline std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

/// Text that may stand between tags.
inline std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// A step of 1, 2 or 5 times a power of ten that cuts `range` into about five.
inline double nice_step(double range) {
  const double rough = range / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double m : {1.0, 2.0, 5.0})
    if (m * power >= rough) return m * power;
  return 10 * power;
}

struct Point {
  double x, y;
};

/// Place of a legend of `lines` lines and `width`: the corner of the box between `low` and `high` that the fewest
/// pieces of curves cross. Its first line ends there or, at a left corner, begins.
inline Point legend_place(const std::vector<std::vector<Point>>& curves, Point low, Point high, double width,
                          std::size_t lines) {
  const double height = 16 * static_cast<double>(lines);
  Point best{high.x - 12, low.y + 18};
  long least = -1;
  for (const double y : {low.y + 18, high.y - height + 6})
    for (const double x : {high.x - 12, low.x + 12}) {
      const double from = x > (low.x + high.x) / 2 ? x - width : x;
      long met = 0;
      for (const std::vector<Point>& curve : curves)
        for (std::size_t i = 1; i < curve.size(); ++i)
          for (int k = 0; k <= 32; ++k) {
            const double px = curve[i - 1].x + (curve[i].x - curve[i - 1].x) * k / 32;
            const double py = curve[i - 1].y + (curve[i].y - curve[i - 1].y) * k / 32;
            met += px > from - 4 && px < from + width + 4 && py > y - 14 && py < y - 12 + height;
          }
      if (least < 0 || met < least) least = met, best = {x, y};
    }
  return best;
}

/// A line chart with axes, grid and legend.
inline std::string chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                         const std::vector<Curve>& curves) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (const Curve& c : curves)
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      if (!std::isfinite(c.y[i])) continue;
      x0 = std::min(x0, c.x[i]), x1 = std::max(x1, c.x[i]);
      y0 = std::min(y0, c.y[i]), y1 = std::max(y1, c.y[i]);
    }
  if (!(x0 <= x1)) x0 = y0 = 0, x1 = y1 = 1;
  if (x1 == x0) x1 = x0 + 1;
  if (y1 == y0) y1 = y0 + 1;
  const double left = 70, right = 640, top = 40, bottom = 340;
  const auto px = [&](double x) { return left + (x - x0) / (x1 - x0) * (right - left); };
  const auto py = [&](double y) { return bottom - (y - y0) / (y1 - y0) * (bottom - top); };
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 680 400' font-family='sans-serif' "
         "font-size='12'>\n"
      << "<rect width='680' height='400' fill='white'/>\n<text x='355' y='24' text-anchor='middle' "
         "font-size='15'>"
      << escaped(title) << "</text>\n";
  const double dx = nice_step(x1 - x0), dy = nice_step(y1 - y0);
  for (double x = std::ceil(x0 / dx) * dx; x <= x1 + 1e-9; x += dx)
    out << "<line x1='" << px(x) << "' x2='" << px(x) << "' y1='" << top << "' y2='" << bottom
        << "' stroke='#e4e4e4'/><text x='" << px(x) << "' y='358' text-anchor='middle'>" << number(x)
        << "</text>\n";
  for (double y = std::ceil(y0 / dy) * dy; y <= y1 + 1e-9; y += dy)
    out << "<line x1='" << left << "' x2='" << right << "' y1='" << py(y) << "' y2='" << py(y)
        << "' stroke='#e4e4e4'/><text x='62' y='" << py(y) + 4 << "' text-anchor='end'>" << number(y)
        << "</text>\n";
  out << "<rect x='" << left << "' y='" << top << "' width='" << right - left << "' height='" << bottom - top
      << "' fill='none' stroke='#888'/>\n<text x='355' y='384' text-anchor='middle'>" << escaped(x_label)
      << "</text>\n<text transform='translate(18 190) rotate(-90)' text-anchor='middle'>" << escaped(y_label)
      << "</text>\n";
  std::vector<std::vector<Point>> lines;
  std::size_t longest = 0;
  for (const Curve& c : curves) {
    std::vector<Point>& line = lines.emplace_back();
    for (std::size_t i = 0; i < c.x.size(); ++i)
      if (std::isfinite(c.y[i])) line.push_back({px(c.x[i]), py(c.y[i])});
    longest = std::max(longest, c.name.size());
  }
  Point legend =
      legend_place(lines, {left, top}, {right, bottom}, 6.5 * static_cast<double>(longest), curves.size());
  for (std::size_t c = 0; c < curves.size(); ++c, legend.y += 16) {
    out << "<polyline fill='none' stroke='" << curves[c].color << "' stroke-width='1.6' points='";
    for (const Point& p : lines[c]) out << p.x << ',' << p.y << ' ';
    out << "'/>\n<text x='" << legend.x << "' y='" << legend.y << "' text-anchor='"
        << (legend.x > 355 ? "end" : "start") << "' fill='" << curves[c].color << "'>"
        << escaped(curves[c].name) << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

/// One picture of a sheet: `pixels` in [0, 1], row by row, and lines of text below it.
struct Picture {
  std::vector<float> pixels;
  std::string caption;
};

/// Pictures of `side` x `side` pixels in rows of `columns`, in eight shades; runs of equal pixels are one
/// stroke.
inline std::string sheet(const std::string& title, const std::vector<Picture>& pictures, int side,
                         int columns) {
  constexpr int kShades = 8, kScale = 3;
  constexpr int kLine = 11;
  std::ptrdiff_t lines = 1;
  for (const Picture& p : pictures)
    lines = std::max(lines, 1 + std::count(p.caption.begin(), p.caption.end(), '\n'));
  const int cell_w = side * kScale + 16, cell_h = side * kScale + 15 + kLine * static_cast<int>(lines);
  const int rows = (static_cast<int>(pictures.size()) + columns - 1) / columns;
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << columns * cell_w << ' '
      << rows * cell_h + 30
      << "' font-family='sans-serif' font-size='9'>\n<rect width='100%' height='100%' fill='white'/>\n<text "
         "x='8' y='20' "
         "font-size='14'>"
      << escaped(title) << "</text>\n";
  for (std::size_t n = 0; n < pictures.size(); ++n) {
    const int at = static_cast<int>(n);
    out << "<g transform='translate(" << at % columns * cell_w + 8 << ' ' << at / columns * cell_h + 30
        << ")'><rect width='" << side * kScale << "' height='" << side * kScale << "' fill='black'/>"
        << "<g transform='scale(" << kScale << ")' stroke-width='1.05'>";
    for (int shade = 1; shade < kShades; ++shade) {
      std::ostringstream path;
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side;) {
          const auto shade_at = [&](int column) {
            return static_cast<int>(
                std::lround(pictures[n].pixels[static_cast<std::size_t>(y * side + column)] * (kShades - 1)));
          };
          int end = x;
          while (end < side && shade_at(end) == shade) ++end;
          if (end > x) path << 'M' << x << ' ' << y << ".5h" << end - x;
          x = std::max(end, x + 1);
        }
      const int gray = 255 * shade / (kShades - 1);
      if (path.tellp() > 0)
        out << "<path stroke='rgb(" << gray << ',' << gray << ',' << gray << ")' d='" << path.str() << "'/>";
    }
    out << "</g>";
    std::istringstream caption(pictures[n].caption);
    int y = side * kScale + 1;
    for (std::string text; std::getline(caption, text);)
      out << "<text y='" << (y += kLine) << "'>" << escaped(text) << "</text>";
    out << "</g>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace svg
