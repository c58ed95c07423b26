#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <examples/common/svg.h>

// Pictures of tapes: boxes, and arrows between them.

namespace book {

struct Box {
  double x, y;                     // its middle
  std::vector<std::string> lines;  // the first is its heading
};

/// Boxes of `width` x 56 with an arrow for each pair (from, to), from the right side of one to the left side of another.
inline std::string graph(double total_width, double total_height, double width, const std::vector<Box>& boxes,
                         const std::vector<std::pair<std::size_t, std::size_t>>& arrows) {
  constexpr double kHeight = 56;
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << total_width << ' ' << total_height
      << "' font-family='sans-serif' font-size='12'>\n<defs><marker id='tip' viewBox='0 0 8 8' refX='8' "
         "refY='4' "
         "markerWidth='8' markerHeight='8' orient='auto'><path d='M0 0L8 4L0 8z' "
         "fill='#666'/></marker></defs>\n"
      << "<rect width='100%' height='100%' fill='white'/>\n";
  for (const auto& [from, to] : arrows)
    out << "<line x1='" << boxes[from].x + width / 2 << "' y1='" << boxes[from].y << "' x2='"
        << boxes[to].x - width / 2 << "' y2='" << boxes[to].y << "' stroke='#666' marker-end='url(#tip)'/>\n";
  for (const Box& box : boxes) {
    out << "<rect x='" << box.x - width / 2 << "' y='" << box.y - kHeight / 2 << "' width='" << width
        << "' height='" << kHeight << "' rx='6' fill='#f4f7fb' stroke='#557'/>\n";
    double y = box.y - kHeight / 2 + 2;
    for (const std::string& line : box.lines) {
      out << "<text x='" << box.x << "' y='" << (y += 16) << "' text-anchor='middle'"
          << (&line == &box.lines.front() ? " font-weight='bold'" : "") << '>' << svg::escaped(line)
          << "</text>\n";
    }
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace book
