#include <algorithm>
#include <cmath>
#include <ostream>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/concat/concat.h>
#include <cotangent/ops/engine/walk/copy.h>

// Tensors as text, in the layout that PyTorch made familiar: columns aligned on the widest value shown, four
// decimals, scientific notation where the values span too much, "..." in place of the middle of long axes.

namespace ct {
namespace {

constexpr std::int64_t kThreshold = 1000;  // more elements than that are summarised
constexpr std::int64_t kEdge = 3;          // what is left of a long axis on either side
constexpr int kLineWidth = 80;

bool is_cut(const Tensor& t, int axis) { return t.numel() > kThreshold && t.shape()[axis] > 2 * kEdge; }

// The elements that are shown, on the CPU: long axes shrink to their two ends.
Tensor shown_part(const Tensor& t) {
  Tensor part = t;
  for (int axis = 0; axis < t.dim(); ++axis) {
    if (!is_cut(t, axis)) continue;
    const std::int64_t n = t.shape()[axis];
    part = concat({part.narrow(axis, 0, kEdge), part.narrow(axis, n - kEdge, kEdge)}, axis);
  }
  return part.is_cpu() ? part : moved(part, cpu);
}

// How one value is written; found by looking at all of them.
class Format {
 public:
  Format(DType dtype, const std::vector<double>& values) : dtype_(dtype) {
    double low = 0, high = 0;
    for (const double v : values) {
      if (v == 0 || !std::isfinite(v)) continue;
      const double size = std::abs(v);
      low = low == 0 ? size : std::min(low, size);
      high = std::max(high, size);
      whole_ = whole_ && v == std::ceil(v);
    }
    if (high == 0) return;
    scientific_ = high / low > 1000 || high > 1e8 || (!whole_ && low < 1e-4);
    for (const double v : values)
      if (v != 0 && std::isfinite(v)) width_ = std::max(width_, plain(v).size());
  }
  Format(DType dtype, const std::vector<std::int64_t>& values) : dtype_(dtype) {
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
    if (scientific_) return detail::scientific(v, 4);
    return whole_ ? detail::fixed(v, 0) + '.' : detail::fixed(v, 4);
  }
  std::string plain(std::int64_t v) const {
    if (dtype_ == DType::boolean) return v ? "True" : "False";
    return std::to_string(v);
  }

  DType dtype_;
  std::size_t width_ = 1;
  bool whole_ = true;
  bool scientific_ = false;
};

// Writes the shown values of `full`, which lie in `values` in row-major order.
template <class T>
class Writer {
 public:
  Writer(const Tensor& full, const std::vector<T>& values)
      : full_(full), format_(full.dtype(), values), next_(values.data()) {}

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
    const bool cut = is_cut(full_, axis);
    const std::int64_t entries = cut ? 2 * kEdge + 1 : full_.shape()[axis];
    const int per_line = std::max(1, (kLineWidth - indent) / (format_.width() + 2));
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
      out += cut && i == kEdge ? std::string(" ...") : format_(*next_++);
    }
    out += ']';
  }
  void write_block(std::string& out, int indent, int axis) {
    const bool cut = is_cut(full_, axis);
    const std::int64_t entries = cut ? 2 * kEdge + 1 : full_.shape()[axis];
    out += '[';
    for (std::int64_t i = 0; i < entries; ++i) {
      if (i > 0) {
        out += ',';
        out.append(static_cast<std::size_t>(full_.dim() - axis - 1), '\n');
        out.append(static_cast<std::size_t>(indent + 1), ' ');
      }
      if (cut && i == kEdge) {
        out += "...";
      } else {
        write(out, indent + 1, axis + 1);
      }
    }
    out += ']';
  }

  const Tensor& full_;
  Format format_;
  const T* next_;
};

// ", dtype=f64" and the like, on a line of its own where the last one is full.
void append_facts(std::string& out, const Tensor& t, int indent) {
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
    if (column + fact.size() + 2 > kLineWidth) {
      out.append(",\n").append(static_cast<std::size_t>(indent), ' ').append(fact);
      column = static_cast<std::size_t>(indent) + fact.size();
    } else {
      out.append(", ").append(fact);
      column += fact.size() + 2;
    }
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "tensor(undefined)";
  const NoGrad guard;
  const std::string prefix = "tensor(";
  const int indent = static_cast<int>(prefix.size());
  std::string text = prefix;
  if (t.numel() == 0) {
    text += "[]";
  } else if (is_floating(t.dtype())) {
    const std::vector<double> values = shown_part(t).to_vector<double>();
    Writer<double>(t, values).write(text, indent);
  } else {
    const std::vector<std::int64_t> values = shown_part(t).to_vector<std::int64_t>();
    Writer<std::int64_t>(t, values).write(text, indent);
  }
  append_facts(text, t, indent);
  return out << text << ')';
}

}  // namespace ct
