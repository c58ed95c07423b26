#include <charconv>
#include <ostream>
#include <string_view>

#include <cotangent/core/error.h>

namespace ct::detail {
namespace {

template <class F>
void show_number(std::ostream& out, F value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  out << std::string_view(text, static_cast<std::size_t>(end.ptr - text));
}

}  // namespace

void show(std::ostream& out, double value) { show_number(out, value); }
void show(std::ostream& out, float value) { show_number(out, value); }

}  // namespace ct::detail
