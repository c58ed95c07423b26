#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/matmul/products.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
namespace {

// The names of a tensor's axes: a letter of the equation, or kDots + i for the i-th axis that "..." stands for, counted
// from the last one.
using Labels = std::vector<int>;
constexpr int kDots = 256;

bool has(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

struct Operand {
  Tensor tensor;
  Labels labels;

  std::int64_t size(int label) const {
    return tensor.size(std::ranges::find(labels, label) - labels.begin());
  }
};

// The operand with its axes in this order; those that it does not have are of size 1.
Tensor arranged(const Operand& x, const Labels& order) {
  Dims axes;
  for (const int label : order)
    if (has(x.labels, label)) axes.push_back(std::ranges::find(x.labels, label) - x.labels.begin());
  Tensor t = x.tensor.permute(axes);
  for (std::size_t i = 0; i < order.size(); ++i)
    if (!has(x.labels, order[i])) t = t.unsqueeze(static_cast<std::int64_t>(i));
  return t;
}

// The sum over axes that only this operand has and the result does not.
template <class Kept>
void sum_alone(Operand& x, const Kept& is_kept) {
  Dims axes;
  Labels left;
  for (std::size_t i = 0; i < x.labels.size(); ++i)
    is_kept(x.labels[i]) ? left.push_back(x.labels[i]) : axes.push_back(static_cast<std::int64_t>(i));
  if (axes.size() > 0) x = {sum(x.tensor, axes).to(x.tensor.dtype()), left};
}

// An axis of size 1 that meets a longer one is repeated.
void match(Operand& x, const Operand& other) {
  Shape shape = x.tensor.shape();
  for (std::size_t i = 0; i < x.labels.size(); ++i)
    if (auto& size = shape[static_cast<int>(i)]; size == 1 && has(other.labels, x.labels[i]))
      size = other.size(x.labels[i]);
  x.tensor = x.tensor.expand(shape);
}

// The product of two operands, summed over the axes that both have and that is_kept() rejects.
template <class Kept>
Operand multiply(Operand a, Operand b, const Kept& is_kept) {
  Labels stack, summed, rows, columns;
  for (const int label : a.labels)
    (!has(b.labels, label) ? rows : is_kept(label) ? stack : summed).push_back(label);
  for (const int label : b.labels)
    if (!has(a.labels, label)) columns.push_back(label);
  const auto joined = [](Labels first, const Labels& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Labels out = joined(joined(stack, rows), columns);
  if (summed.empty()) return {mul(arranged(a, out), arranged(b, out)), out};
  match(a, b);
  match(b, a);
  Shape shape;
  for (const int label : out) shape.push_back(has(a.labels, label) ? a.size(label) : b.size(label));
  const auto together = [](const Operand& x, const Labels& labels) {
    std::int64_t n = 1;
    for (const int label : labels) n *= x.size(label);
    return n;
  };
  const std::int64_t s = together(a, stack), k = together(a, summed);
  const Tensor left = arranged(a, joined(joined(stack, rows), summed)).reshape({s, together(a, rows), k});
  const Tensor right =
      arranged(b, joined(joined(stack, summed), columns)).reshape({s, k, together(b, columns)});
  return {matmul(left, right).reshape(shape), out};
}

// An equation's term for one tensor, with the number of axes that its "..." has, or -1 without.
struct Term {
  std::string letters;
  std::size_t dots = std::string::npos;  // "..." stands before this letter

  Term(std::string_view text, std::string_view equation) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == ' ') continue;
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        letters += c;
      } else {
        CT_CHECK(text.substr(i, 3) == "..." && dots == std::string::npos, ShapeError, "einsum", "equation \"",
                 equation, "\" has \"", text.substr(i, 3),
                 "\"; a term is made of letters and at most one \"...\"");
        dots = letters.size();
        i += 2;
      }
    }
  }
  Labels labels(int hidden) const {
    Labels out(letters.begin(), letters.end());
    if (dots == std::string::npos) return out;
    for (int i = 0; i < hidden; ++i) out.insert(out.begin() + static_cast<std::ptrdiff_t>(dots), kDots + i);
    return out;
  }
};

// Replaces axes with the same letter by their diagonal, as the last axis.
void take_diagonals(Operand& x) {
  Labels& labels = x.labels;
  for (std::size_t i = 0; i < labels.size();) {
    const auto first = labels.begin() + static_cast<std::ptrdiff_t>(i);
    const auto twin = std::find(first + 1, labels.end(), *first);
    if (twin == labels.end()) {
      ++i;
      continue;
    }
    const int label = *first;
    x.tensor = x.tensor.diagonal(0, static_cast<std::int64_t>(i), twin - labels.begin());
    labels.erase(twin);
    labels.erase(labels.begin() + static_cast<std::ptrdiff_t>(i));
    labels.push_back(label);
  }
}

}  // namespace

Tensor einsum(std::string_view equation, TensorList operands) {
  const std::size_t arrow = equation.find("->");
  std::string_view rest = equation.substr(0, arrow);
  std::vector<Term> terms;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    terms.emplace_back(rest.substr(0, comma), equation);
    if (more) rest.remove_prefix(comma + 1);
  }
  CT_CHECK(terms.size() == operands.size(), ShapeError, "einsum", "equation \"", equation, "\" has ",
           terms.size(), " terms for ", operands.size(), " operands; each operand needs one");
  std::vector<Operand> parts;
  std::map<int, std::int64_t> sizes;
  std::map<int, int> count;
  int hidden = 0;  // the most axes that a "..." stands for
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Tensor& t = operands[i];
    CT_CHECK(t.defined(), ShapeError, "einsum", "operand ", i, " is undefined; pass a tensor");
    const auto letters = static_cast<int>(terms[i].letters.size());
    const bool dots = terms[i].dots != std::string::npos;
    CT_CHECK(dots ? t.dim() >= letters : t.dim() == letters, ShapeError, "einsum", "equation \"", equation,
             "\" names ", letters, " axes of operand ", i, ", which is ", describe(t), "; each axis needs a ",
             dots ? "letter or a place in \"...\"" : "letter");
    hidden = std::max(hidden, dots ? t.dim() - letters : 0);
    parts.push_back({t, terms[i].labels(t.dim() - letters)});
    for (const char c : terms[i].letters) ++count[c];
    for (int axis = 0; axis < t.dim(); ++axis) {
      const int label = parts[i].labels[static_cast<std::size_t>(axis)];
      const bool twice = std::ranges::count(parts[i].labels, label) > 1;
      std::int64_t& size = sizes.try_emplace(label, t.size(axis)).first->second;
      const std::string name = label < kDots ? std::string(1, static_cast<char>(label)) : "...";
      CT_CHECK(size == t.size(axis) || (!twice && (size == 1 || t.size(axis) == 1)), ShapeError, "einsum",
               "\"", name, "\" of equation \"", equation, "\" is ", size, " and, in operand ", i,
               ", which is ", describe(t), ", ", t.size(axis),
               "; axes of one letter must be of one size, or 1");
      size = std::max(size, t.size(axis));
    }
    take_diagonals(parts[i]);
  }

  std::string implied;
  for (const auto& [letter, times] : count)
    if (times == 1) implied += static_cast<char>(letter);
  Term result(arrow == std::string_view::npos ? implied : equation.substr(arrow + 2), equation);
  if (arrow == std::string_view::npos) result.dots = 0;
  for (const char c : result.letters)
    CT_CHECK(count.contains(c) && std::ranges::count(result.letters, c) == 1, ShapeError, "einsum",
             "the result of equation \"", equation, "\" has '", c,
             "'; it needs letters of the operands, each once");
  CT_CHECK(result.dots != std::string::npos || hidden == 0, ShapeError, "einsum", "equation \"", equation,
           "\" has \"...\" for ", hidden, " axes that the result does not have; write \"...\" there too");
  const Labels wanted = result.labels(hidden);

  Operand product;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Letters that the result or a later operand has.
    const auto is_kept = [&](int label) {
      return has(wanted, label) ||
             std::any_of(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end(),
                         [&](const Operand& p) { return has(p.labels, label); });
    };
    sum_alone(parts[i], [&](int label) { return is_kept(label) || (i > 0 && has(product.labels, label)); });
    product = i == 0 ? parts[0] : multiply(product, parts[i], is_kept);
    sum_alone(product, is_kept);
  }
  return arranged(product, wanted);
}

Tensor tensordot(const Tensor& a, const Tensor& b, Integer axes) {
  const std::int64_t n = axes;
  CT_CHECK(n >= 0 && n <= a.dim() && n <= b.dim(), ShapeError, "tensordot", "got ", n,
           " axes of a, which is ", describe(a), ", and b, which is ", describe(b),
           "; both need so many, and at least 0");
  Dims of_a, of_b;
  for (std::int64_t i = 0; i < n; ++i) {
    of_a.push_back(a.dim() - n + i);
    of_b.push_back(i);
  }
  return tensordot(a, b, of_a, of_b);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes) {
  CT_CHECK(a_axes.size() == b_axes.size(), ShapeError, "tensordot", "got ", a_axes.size(), " axes of a and ",
           b_axes.size(), " of b; each of a needs one of b");
  CT_CHECK(a_axes.size() <= std::min(a.dim(), b.dim()), ShapeError, "tensordot", "got ", a_axes.size(),
           " axes of a, which is ", describe(a), ", and of b, which is ", describe(b),
           "; a tensor has no more than that");
  Operand x{a, {}}, y{b, {}};
  for (int i = 0; i < a.dim(); ++i) x.labels.push_back(i);
  for (int i = 0; i < b.dim(); ++i) y.labels.push_back(kDots + i);
  Labels summed;
  for (int i = 0; i < a_axes.size(); ++i) {
    const int in_a = static_cast<int>(wrap_axis("tensordot", a_axes[i], a.dim()));
    int& in_b = y.labels[static_cast<std::size_t>(wrap_axis("tensordot", b_axes[i], b.dim()))];
    CT_CHECK(!has(summed, in_a) && in_b >= kDots, ShapeError, "tensordot", "axis ", a_axes[i], " of a or ",
             b_axes[i], " of b is there twice; name each once");
    CT_CHECK(a.size(in_a) == b.size(b_axes[i]), ShapeError, "tensordot", "axis ", a_axes[i],
             " of a, which is ", describe(a), ", and axis ", b_axes[i], " of b, which is ", describe(b),
             ", differ in size; sums need as many elements of both");
    summed.push_back(in_b = in_a);
  }
  return multiply(x, y, [&](int label) { return !has(summed, label); }).tensor;
}

Tensor outer(const Tensor& a, const Tensor& b) {
  CT_CHECK(a.dim() == 1 && b.dim() == 1, ShapeError, "outer", "a is ", describe(a), ", b is ", describe(b),
           "; both must be vectors: use flatten()");
  return mul(a.unsqueeze(1), b);
}

namespace {

Tensor scaled_sum(const Tensor& x, Tensor product, const AddmmOptions& options) {
  if (options.alpha.to<double>() != 1) product = mul(product, options.alpha);
  const Tensor spread = x.expand_as(product);  // refuses what does not broadcast
  return options.beta.to<double>() == 0 ? product : add(product, spread, options.beta);
}

}  // namespace

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const AddmmOptions& options) {
  return scaled_sum(x, mm(a, b), options);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const AddmmOptions& options) {
  return scaled_sum(x, bmm(a, b), options);
}

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  CT_CHECK(weight.dim() == 3 && x1.dim() > 0 && x1.dim() == x2.dim() && x1.size(-1) == weight.size(1) &&
               x2.size(-1) == weight.size(2),
           ShapeError, "bilinear", "x1 is ", describe(x1), ", x2 is ", describe(x2), ", weight is ",
           describe(weight), "; weight must be [outputs, x1.size(-1), x2.size(-1)]");
  CT_CHECK(!bias.defined() || bias.shape() == Shape{weight.size(0)}, ShapeError, "bilinear", "bias is ",
           describe(bias), ", weight is ", describe(weight), "; bias must be [weight.size(0)]");
  const Tensor y = einsum("...i,oij,...j->...o", {x1, weight, x2});
  return bias.defined() ? add(y, bias) : y;
}

Tensor cdist(const Tensor& x, const Tensor& y, Real p) {
  CT_CHECK(x.dim() >= 2 && y.dim() >= 2 && x.size(-1) == y.size(-1), ShapeError, "cdist", "x is ",
           describe(x), ", y is ", describe(y),
           "; rows of both must be of one length: [.., n, d] and [.., m, d]");
  CT_CHECK(p >= 0, ValueError, "cdist", "p is ", static_cast<double>(p), "; it must be at least 0");
  const Tensor apart = sub(x.unsqueeze(-2), y.unsqueeze(-3));
  return x.size(-1) == 0 ? sum(apart, {-1}) : norm(apart, p, {-1});  // none has a largest element
}

CT_COMPOSED(products)

CT_MEMBER(Tensor, outer, (const Tensor& b) const, b)

}  // namespace ct
