#include <cotangent/nn/optim/lbfgs.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct::optim {
namespace {

constexpr const char* kLbfgs = "LBFGS";
// Wolfe's constants: how much of the slope at 0 the loss must fall by, and how much of it may be left.
constexpr double kFall = 1e-4, kFlat = 0.9;
constexpr int kTrials = 25;
constexpr double kNarrow = 1e-9;   // a bracket in which no parameter moves by more
constexpr double kCurved = 1e-10;  // y s of a change that is worth keeping

double number(const Tensor& t) { return t.item(); }
double largest(const Tensor& x) { return number(norm(x, std::numeric_limits<double>::infinity())); }

}  // namespace

struct LBFGS::Point {
  double t = 0, loss = 0, slope = 0;
  Tensor gradient;

  // Minimum of the cubic with these two losses and slopes, within [low, high].
  static double between(const Point& a, const Point& b, double low, double high) {
    const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
    const double square = d1 * d1 - a.slope * b.slope;
    if (!(square >= 0)) return (low + high) / 2;
    const double d2 = std::sqrt(square);
    const Point &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
    const double at =
        right.t - (right.t - left.t) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
    return std::min(std::max(at, low), high);
  }
};

LBFGS::LBFGS(std::vector<Tensor> params, const LBFGSOptions& options) : Optimizer(kLbfgs), options_(options) {
  CT_CHECK(options.max_iter >= 1 && options.history_size >= 1 && options.max_eval.value_or(1) >= 1,
           ValueError, kLbfgs, "max_iter is ", options.max_iter, ", max_eval ", options.max_eval.value_or(1),
           ", history_size ", options.history_size, "; each must be >= 1");
  detail::check_not_negative(kLbfgs, "tolerance_grad", options.tolerance_grad);
  detail::check_not_negative(kLbfgs, "tolerance_change", options.tolerance_change);
  add_group(std::move(params), options.lr);
  const std::vector<Tensor>& all = this->params();
  for (const Tensor& p : all) {
    CT_CHECK(p.device() == all[0].device(), DeviceError, kLbfgs, "got the parameters ", describe(all[0]),
             " and ", describe(p), "; all are one vector, on one device");
    numel_ += p.numel();
  }
}

void LBFGS::update(int, std::span<const int>) {
  detail::fail<ValueError>(
      kLbfgs,
      "step() was called without a closure; call step([&] { ... }) with one that clears the "
      "gradients, computes the loss, calls backward() and gives the loss");
}

Tensor LBFGS::vector_of(bool gradients) const {
  const auto& all = params();
  const bool wide = std::ranges::any_of(all, [](const Tensor& p) { return p.dtype() == DType::f64; });
  std::vector<Tensor> parts;
  for (const Tensor& p : all) {
    const Tensor part = gradients ? p.grad() : p.detach();
    parts.push_back(
        (part.defined() ? part.detach() : zeros(p.shape(), {.dtype = p.dtype(), .device = p.device()}))
            .flatten()
            .to(wide ? f64 : f32));
  }
  return concat(parts);
}

void LBFGS::set_params(const Tensor& x) {
  std::int64_t at = 0;
  for (const Tensor& p : params()) {
    p.detach().copy_(x.narrow(0, at, p.numel()).view(p.shape()));
    at += p.numel();
  }
}

Tensor LBFGS::call(const Closure& closure) {
  Tensor loss;
  {
    const EnableGrad guard;
    loss = closure();
  }
  CT_CHECK(loss.defined() && loss.numel() == 1, ValueError, kLbfgs, "the closure gave ",
           loss.defined() ? describe(loss) : "an undefined tensor", "; it must give the loss, one number");
  ++evaluations_;
  return loss;
}

// -H g by the two loops of algorithm 7.4.
void LBFGS::find_direction(const Tensor& gradient) {
  if (iterations_ == 1) {
    direction_ = neg(gradient);
    return;
  }
  const Tensor y = gradient - gradient_, s = direction_ * t_;
  if (const double ys = number(dot(y, s)); ys > kCurved) {
    if (static_cast<std::int64_t>(history_.size()) == options_.history_size) history_.erase(history_.begin());
    history_.push_back({y, s, 1 / ys});
    scale_ = ys / number(dot(y, y));
  }
  std::vector<double> shares(history_.size());
  Tensor q = neg(gradient);
  for (std::size_t i = history_.size(); i-- > 0;) {
    const Change& change = history_[i];
    shares[i] = number(dot(change.s, q)) * change.inverse;
    q = add(q, change.y, -shares[i]);
  }
  q = q * scale_;
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Change& change = history_[i];
    q = add(q, change.s, shares[i] - number(dot(change.y, q)) * change.inverse);
  }
  direction_ = q;
}

LBFGS::Point LBFGS::evaluate(const Closure& closure, const Tensor& x, double t) {
  set_params(add(x, direction_, t));
  Point point{t, number(call(closure)), 0, vector_of(true)};
  point.slope = number(dot(point.gradient, direction_));
  return point;
}

// Algorithms 3.5 (walk on until the minimum is bracketed) and 3.6 (narrow the bracket).
// Ends after `most` evaluations in all, with the best point that it has seen, where the user has set a limit; by itself it is
// looked at between searches, as PyTorch does.
LBFGS::Point LBFGS::search(const Closure& closure, const Tensor& x, const Point& start, double t,
                           std::int64_t most) {
  const auto falls_short = [&](const Point& p) { return p.loss > start.loss + kFall * p.t * start.slope; };
  const auto is_flat = [&](const Point& p) { return std::abs(p.slope) <= -kFlat * start.slope; };
  Point before = start, at = evaluate(closure, x, t);
  int trials = 0;
  const auto over = [&] { return trials >= kTrials || (options_.max_eval && evaluations_ >= most); };
  for (; !over(); ++trials) {
    const bool rises = falls_short(at) || (trials > 1 && at.loss >= before.loss);
    if (!rises && is_flat(at)) return at;
    if (rises || at.slope >= 0) break;
    const double next = Point::between(before, at, at.t + 0.01 * (at.t - before.t), 10 * at.t);
    before = std::exchange(at, evaluate(closure, x, next));
  }
  std::array<Point, 2> ends = {over() ? start : before, at};
  std::size_t low = ends[0].loss <= ends[1].loss ? 0 : 1;
  const double reach = largest(direction_);
  for (bool stuck = false; !over(); ++trials) {
    Point &best = ends[low], &other = ends[1 - low];
    const auto [left, right] = std::minmax(best.t, other.t);
    if ((right - left) * reach < kNarrow) break;
    double next = Point::between(ends[0], ends[1], left, right);
    // Two times in a row, or at all, at the border of the bracket: a tenth of its width inside instead.
    const double margin = 0.1 * (right - left);
    const bool at_border = std::min(right - next, next - left) < margin;
    const bool moved = at_border && (stuck || next >= right || next <= left);
    if (moved) next = std::abs(next - right) < std::abs(next - left) ? right - margin : left + margin;
    stuck = at_border && !moved;
    Point tried = evaluate(closure, x, next);
    if (falls_short(tried) || tried.loss >= best.loss) {
      other = std::move(tried);
      low = ends[0].loss <= ends[1].loss ? 0 : 1;
      continue;
    }
    const bool done = is_flat(tried);
    if (!done && tried.slope * (other.t - best.t) >= 0) other = best;
    best = std::move(tried);
    if (done) break;
  }
  return ends[low];
}

Tensor LBFGS::step(const Closure& closure) {
  CT_CHECK(closure, ValueError, kLbfgs, "the closure is empty; it must compute the loss and its gradients");
  const NoGrad no_grad;
  const std::int64_t most = evaluations_ + options_.max_eval.value_or(options_.max_iter * 5 / 4);
  const Tensor first = call(closure);
  if (numel_ == 0) return first;
  Point at{0, number(first), 0, vector_of(true)};
  for (Tensor* t : {&direction_, &gradient_})  // they follow a module that has been moved
    if (t->defined()) *t = t->to(at.gradient.device(), at.gradient.dtype());
  for (Change& c : history_)
    for (Tensor* t : {&c.y, &c.s}) *t = t->to(at.gradient.device(), at.gradient.dtype());
  if (largest(at.gradient) <= options_.tolerance_grad) return first;

  for (std::int64_t n = 1; n <= options_.max_iter; ++n) {
    ++iterations_;
    find_direction(at.gradient);
    gradient_ = at.gradient;
    t_ = iterations_ == 1 ? std::min(1.0, 1 / number(norm(at.gradient, 1))) * lr() : lr();
    at.t = 0;
    at.slope = number(dot(at.gradient, direction_));
    if (at.slope > -options_.tolerance_change) break;
    const double loss = at.loss;
    const Tensor x = vector_of(false);
    try {
      if (options_.line_search == LineSearch::strong_wolfe) {
        at = search(closure, x, at, t_, most);
        t_ = at.t;
        set_params(add(x, direction_, t_));
      } else if (n < options_.max_iter) {
        at = evaluate(closure, x, t_);
      } else {
        set_params(add(x, direction_, t_));
      }
    } catch (...) {
      set_params(x);
      throw;
    }
    if (evaluations_ >= most || largest(at.gradient) <= options_.tolerance_grad ||
        largest(direction_ * t_) <= options_.tolerance_change ||
        std::abs(at.loss - loss) < options_.tolerance_change)
      break;
  }
  return first;
}

StateDict LBFGS::state_dict() const {
  StateDict dict;
  dict.set_value("optimizer", kLbfgs);
  dict.set_value("lr", lr());
  dict.set_value("numel", numel_);
  dict.set_value("iterations", iterations_);
  dict.set_value("evaluations", evaluations_);
  dict.set_value("t", t_);
  dict.set_value("scale", scale_);
  dict.set_value("history", history_.size());
  if (direction_.defined()) dict.set("direction", direction_);
  if (gradient_.defined()) dict.set("gradient", gradient_);
  for (std::size_t i = 0; i < history_.size(); ++i) {
    dict.set(detail::cat(i, ".y"), history_[i].y);
    dict.set(detail::cat(i, ".s"), history_[i].s);
  }
  return dict;
}

void LBFGS::load_state_dict(const StateDict& dict) {
  const auto kind = dict.value<std::string>("optimizer");
  CT_CHECK(kind == kLbfgs, ValueError, kLbfgs, "the state is one of ", escaped(kind),
           "; load it into the same kind of optimizer");
  const auto numel = dict.value<std::int64_t>("numel"), iterations = dict.count("iterations", kLbfgs),
             evaluations = dict.count("evaluations", kLbfgs), count = dict.count("history", kLbfgs);
  CT_CHECK(numel == numel_, ValueError, kLbfgs, "the state is one of ", numel,
           " numbers, the parameters here have ", numel_,
           "; build the optimizer as it was when the state was saved");
  CT_CHECK(count <= static_cast<std::int64_t>(dict.size()), ValueError, kLbfgs, "the state counts ", count,
           " changes and holds ", dict.size(), " tensors; it is damaged");
  const NoGrad no_grad;
  const auto vector = [&](const std::string& name) {
    const Tensor& found = dict.at(name);
    CT_CHECK(found.dim() == 1 && found.numel() == numel_ && is_floating(found.dtype()), ValueError, kLbfgs,
             "the state's '", name, "' is ", describe(found), "; it must have ", numel_, " numbers");
    return found.detach().clone();
  };
  Tensor direction, gradient;
  if (iterations > 0) {
    direction = vector("direction");
    gradient = vector("gradient");
  }
  std::vector<Change> history;
  for (std::int64_t i = 0; i < count; ++i) {
    Change change{vector(detail::cat(i, ".y")), vector(detail::cat(i, ".s"))};
    change.inverse = 1 / number(dot(change.y, change.s));
    history.push_back(std::move(change));
  }
  while (static_cast<std::int64_t>(history.size()) > options_.history_size) history.erase(history.begin());
  const double t = dict.value<double>("t"), scale = dict.value<double>("scale");
  set_lr(dict.value<double>("lr"));
  t_ = t;
  scale_ = scale;
  iterations_ = iterations;
  evaluations_ = evaluations;
  direction_ = direction;
  gradient_ = gradient;
  history_ = std::move(history);
}

}  // namespace ct::optim
