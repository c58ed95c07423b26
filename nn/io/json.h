#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <cotangent/core/base/export.h>

// JSON (RFC 8259), as far as the files of this library and of others need it.

namespace ct::io {

/// A JSON value: null, a boolean, an integer, another number, a text, a list or an object.
class CT_API Json {
 public:
  using List = std::vector<Json>;
  using Member = std::pair<std::string, Json>;

  Json() = default;
  Json(std::nullptr_t) {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value) {
    if (value < T{})
      value_ = static_cast<std::int64_t>(value);
    else
      value_ = static_cast<std::uint64_t>(value);
  }
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(List value) : value_(std::move(value)) {}
  /// An object with these members, in this order; their keys must differ, which is not checked.
  static Json object(std::vector<Member> members) { return Object{std::move(members), false}; }

  // ---- The value: null pointers and empty options for one of another kind. ---------------------------
  bool is_null() const { return value_.index() == 0; }
  bool is_object() const { return members() != nullptr; }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  /// An integer without a fraction or an exponent that fits into 64 bits.
  std::optional<std::int64_t> integer() const;
  std::optional<std::uint64_t> unsigned_integer() const;
  /// Any number; integers are rounded to the nearest double.
  std::optional<double> number() const;
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const List* list() const { return std::get_if<List>(&value_); }
  /// The members of an object: of one that was read, sorted by the bytes of their keys.
  const std::vector<Member>* members() const {
    const Object* object = std::get_if<Object>(&value_);
    return object ? &object->members : nullptr;
  }
  /// The member of this key; null if there is none, or if this is no object.
  const Json* find(std::string_view key) const;
  /// Kind for messages: "null", "a boolean", "a number", "a text", "a list" or "an object".
  const char* kind() const;

  // ---- Writing --------------------------------------------------------------------------------------------
  /// The text, on one line, or with `indent` (if not negative) spaces for each level. Doubles come back with
  /// the same bits; infinities and NaN become null. Throws IoError, naming `op`, for a text that is not UTF-8.
  std::string dump(const char* op, int indent = -1) const;
  /// Writes the beginning of dump(), made printable: for messages.
  friend CT_API std::ostream& operator<<(std::ostream& out, const Json& value);

 private:
  friend class JsonBuilder;
  struct Object {
    std::vector<Member> members;
    bool sorted = false;
  };
  Json(Object value) : value_(std::move(value)) {}

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Object> value_;
};

/// Origin of a text, for messages: "[op] 'name': WHAT not valid JSON near byte 7; ADVICE".
struct JsonOrigin {
  const char* op;
  const std::string& name;
  const char* what;    ///< with its verb: "the text is"
  const char* advice;  ///< what to do: "it is truncated, or another kind of file"
};

/// Nothing that this library reads is nested deeper.
inline constexpr int kMaxJsonDepth = 64;

/// Reads one value that fills the text. Throws IoError for anything that is not JSON (invalid UTF-8, a NUL
/// byte, or more text after the value), for a key that is twice in an object, for a number beyond the range of
/// double, and for lists and objects nested more than `depth` levels deep.
CT_API Json parse_json(const JsonOrigin& origin, std::string_view text, int depth = kMaxJsonDepth);

}  // namespace ct::io
