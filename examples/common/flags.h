#pragma once

#include <cotangent/core/device.h>
#include <cotangent/core/error.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>

// What the values of flags may be. CLI11's own ranges let NaN through, and those without an end print all the
// digits of the largest number.

namespace flags {

inline CLI::Validator device() {
  return {[](const std::string& text) {
            try {
              ct::parse_device(text);
              return std::string();
            } catch (const ct::Error& e) { return std::string(e.what()); }
          },
          ""};
}

/// A file or folder: an empty text is a variable that was not set, and would mean that the flag was not
/// given.
inline CLI::Validator path() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("it is empty; a file or folder is wanted") : std::string();
          },
          "PATH"};
}

/// A number in base 10, for Option::transform(): zeros in front of it go, which would mean base 8 to CLI11.
template <class Int>
CLI::Validator base_10(Int least, Int most, const std::string& range, const std::string& wanted) {
  return {[=](std::string& text) {
            Int n = 0;
            const char* const all = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), all, n);
            if (error != std::errc() || end != all || n < least || n > most)
              return "it is " + text + "; a whole number is wanted, " + wanted;
            text = std::to_string(n);
            return std::string();
          },
          range};
}
inline CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return base_10(least, most, range, range);
}
/// Without an end that anybody would meet.
inline CLI::Validator whole_number(std::int64_t least) {
  const std::string from = std::to_string(least);
  return base_10(least, std::int64_t{1} << 40, from + " or more", from + " to 2^40");
}
/// Any number of 64 bits.
inline CLI::Validator seed() {
  return base_10(std::uint64_t{0}, ~std::uint64_t{0}, "0 or more", "0 or more and below 2^64");
}

/// A number that `good` holds for; it gets no NaN and no infinity.
template <class Good>
CLI::Validator number(Good good, const std::string& wanted) {
  return {[good, wanted](const std::string& text) {
            double x = 0;
            const bool fits = CLI::detail::lexical_cast(text, x) && x > -1e300 && x < 1e300 && good(x);
            return fits ? std::string() : "it is " + text + "; a number is wanted, " + wanted;
          },
          wanted};
}
inline CLI::Validator positive() {
  return number([](double x) { return x > 0; }, "more than 0");
}
inline CLI::Validator not_negative() {
  return number([](double x) { return x >= 0; }, "0 or more");
}
inline CLI::Validator finite() {
  return number([](double) { return true; }, "a finite one");
}
inline CLI::Validator between(double low, double high) {
  const auto text = [](double x) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%g", x);
    return std::string(digits);
  };
  return number([low, high](double x) { return x >= low && x <= high; }, text(low) + " to " + text(high));
}

}  // namespace flags
