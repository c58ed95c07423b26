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
          ""};
}

inline CLI::Validator whole_number(std::int64_t least) {
  const std::string wanted = std::to_string(least) + " or more";
  return {[least, wanted](const std::string& text) {
            std::int64_t n = 0;
            const bool good = CLI::detail::lexical_cast(text, n) && n >= least && n <= std::int64_t{1} << 40;
            return good ? std::string() : "it is " + text + "; a whole number is wanted, " + wanted;
          },
          wanted};
}

/// Any number of 64 bits.
inline CLI::Validator seed() {
  return {[](const std::string& text) {
            std::uint64_t n = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
            const bool good = error == std::errc() && end == text.data() + text.size();
            return good ? std::string()
                        : "it is " + text + "; a whole number below 2^64 is wanted, 0 or more";
          },
          "0 or more"};
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
