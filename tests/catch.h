#pragma once

// A sanitizer is in the program; g++ and clang say so in ways of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CT_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CT_SANITIZED
#endif
#endif

// Catch2 v2 ships one header, v3 several; the tests use what both have.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
using Catch::Approx;
namespace Catch::Matchers {
// The name this matcher has in v2.
inline StringContainsMatcher Contains(const std::string& text) { return ContainsSubstring(text); }
}  // namespace Catch::Matchers
namespace Catch {
using Matchers::Contains;
}
#else
#include <catch2/catch.hpp>
#endif
