#include <algorithm>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/json_internal.h>

namespace ct::io {
namespace {

template <class... Args>
[[noreturn]] void refuse(const JsonOrigin& o, const Args&... found) {
  ct::detail::fail<IoError>(o.op, printable_path(o.name), ": ", o.what, ' ', found..., "; ", o.advice);
}

// nlohmann's parser keeps its levels on the heap and hands out events; the limit is counted here.
class Limited {
 public:
  using Number = nlohmann::json;
  Limited(const JsonOrigin& origin, JsonEvents& events, int depth)
      : origin_(origin), events_(events), depth_(depth) {}

  bool null() { return events_.null(), true; }
  bool boolean(bool value) { return events_.boolean(value), true; }
  bool number_integer(Number::number_integer_t value) { return events_.negative(value), true; }
  bool number_unsigned(Number::number_unsigned_t value) { return events_.unsigned_integer(value), true; }
  bool number_float(Number::number_float_t value, const std::string&) { return events_.number(value), true; }
  bool string(std::string& value) { return events_.text(std::move(value)), true; }
  bool binary(Number::binary_t&) { return false; }
  bool key(std::string& value) { return events_.key(std::move(value)), true; }
  bool start_object(std::size_t) { return down(), events_.begin_object(), true; }
  bool start_array(std::size_t) { return down(), events_.begin_list(), true; }
  bool end_object() { return ++depth_, events_.end_object(), true; }
  bool end_array() { return ++depth_, events_.end_list(), true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    refuse(origin_, "not valid JSON near byte ", position);
  }

 private:
  void down() {
    if (--depth_ < 0) refuse(origin_, "nested more deeply than the file's kind is");
  }

  const JsonOrigin& origin_;
  JsonEvents& events_;
  int depth_;
};

void write_text(const char* op, const std::string& text, std::string& out) {
  CT_CHECK(ct::detail::is_utf8(text), IoError, op, "the text ", printable(text),
           " is not valid UTF-8; JSON holds nothing else");
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view plain = "\"\\\b\f\n\r\t", short_form = "\"\\bfnrt";
    if (const std::size_t at = plain.find(c); at != plain.npos) {
      out.append(1, '\\').append(1, short_form[at]);
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr char digits[] = "0123456789abcdef";
      out.append("\\u00").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    } else {
      out += c;
    }
  }
  out += '"';
}

void write_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const double size = std::abs(value);
  const bool fixed = value == 0 || (size >= 1e-4 && size < 1e15);
  char text[64];
  const auto end = fixed ? std::to_chars(text, text + sizeof text, value, std::chars_format::fixed)
                         : std::to_chars(text, text + sizeof text, value);
  const std::string_view number(text, static_cast<std::size_t>(end.ptr - text));
  out += number;
  if (number.find_first_of(".e") == number.npos) out += ".0";  // or it would come back as an integer
}

struct Writer {
  const char* op;
  int indent;
  std::string out;

  void line(int level) {
    if (indent >= 0) out.append(1, '\n').append(static_cast<std::size_t>(indent * level), ' ');
  }
  template <class Items, class Write>
  void items(const Items& all, char open, char close, int level, Write&& write) {
    out += open;
    bool first = true;
    for (const auto& item : all) {
      if (!first) out += ',';
      first = false;
      line(level + 1);
      write(item);
    }
    if (!first) line(level);
    out += close;
  }
  void write(const Json& value, int level) {
    if (const bool* b = value.boolean()) {
      out += *b ? "true" : "false";
    } else if (const auto i = value.integer()) {
      out += std::to_string(*i);
    } else if (const auto u = value.unsigned_integer()) {
      out += std::to_string(*u);
    } else if (const auto d = value.number()) {
      write_double(*d, out);
    } else if (const std::string* t = value.text()) {
      write_text(op, *t, out);
    } else if (const Json::List* l = value.list()) {
      items(*l, '[', ']', level, [&](const Json& item) { write(item, level + 1); });
    } else if (const auto* members = value.members()) {
      items(*members, '{', '}', level, [&](const Json::Member& m) {
        write_text(op, m.first, out);
        out += indent >= 0 ? ": " : ":";
        write(m.second, level + 1);
      });
    } else {
      out += "null";
    }
  }
};

}  // namespace

class JsonBuilder final : public JsonEvents {
 public:
  explicit JsonBuilder(const JsonOrigin& origin) : origin_(origin) {}
  Json root;

  void null() override { add({}); }
  void boolean(bool value) override { add(value); }
  void negative(std::int64_t value) override { add(value); }
  void unsigned_integer(std::uint64_t value) override { add(value); }
  void number(double value) override { add(value); }
  void text(std::string value) override { add(std::move(value)); }
  void begin_list() override { open_.push_back(add(Json::List())); }
  void end_list() override { open_.pop_back(); }
  void begin_object() override { open_.push_back(add(Json::object({}))); }
  void key(std::string value) override { object().members.emplace_back(std::move(value), Json()); }
  void end_object() override {
    Json::Object& o = object();
    std::ranges::sort(o.members, {}, &Json::Member::first);
    const auto twice = std::ranges::adjacent_find(o.members, {}, &Json::Member::first);
    if (twice != o.members.end())
      refuse(origin_, "ambiguous: an object has the key ", printable(twice->first), " twice");
    o.sorted = true;
    open_.pop_back();
  }

 private:
  Json::Object& object() { return std::get<Json::Object>(open_.back()->value_); }
  // A value that is open stays where it is: nothing is added beside it before it is closed.
  Json* add(Json value) {
    if (open_.empty()) return &(root = std::move(value));
    if (auto* list = std::get_if<Json::List>(&open_.back()->value_))
      return &list->emplace_back(std::move(value));
    return &(object().members.back().second = std::move(value));
  }

  const JsonOrigin& origin_;
  std::vector<Json*> open_;
};

std::optional<std::int64_t> Json::integer() const {
  if (const auto* i = std::get_if<std::int64_t>(&value_)) return *i;
  if (const auto* u = std::get_if<std::uint64_t>(&value_); u && *u <= std::uint64_t{INT64_MAX})
    return static_cast<std::int64_t>(*u);
  return {};
}

std::optional<std::uint64_t> Json::unsigned_integer() const {
  if (const auto* u = std::get_if<std::uint64_t>(&value_)) return *u;
  return {};
}

std::optional<double> Json::number() const {
  if (const auto* d = std::get_if<double>(&value_)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*u);
  return {};
}

const Json* Json::find(std::string_view key) const {
  const Object* object = std::get_if<Object>(&value_);
  if (!object) return nullptr;
  const auto& all = object->members;
  const auto found = object->sorted ? std::ranges::lower_bound(all, key, std::less<>(), &Member::first)
                                    : std::ranges::find(all, key, &Member::first);
  return found != all.end() && found->first == key ? &found->second : nullptr;
}

const char* Json::kind() const {
  constexpr const char* names[] = {"null",     "a boolean", "a number", "a number",
                                   "a number", "a text",    "a list",   "an object"};
  return names[value_.index()];
}

std::string Json::dump(const char* op, int indent) const {
  Writer writer{op, indent, {}};
  writer.write(*this, 0);
  return std::move(writer.out);
}

std::ostream& operator<<(std::ostream& out, const Json& value) { return out << escaped(value.dump("json")); }

void read_json(const JsonOrigin& origin, std::string_view text, JsonEvents& events, int depth) {
  // nlohmann's parser would take it for the end of the text.
  if (const std::size_t at = text.find('\0'); at != text.npos)
    refuse(origin, "not valid JSON: byte ", at, " is NUL");
  Limited limited(origin, events, depth);
  nlohmann::json::sax_parse(text, &limited);
}

Json parse_json(const JsonOrigin& origin, std::string_view text, int depth) {
  JsonBuilder builder(origin);
  read_json(origin, text, builder, depth);
  return std::move(builder.root);
}

}  // namespace ct::io
