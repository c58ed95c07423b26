#include <charconv>
#include <locale>
#include <ostream>
#include <string_view>

#include <cotangent/core/base/error.h>

namespace ct::detail {
namespace {

template <class F>
void show_number(std::ostream& out, F value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  out << std::string_view(text, static_cast<std::size_t>(end.ptr - text));
}

std::string with_decimals(double value, std::chars_format format, int decimals) {
  char text[400];  // the largest double has 309 digits before the point
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value, format, decimals);
  return {text, end.ptr};
}

}  // namespace

std::ostringstream text_stream() {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  return out;
}

std::string fixed(double value, int decimals) {
  return with_decimals(value, std::chars_format::fixed, decimals);
}
std::string scientific(double value, int decimals) {
  return with_decimals(value, std::chars_format::scientific, decimals);
}

void Shown::write_text(std::ostream& out, const void* text) { out << static_cast<const char*>(text); }

std::string joined(std::initializer_list<Shown> parts) {
  std::ostringstream out = text_stream();
  for (const Shown& part : parts) part.write(out, part.what);
  return std::move(out).str();
}

void show(std::ostream& out, double value) { show_number(out, value); }
void show(std::ostream& out, float value) { show_number(out, value); }

}  // namespace ct::detail
