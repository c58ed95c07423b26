#include <cotangent/nn/data/csv.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::data {
namespace {

constexpr char kReadCsv[] = "read_csv";

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Whether a number that does not fit is too small, and not too large: by the place of its first digit that is not 0.
bool is_below_the_smallest(std::string_view text) {
  if (text[0] == '-') text.remove_prefix(1);
  const std::size_t mark = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = std::min(text.find('.'), mark), first = text.find_first_of("123456789");
  std::int64_t exponent = 0;
  std::string_view digits = text.substr(std::min(mark + 1, text.size()));
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (error == std::errc::result_out_of_range) return digits[0] == '-';
  return exponent < static_cast<std::int64_t>(first) - static_cast<std::int64_t>(point);
}

// The whole text as a number, whatever the locale; one below the smallest is 0. False if it is none.
template <class T>
bool parse(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return false;
  if (!std::is_floating_point_v<T> || error != std::errc::result_out_of_range) return error == std::errc();
  value = text[0] == '-' ? T(-0.) : T(0);
  return is_below_the_smallest(text);
}

}  // namespace

// One pass over the text, which knows where it is.
class CsvReader {
 public:
  CsvReader(std::string_view text, const CsvOptions& options, std::string name)
      : text_(text), delimiter_(options.delimiter), quote_(options.quote) {
    CT_CHECK(
        delimiter_ != quote_ && delimiter_ != '\n' && delimiter_ != '\r' && quote_ != '\n' && quote_ != '\r',
        ValueError, kReadCsv, "got the delimiter ", printable({&delimiter_, 1}), " and the quote ",
        printable({&quote_, 1}), "; they are two characters, and no ends of lines");
    table_.name_ = std::move(name);
  }

  CsvTable read(bool header) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // what some programs mark UTF-8 with
    std::size_t width = 0;
    while (at_ < text_.size()) {
      const std::int64_t line = line_;
      const std::size_t before = table_.cells_.size();
      if (!row()) continue;
      const std::size_t count = table_.cells_.size() - before;
      if (width == 0) {
        width = count;
        name_columns(header, width, line);
        if (header) continue;
      }
      if (count != width)
        table_fail(line, count + 1, "a row of ", count, " cells; the first line has ", width);
      table_.lines_.push_back(line);
    }
    CT_CHECK(width > 0 || !header, IoError, kReadCsv, printable_path(table_.name_),
             ": is empty; a line with the names of the columns is wanted");
    return std::move(table_);
  }

 private:
  template <class... Args>
  [[noreturn]] void table_fail(std::int64_t line, std::size_t column, const Args&... args) const {
    ct::detail::fail<IoError>(kReadCsv, printable_path(table_.name_), ": line ", line, ", column ", column,
                              ": ", args..., "; correct the file, or pass its delimiter and quote");
  }

  bool at_end_of_line() const { return at_ >= text_.size() || text_[at_] == '\n' || is_crlf(); }
  bool is_crlf() const { return text_.substr(at_).starts_with("\r\n"); }
  void end_line() {
    if (at_ < text_.size()) at_ += text_[at_] == '\n' ? 1 : 2;
    ++line_;
  }

  // False for a line of nothing.
  bool row() {
    if (at_end_of_line()) return end_line(), false;
    for (std::size_t column = 1;; ++column) {
      cell(column);
      if (at_end_of_line()) break;
      ++at_;  // the delimiter
    }
    end_line();
    return true;
  }

  void put(std::string_view piece, std::size_t column) {
    if (piece.find('\0') != std::string_view::npos) table_fail(line_, column, "a NUL byte: this is no text");
    table_.text_.append(piece);
  }

  void cell(std::size_t column) {
    const std::size_t begin = table_.text_.size();
    if (at_ < text_.size() && text_[at_] == quote_) {
      const std::int64_t line = line_;
      for (bool open = true; open;) {
        const std::size_t end = text_.find(quote_, ++at_);
        if (end == std::string_view::npos) table_fail(line, column, "a quote that does not end");
        const std::string_view piece = text_.substr(at_, end - at_);
        put(piece, column);
        line_ += std::ranges::count(piece, '\n');
        at_ = end + 1;
        open = at_ < text_.size() && text_[at_] == quote_;
        if (open) table_.text_ += quote_;
      }
      if (!at_end_of_line() && text_[at_] != delimiter_) table_fail(line_, column, "text behind a quote");
    } else {
      const std::size_t from = at_;
      while (!at_end_of_line() && text_[at_] != delimiter_) ++at_;
      put(text_.substr(from, at_ - from), column);
    }
    table_.cells_.push_back({begin, table_.text_.size() - begin});
  }

  void name_columns(bool header, std::size_t width, std::int64_t line) {
    std::set<std::string> known;
    for (std::size_t c = 0; c < width; ++c) {
      const CsvTable::Cell& cell = table_.cells_[c];
      std::string name =
          header ? std::string(trimmed(std::string_view(table_.text_).substr(cell.begin, cell.length)))
                 : std::to_string(c);
      if (!known.insert(name).second) table_fail(line, c + 1, "the name ", printable(name), " a second time");
      table_.columns_.push_back(std::move(name));
    }
    if (header) table_.cells_.clear();
  }

  std::string_view text_;
  char delimiter_, quote_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  CsvTable table_;
};

CsvTable parse_csv(std::string_view text, const CsvOptions& options, std::string name) {
  return CsvReader(text, options, std::move(name)).read(options.header);
}

CsvTable read_csv(const std::string& path, const CsvOptions& options) {
  return parse_csv(io::read_text_file(kReadCsv, path), options, path);
}

std::string_view CsvTable::text(std::int64_t row, std::int64_t column) const {
  const auto width = static_cast<std::int64_t>(columns_.size());
  CT_CHECK(row >= 0 && row < rows() && column >= 0 && column < width, IndexError, "CsvTable", "cell [", row,
           ", ", column, "] is out of range; there are ", rows(), " rows and ", width, " columns");
  const Cell& cell = cells_[static_cast<std::size_t>(row * width + column)];
  return std::string_view(text_).substr(cell.begin, cell.length);
}

std::size_t CsvTable::find(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name);
  CT_CHECK(found != columns_.end(), ValueError, "CsvTable", "there is no column ", printable(name),
           "; there are ", printable_list(columns_));
  return static_cast<std::size_t>(found - columns_.begin());
}

void CsvTable::fail(std::size_t row, std::size_t column, const char* problem) const {
  const std::string_view cell = text(static_cast<std::int64_t>(row), static_cast<std::int64_t>(column));
  ct::detail::fail<IoError>(kReadCsv, printable_path(name_), ": line ", lines_[row], ", column ", column + 1,
                            " (", printable(columns_[column]), "): ", printable(cell), ' ', problem);
}

Tensor CsvTable::numbers(const std::vector<std::string>& names, DType dtype) const {
  CT_CHECK(dtype != DType::boolean, DTypeError, "CsvTable", "numbers() was asked for ", dtype,
           "; take a dtype of numbers, and compare");
  std::vector<std::size_t> wanted;
  if (names.empty()) {
    wanted.resize(columns_.size());
    std::iota(wanted.begin(), wanted.end(), std::size_t{0});
  } else {
    std::unordered_map<std::string_view, std::size_t> places;
    for (std::size_t c = 0; c < columns_.size(); ++c) places.emplace(columns_[c], c);
    for (const std::string& name : names) {
      const auto found = places.find(name);
      wanted.push_back(found == places.end() ? find(name) : found->second);  // which throws
    }
  }
  const Shape shape = {rows(), static_cast<std::int64_t>(wanted.size())};
  const auto fill = [&]<class T>(T* to, const auto& fits) {
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      for (const std::size_t c : wanted) {
        const std::string_view cell =
            trimmed(text(static_cast<std::int64_t>(r), static_cast<std::int64_t>(c)));
        T& value = *to++;
        if (std::is_floating_point_v<T> && cell.empty()) {
          value = std::numeric_limits<T>::quiet_NaN();
        } else if (!parse(cell, value) || !fits(value)) {
          fail(r, c, std::is_integral_v<T> ? "is no whole number that fits" : "is no number that fits");
        }
      }
    }
  };
  const double inf = std::numeric_limits<double>::infinity();
  // The least number that rounds to infinity: halfway from the largest to the next power of two.
  const double beyond = dtype == DType::f16    ? 65520
                        : dtype == DType::bf16 ? 0x1.ffp127
                        : dtype == DType::f32  ? 0x1.ffffffp127
                                               : inf;
  const Tensor wide = Tensor::allocate(shape, is_floating(dtype) ? DType::f64 : DType::i64, cpu);
  if (is_floating(dtype)) {
    fill(wide.data<double>(),
         [beyond](double x) { return std::isinf(x) || std::isnan(x) || std::abs(x) < beyond; });
  } else {
    const auto [low, high] = dtype == DType::u8 ? std::pair{std::int64_t{0}, std::int64_t{255}}
                             : dtype == DType::i32
                                 ? std::pair{std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}}
                                 : std::pair{INT64_MIN, INT64_MAX};
    fill(wide.data<std::int64_t>(),
         [low = low, high = high](std::int64_t x) { return x >= low && x <= high; });
  }
  return wide.to(dtype);
}

std::pair<Tensor, std::vector<std::string>> CsvTable::classes(std::string_view name) const {
  const auto column = static_cast<std::int64_t>(find(name));
  std::set<std::string_view> distinct;
  for (std::int64_t r = 0; r < rows(); ++r) distinct.insert(text(r, column));
  const std::vector<std::string> sorted(distinct.begin(), distinct.end());
  const Tensor labels = Tensor::allocate({rows()}, DType::i64, cpu);
  for (std::int64_t r = 0; r < rows(); ++r)
    labels.data<std::int64_t>()[r] = std::ranges::lower_bound(sorted, text(r, column)) - sorted.begin();
  return {labels, sorted};
}

}  // namespace ct::data
