#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

// JSON where memory may run out. The destructor of a nlohmann::json that holds other values asks for memory,
// and ends the process where there is none: such values live in a JsonTree, which takes them apart first, and
// are neither copied nor made of braces.

namespace ct::io {

class JsonTree {
 public:
  using Json = nlohmann::json;

  /// Reads `text`. The value is "discarded" if that is no JSON, or is nested deeper than `max_depth` lists and
  /// objects.
  explicit JsonTree(std::string_view text, int max_depth = 64) {
    Builder builder{*this, max_depth};
    try {
      if (Json::sax_parse(text, &builder)) return;
    } catch (...) {
      take_apart(value_);
      throw;
    }
    take_apart(value_);
    value_ = Json::value_t::discarded;
  }
  ~JsonTree() { take_apart(value_); }
  JsonTree(JsonTree&&) = default;
  JsonTree& operator=(JsonTree&&) = delete;

  const Json& operator*() const { return value_; }
  const Json* operator->() const { return &value_; }
  Json& value() { return value_; }
  bool is_discarded() const { return value_.is_discarded(); }
  /// Whether it was so because of its depth.
  bool too_deep() const { return too_deep_; }

 private:
  static void take_apart(Json& value) noexcept {
    if (auto* list = value.get_ptr<Json::array_t*>()) {
      for (Json& child : *list) take_apart(child);
      list->clear();
    } else if (auto* members = value.get_ptr<Json::object_t*>()) {
      for (auto& [key, child] : *members) take_apart(child);
      members->clear();
    }
  }

  struct Builder {  // what nlohmann's SAX interface asks for
    JsonTree& tree;
    int max_depth;
    std::vector<Json*> open{};
    std::string name{};

    Json& put(Json value) {
      Json* place = &tree.value_;
      if (!open.empty()) {
        if (auto* list = open.back()->get_ptr<Json::array_t*>()) {
          place = &list->emplace_back();
        } else {
          place = &open.back()->get_ref<Json::object_t&>()[name];
          take_apart(*place);  // of two members of one name the last one counts
        }
      }
      *place = std::move(value);
      return *place;
    }
    bool begin(Json::value_t type) {
      tree.too_deep_ = static_cast<int>(open.size()) >= max_depth;
      if (!tree.too_deep_) open.push_back(&put(type));
      return !tree.too_deep_;
    }
    bool end() {
      open.pop_back();
      return true;
    }

    bool null() { return put(nullptr), true; }
    bool boolean(bool v) { return put(v), true; }
    bool number_integer(Json::number_integer_t v) { return put(v), true; }
    bool number_unsigned(Json::number_unsigned_t v) { return put(v), true; }
    bool number_float(Json::number_float_t v, const std::string&) { return put(v), true; }
    bool string(std::string& v) { return put(std::move(v)), true; }
    bool binary(Json::binary_t&) { return false; }
    bool key(std::string& v) { return name = std::move(v), true; }
    bool start_object(std::size_t) { return begin(Json::value_t::object); }
    bool end_object() { return end(); }
    bool start_array(std::size_t) { return begin(Json::value_t::array); }
    bool end_array() { return end(); }
    bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }
  };

  Json value_;
  bool too_deep_ = false;
};

/// A number, switch or text as JSON has it. Throws nlohmann::json::exception for text that is not UTF-8, or
/// writes something in its place.
template <class T>
std::string json_text(const T& value, bool replace_bad = false) {
  using Handler = nlohmann::json::error_handler_t;
  return nlohmann::json(value).dump(-1, ' ', false, replace_bad ? Handler::replace : Handler::strict);
}

}  // namespace ct::io
