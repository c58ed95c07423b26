#include <cotangent/ops/print.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <ostream>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/engine/walk/calls.h>

// Tensors as text, in the layout that PyTorch made familiar: columns aligned on the widest value shown, four
// decimals, scientific notation where the values span too much, "..." in place of the middle of long axes.

namespace ct {
namespace {

bool is_cut(const Tensor& t, int axis, const PrintOptions& options) {
  return t.numel() > options.threshold && t.shape()[axis] > 2 * options.edge_items;
}

// The elements that are shown, on the CPU: long axes shrink to their two ends.
Tensor shown_part(const Tensor& t, const PrintOptions& options) {
  Tensor part = t;
  for (int axis = 0; axis < t.dim(); ++axis) {
    if (!is_cut(t, axis, options)) continue;
    const std::int64_t n = t.shape()[axis], edge = options.edge_items;
    part = concat({part.narrow(axis, 0, edge), part.narrow(axis, n - edge, edge)}, axis);
  }
  return part.is_cpu() ? part : walk::calls::moved(part, cpu);
}

// Format of one value, chosen by looking at all of them.
class Format {
 public:
  Format(DType dtype, const std::vector<double>& values, const PrintOptions& options)
      : dtype_(dtype), precision_(options.precision) {
    double low = 0, high = 0;
    for (const double v : values) {
      if (v == 0 || !std::isfinite(v)) continue;
      const double size = std::abs(v);
      low = low == 0 ? size : std::min(low, size);
      high = std::max(high, size);
      whole_ = whole_ && v == std::ceil(v);
    }
    scientific_ =
        options.scientific.value_or(high > 0 && (high / low > 1000 || high > 1e8 || (!whole_ && low < 1e-4)));
    if (high == 0 && !scientific_) return;
    for (const double v : values)
      if ((v != 0 || scientific_) && std::isfinite(v)) width_ = std::max(width_, plain(v).size());
  }
  Format(DType dtype, const std::vector<std::int64_t>& values, const PrintOptions&) : dtype_(dtype) {
    for (const std::int64_t v : values) width_ = std::max(width_, plain(v).size());
  }

  template <class T>
  std::string operator()(T value) const {
    const std::string text = plain(value);
    return std::string(width_ > text.size() ? width_ - text.size() : 0, ' ') + text;
  }
  int width() const { return static_cast<int>(width_); }

 private:
  std::string plain(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    if (scientific_) return detail::scientific(v, precision_);
    return whole_ ? detail::fixed(v, 0) + '.' : detail::fixed(v, precision_);
  }
  std::string plain(std::int64_t v) const {
    if (dtype_ == DType::boolean) return v ? "True" : "False";
    return std::to_string(v);
  }

  DType dtype_;
  int precision_ = 0;
  std::size_t width_ = 1;
  bool whole_ = true;
  bool scientific_ = false;
};

// Writes the shown values of `full`, which lie in `values` in row-major order.
template <class T>
class Writer {
 public:
  Writer(const Tensor& full, const std::vector<T>& values, const PrintOptions& options)
      : full_(full), options_(options), format_(full.dtype(), values, options), next_(values.data()) {}

  void write(std::string& out, int indent, int axis = 0) {
    if (full_.dim() == 0) {
      out += format_(*next_);
    } else if (axis == full_.dim() - 1) {
      write_row(out, indent, axis);
    } else {
      write_block(out, indent, axis);
    }
  }

 private:
  void write_row(std::string& out, int indent, int axis) {
    const bool cut = is_cut(full_, axis, options_);
    const std::int64_t entries = cut ? 2 * options_.edge_items + 1 : full_.shape()[axis];
    const int per_line = std::max(1, (options_.line_width - indent) / (format_.width() + 2));
    out += '[';
    for (std::int64_t i = 0; i < entries; ++i) {
      if (i > 0) {
        out += ',';
        if (i % per_line == 0) {
          out.append("\n").append(static_cast<std::size_t>(indent + 1), ' ');
        } else {
          out += ' ';
        }
      }
      out += cut && i == options_.edge_items ? std::string(" ...") : format_(*next_++);
    }
    out += ']';
  }
  void write_block(std::string& out, int indent, int axis) {
    const bool cut = is_cut(full_, axis, options_);
    const std::int64_t entries = cut ? 2 * options_.edge_items + 1 : full_.shape()[axis];
    out += '[';
    for (std::int64_t i = 0; i < entries; ++i) {
      if (i > 0) {
        out += ',';
        out.append(static_cast<std::size_t>(full_.dim() - axis - 1), '\n');
        out.append(static_cast<std::size_t>(indent + 1), ' ');
      }
      if (cut && i == options_.edge_items) {
        out += "...";
      } else {
        write(out, indent + 1, axis + 1);
      }
    }
    out += ']';
  }

  const Tensor& full_;
  const PrintOptions& options_;
  Format format_;
  const T* next_;
};

// ", dtype=f64" and the like, on a line of its own where the last one is full.
void append_facts(std::string& out, const Tensor& t, int indent, const PrintOptions& options) {
  const bool empty = t.numel() == 0;
  const bool usual =
      t.dtype() == DType::f32 || (!empty && (t.dtype() == DType::i64 || t.dtype() == DType::boolean));
  std::vector<std::string> facts;
  if (!t.is_cpu()) facts.push_back("device='" + to_string(t.device()) + "'");
  if (empty && t.dim() != 1) {
    std::string size = detail::cat(t.shape());
    size.front() = '(';
    size.back() = ')';
    facts.push_back("size=" + size);
  }
  if (!usual) facts.push_back("dtype=" + std::string(name(t.dtype())));
  if (!t.is_leaf()) {
    facts.emplace_back("grad_fn=<" + std::string(t.grad_fn_name()) + ">");
  } else if (t.requires_grad()) {
    facts.emplace_back("requires_grad=True");
  }
  const std::size_t newline = out.rfind('\n');
  std::size_t column = (newline == std::string::npos ? out.size() + 1 : out.size() - newline) + 1;
  for (const std::string& fact : facts) {
    if (column + fact.size() + 2 > static_cast<std::size_t>(options.line_width)) {
      out.append(",\n").append(static_cast<std::size_t>(indent), ' ').append(fact);
      column = static_cast<std::size_t>(indent) + fact.size();
    } else {
      out.append(", ").append(fact);
      column += fact.size() + 2;
    }
  }
}

// Options that all threads print with.
struct Shared {
  std::mutex mutex;
  PrintOptions options;
};
Shared& shared() {
  static auto* const instance = new Shared;  // never freed: tensors may be printed while the program ends
  return *instance;
}

}  // namespace

void set_print_options(const PrintOptions& options) {
  const auto check = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    CT_CHECK(low <= value && value <= high, ValueError, "set_print_options", name, " is ", value,
             "; it must lie in [", low, ", ", high, "]");
  };
  check("precision", options.precision, 0, 17);
  check("threshold", options.threshold, 0, INT64_MAX);
  check("edge_items", options.edge_items, 0, INT32_MAX);
  check("line_width", options.line_width, 16, 65536);
  const std::lock_guard lock(shared().mutex);
  shared().options = options;
}

PrintOptions print_options() {
  const std::lock_guard lock(shared().mutex);
  return shared().options;
}

std::string to_string(const Tensor& t, const PrintOptions& options) {
  if (!t.defined()) return "tensor(undefined)";
  const NoGrad guard;
  const std::string prefix = "tensor(";
  const int indent = static_cast<int>(prefix.size());
  std::string text = prefix;
  if (t.numel() == 0) {
    text += "[]";
  } else if (is_floating(t.dtype())) {
    const std::vector<double> values = shown_part(t, options).to_vector<double>();
    Writer<double>(t, values, options).write(text, indent);
  } else {
    const std::vector<std::int64_t> values = shown_part(t, options).to_vector<std::int64_t>();
    Writer<std::int64_t>(t, values, options).write(text, indent);
  }
  append_facts(text, t, indent, options);
  return text + ')';
}
std::string to_string(const Tensor& t) { return to_string(t, print_options()); }

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace ct
