#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cotangent/nn/io/json.h>

namespace ct::io {

/// Events of a JSON reader, in the text's order. A handler refuses a value by throwing.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;  // integers
  virtual void unsigned_integer(std::uint64_t value) = 0;
  virtual void number(double value) = 0;  // any other, integers of more than 64 bits too
  virtual void text(std::string value) = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void begin_object() = 0;
  virtual void key(std::string value) = 0;
  virtual void end_object() = 0;
};

/// Reads as parse_json(), event by event: no value is built, and keys may repeat.
void read_json(const JsonOrigin& origin, std::string_view text, JsonEvents& events,
               int depth = kMaxJsonDepth);

}  // namespace ct::io
