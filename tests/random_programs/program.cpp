#include "tests/random_programs/program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ct::random_programs {
namespace {

constexpr double kNear = 1e-6, kLarge = 300;
constexpr std::int64_t kMany = 120;

std::string text(double v) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.17g", v);
  return std::isnan(v) ? "NaN" : std::isinf(v) ? (v > 0 ? "Infinity" : "-Infinity") : digits;
}
template <class List, class Text>
std::string bracketed(const List& list, Text&& one) {
  std::string out = "[";
  for (const auto& item : list) out.append(out.size() > 1 ? "," : "").append(one(item));
  return out + "]";
}
std::string numbers(const Tensor& t) {
  if (!t.defined()) return "null";
  return bracketed(t.to_vector<double>(), text);
}
std::string sizes(const Tensor& t) {
  return bracketed(t.shape(), [](std::int64_t n) { return std::to_string(n); });
}

// Any number of values that depend on a seed and a number alone.
std::vector<double> normal_values(std::uint64_t seed, std::size_t which, std::int64_t count) {
  std::mt19937_64 random(seed * 1000003 + which * 7919 + 17);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& v : values) {
    double sum = -6;  // of twelve uniform ones: normal enough, and the same with every standard library
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    v = sum;
  }
  return values;
}

// Weights that both sides can write down exactly.
Tensor weights(const Tensor& t, std::size_t id) {
  std::vector<double> w(static_cast<std::size_t>(t.numel()));
  for (std::size_t j = 0; j < w.size(); ++j) w[j] = (static_cast<double>((j * 37 + id * 11) % 17) - 8) / 8;
  return from_vector(w, t.shape(), {.device = t.device()});
}

bool floating(const Tensor& t) { return t.defined() && t.dtype() == f64; }

void add_inputs(Draw& draw) {
  for (std::int64_t n = draw.number(2, 3); n > 0; --n) {
    Shape shape;
    for (std::int64_t rank = draw.number(1, 3); rank > 0; --rank) shape.push_back(draw.number(1, 4));
    draw.leaf(shape);
  }
}

// Whether values are such that programs made of them stay in hand.
bool sane(const Results& results) {
  for (const Tensor& t : results.list) {
    if (!t.defined() || t.numel() == 0 || t.numel() > kMany || t.dim() > 5) return false;
    if (!floating(t)) continue;
    for (const double v : t.to_vector<double>())
      if (!(std::abs(v) < kLarge)) return false;
  }
  return true;
}

}  // namespace

const std::vector<Op>& ops() {
  static const std::vector<Op> all = [] {
    std::vector<Op> list;
    add_elementwise(list);
    add_shapes(list);
    add_layers(list);
    return list;
  }();
  return all;
}

std::int64_t Draw::number(std::int64_t low, std::int64_t high) {
  if (low > high) throw Skip{};
  if (again_) return decisions_[next_++];
  const auto range = static_cast<std::uint64_t>(high - low + 1);
  decisions_.push_back(low + static_cast<std::int64_t>(random_() % range));
  return decisions_.back();
}

std::int64_t Draw::operand(const std::function<bool(const Tensor&)>& fits) {
  std::int64_t id = 0;
  if (again_) {
    id = decisions_[next_++];
  } else {
    std::vector<std::int64_t> found;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (fits(values_[i])) found.push_back(static_cast<std::int64_t>(i));
    if (found.empty()) throw Skip{};
    // Rather a late one: programs are to be deep.
    id = found[std::max(random_() % found.size(), random_() % found.size())];
    decisions_.push_back(id);
  }
  operands_ += (operands_.empty() ? "" : ",") + std::to_string(id);
  return id;
}

Tensor Draw::any(const std::function<bool(const Tensor&)>& fits) {
  return values_[static_cast<std::size_t>(operand(fits))];
}
Tensor Draw::x(int least_rank, int most_rank, const std::function<bool(const Values&)>& fits) {
  return any([&](const Tensor& t) {
    return floating(t) && t.dim() >= least_rank && t.dim() <= most_rank &&
           (!fits || fits(t.to_vector<double>()));
  });
}
Tensor Draw::within(double low, double high) {
  return x(0, 8, [&](const Values& v) {
    return std::all_of(v.begin(), v.end(), [&](double e) { return e >= low && e <= high; });
  });
}
Tensor Draw::away(const std::vector<double>& from) {
  return x(0, 8, [&](const Values& v) {
    for (const double e : v)
      for (const double f : from)
        if (std::abs(e - f) < kNear) return false;
    return true;
  });
}
Tensor Draw::off_steps() {
  return x(0, 8, [&](const Values& v) {
    return std::all_of(v.begin(), v.end(),
                       [](double e) { return std::abs(2 * e - std::round(2 * e)) > kNear; });
  });
}
Tensor Draw::distinct(int least_rank) {
  return x(least_rank, 8, [&](Values v) {
    std::sort(v.begin(), v.end());
    for (std::size_t i = 1; i < v.size(); ++i)
      if (v[i] - v[i - 1] < kNear) return false;
    return true;
  });
}
Tensor Draw::beside(const Tensor& other, double low, double high) {
  return any([&](const Tensor& t) {
    if (!floating(t)) return false;
    std::int64_t count = 1;
    for (int i = 1; i <= std::max(t.dim(), other.dim()); ++i) {
      const std::int64_t a = i <= t.dim() ? t.size(-i) : 1, b = i <= other.dim() ? other.size(-i) : 1;
      if (a != b && a != 1 && b != 1) return false;
      count *= std::max(a, b);
    }
    const auto values = t.to_vector<double>();
    return count <= kMany &&
           std::all_of(values.begin(), values.end(), [&](double v) { return v >= low && v <= high; });
  });
}
Tensor Draw::like(const Tensor& other) {
  return any([&](const Tensor& t) { return floating(t) && t.shape() == other.shape(); });
}
Tensor Draw::mask_for(const Tensor& other) {
  return any([&](const Tensor& t) { return t.dtype() == boolean && t.shape() == other.shape(); });
}

Tensor Draw::add_constant(const char* kind, Tensor t, const std::string& values) {
  const std::string id = std::to_string(values_.size());
  operands_ += (operands_.empty() ? "" : ",") + id;
  lines_.push_back("{\"op\":\"" + std::string(kind) + "\",\"shape\":" + sizes(t) + ",\"values\":" + values +
                   ",\"out\":[" + id + "]}");
  values_.push_back(t);
  is_leaf_.push_back(t.requires_grad());
  return t;
}
Tensor Draw::leaf(const Shape& shape) {
  const std::size_t id = values_.size();
  Tensor t = from_vector(normal_values(seed_, id, numel(shape)), shape);
  if (step_ != 0) t = t + step_ * from_vector(normal_values(~seed_, id, t.numel()), shape);
  t = t.to(device_);
  t.set_requires_grad();
  return add_constant("leaf", t, numbers(t));
}
Tensor Draw::indices(const Shape& shape, std::int64_t limit, bool distinct) {
  std::vector<std::int64_t> list;
  const std::int64_t count = numel(shape);
  if (distinct && count > limit) throw Skip{};
  while (static_cast<std::int64_t>(list.size()) < count) {
    const std::int64_t i = number(0, limit - 1);
    if (distinct && std::find(list.begin(), list.end(), i) != list.end()) {
      if (!again_) decisions_.pop_back();
      continue;
    }
    list.push_back(i);
  }
  const Tensor t = from_vector(list, shape).to(device_);
  return add_constant("indices", t, bracketed(list, [](std::int64_t i) { return std::to_string(i); }));
}

void Draw::note(const char* name, const std::string& value) {
  attributes_ += (attributes_.empty() ? "\"" : ",\"") + std::string(name) + "\":" + value;
}
std::int64_t Draw::whole_as(const char* name, std::int64_t low, std::int64_t high,
                            const std::vector<std::string>& names) {
  const std::int64_t n = number(low, high);
  note(name, names.empty() ? std::to_string(n) : names[static_cast<std::size_t>(n)]);
  return n;
}
std::int64_t Draw::whole(const char* name, std::int64_t low, std::int64_t high) {
  return whole_as(name, low, high, {});
}
std::int64_t Draw::dim(const char* name, const Tensor& of) { return whole(name, -of.dim(), of.dim() - 1); }
double Draw::real(const char* name, const std::vector<double>& choices) {
  const double v =
      choices[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(choices.size()) - 1))];
  note(name, text(v));
  return v;
}
std::int64_t Draw::choice(const char* name, const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& n : names) quoted.push_back("\"" + n + "\"");
  return whole_as(name, 0, static_cast<std::int64_t>(names.size()) - 1, quoted);
}
void Draw::list(const char* name, const std::vector<std::int64_t>& list) {
  note(name, bracketed(list, [](std::int64_t n) { return std::to_string(n); }));
}
Dims Draw::dims(const char* name, const Tensor& of) {
  if (of.dim() == 0) throw Skip{};
  Dims axes;
  const std::int64_t which = number(1, (1 << of.dim()) - 1);
  for (int i = 0; i < of.dim(); ++i)
    if (which >> i & 1) axes.push_back(i);
  list(name, std::vector<std::int64_t>(axes.begin(), axes.end()));
  return axes;
}

Program::Program(std::uint64_t number_, Device where) : seed(number_), device(where) {
  Draw draw(seed, device, 0);
  // Its first inputs are a call without an op.
  add_inputs(draw);
  calls.push_back({ops().size(), draw.decisions_});
  const std::int64_t length = 4 + static_cast<std::int64_t>(draw.random_() % 9);
  for (int tries = 0; tries < 400 && static_cast<std::int64_t>(calls.size()) <= length; ++tries) {
    const std::size_t op = draw.random_() % ops().size(), had = draw.values_.size(),
                      lines_had = draw.lines_.size();
    draw.operands_.clear(), draw.attributes_.clear(), draw.decisions_.clear();
    bool made = false;
    try {
      const Results results = ops()[op].run(draw);
      made = sane(results);
      if (made) {
        std::string out;
        for (const Tensor& t : results.list) {
          out += (out.empty() ? "" : ",") + std::to_string(draw.values_.size());
          draw.values_.push_back(t);
          draw.is_leaf_.push_back(false);
        }
        draw.lines_.push_back("{\"op\":\"" + ops()[op].name + "\",\"in\":[" + draw.operands_ +
                              "],\"attrs\":{" + draw.attributes_ + "},\"out\":[" + out + "]}");
        calls.push_back({op, draw.decisions_});
      }
    } catch (const Skip&) {
    } catch (const Error& e) { refused.push_back(ops()[op].name + ": " + e.what()); }
    if (made) continue;
    draw.values_.resize(had), draw.is_leaf_.resize(had), draw.lines_.resize(lines_had);
  }
  try {
    differentiate(draw);
  } catch (const Error& e) {
    std::string all = e.what();
    for (const std::string& line : draw.lines_) all += "\n  " + line;
    throw Error(all);
  }
}

Program Program::again(double step) const {
  Program p;
  p.seed = seed, p.device = device, p.calls = calls;
  Draw draw(seed, device, step);
  draw.again_ = true;
  for (const Call& call : calls) {
    draw.decisions_ = call.decisions, draw.next_ = 0;
    if (call.op == ops().size()) {
      add_inputs(draw);
      continue;
    }
    for (const Tensor& t : ops()[call.op].run(draw).list) {
      draw.values_.push_back(t);
      draw.is_leaf_.push_back(false);
    }
  }
  p.differentiate(draw);
  return p;
}

void Program::differentiate(const Draw& draw) {
  lines = draw.lines_, values = draw.values_;
  Tensor total = zeros({}, {.dtype = f64, .device = device});
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (draw.is_leaf_[i]) {
      leaves.push_back(values[i]);
      directions.push_back(from_vector(normal_values(~seed, i, values[i].numel()), values[i].shape()));
    } else if (floating(values[i]) && values[i].requires_grad()) {
      total = total + sum(values[i] * weights(values[i], i));
    }
  }
  loss = total.item();
  seconds.resize(leaves.size());
  if (!total.requires_grad()) {
    gradients = by_rules = seconds;
    return;
  }
  gradients = grad({total}, leaves, {}, {.retain_graph = true, .allow_unused = true});
  by_rules = grad({total}, leaves, {}, {.allow_unused = true, .create_graph = true});
  Tensor again = zeros({}, {.dtype = f64, .device = device});
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (by_rules[i].defined() && by_rules[i].requires_grad())
      again = again + sum(by_rules[i] * weights(by_rules[i], 1000 + i));
  if (again.requires_grad()) seconds = grad({again}, leaves, {}, {.allow_unused = true});
}

std::string Program::json() const {
  const auto all = [](const std::vector<Tensor>& list) { return bracketed(list, numbers); };
  return "{\"seed\":" + std::to_string(seed) +
         ",\"lines\":" + bracketed(lines, [](const std::string& l) { return l; }) +
         ",\"values\":" + all(values) + ",\"shapes\":" + bracketed(values, sizes) +
         ",\"loss\":" + text(loss) + ",\"gradients\":" + all(gradients) + ",\"by_rules\":" + all(by_rules) +
         ",\"seconds\":" + all(seconds) + "}";
}

}  // namespace ct::random_programs
