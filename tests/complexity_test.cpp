#include <cotangent/cotangent.h>

#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/testing/conformance_internal.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"

// Ops take time by what they read and write, in every dtype and both directions: a plain kernel, which f64 runs, may be
// slower by a factor, but not by one that grows with the call. The time is that of the thread that works.

namespace {

using namespace ct;

using Make = std::function<Tensor(DType, std::int64_t)>;
// A call whose work grows as a power of n.
struct Growing {
  const char* name;
  double power;
  std::int64_t n;  // the smaller call
  std::vector<Make> inputs;
  std::function<Tensor(const std::vector<Tensor>&, std::int64_t)> call;
};

Tensor drawn(const Shape& shape, DType dtype) {
  Generator generator(5);
  return rand(shape, {.dtype = f64}, generator).to(dtype) * 0.8 + 0.1;
}
Make of(std::function<Shape(std::int64_t)> shape) {
  return [shape](DType dtype, std::int64_t n) { return drawn(shape(n), dtype); };
}
Make ids(std::function<std::int64_t(std::int64_t)> count, std::int64_t limit) {
  return [=](DType, std::int64_t n) { return (drawn({count(n)}, f64) * static_cast<double>(limit)).to(i64); };
}

std::vector<Growing> calls() {
  using In = const std::vector<Tensor>&;
  const Make vector = of([](std::int64_t n) { return Shape{n}; });
  const Make matrix = of([](std::int64_t n) { return Shape{n, 64}; });
  const Make square = of([](std::int64_t n) { return Shape{n, n}; });
  const Make image = of([](std::int64_t n) { return Shape{1, 2, n, n}; });
  const Make line = of([](std::int64_t n) { return Shape{1, 2, n}; });
  const Make head = of([](std::int64_t n) { return Shape{1, 1, n, 16}; });
  const auto fixed = [](const Shape& s) { return of([s](std::int64_t) { return s; }); };
  const Make classes = ids([](std::int64_t n) { return n; }, 64);

  std::vector<Growing> all;
  const auto add = [&](const char* name, double power, std::int64_t n, std::vector<Make> inputs, auto call) {
    all.push_back({name, power, n, std::move(inputs), call});
  };
  using Unary = Tensor (*)(const Tensor&);
  const std::pair<const char*, Unary> unary[] = {
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"sin", [](const Tensor& x) { return sin(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"erfc", [](const Tensor& x) { return erfc(x); }},
      {"acos", [](const Tensor& x) { return acos(x); }},
      {"expm1", [](const Tensor& x) { return expm1(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"sum", [](const Tensor& x) { return sum(x); }},
      {"var", [](const Tensor& x) { return var(x); }},
      {"prod", [](const Tensor& x) { return prod(x); }},
      {"amax", [](const Tensor& x) { return amax(x); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 0); }},
      {"logcumsumexp", [](const Tensor& x) { return logcumsumexp(x, 0); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }},
      {"flip", [](const Tensor& x) { return flip(x, {0}); }},
      {"median", [](const Tensor& x) { return median(x); }},
      {"layer_norm of one row", [](const Tensor& x) { return layer_norm(x.unsqueeze(0)); }},
      {"rms_norm of one row", [](const Tensor& x) { return rms_norm(x.unsqueeze(0)); }}};
  for (const auto& [name, f] : unary)
    add(name, 1, 1 << 12, {vector}, [f = f](In x, std::int64_t) { return f(x[0]); });
  add("mul", 1, 1 << 12, {vector, vector}, [](In x, std::int64_t) { return x[0] * x[1]; });
  add("pow", 1, 1 << 12, {vector, vector}, [](In x, std::int64_t) { return pow(x[0], x[1]); });
  add("concat", 1, 1 << 12, {vector, vector}, [](In x, std::int64_t) { return concat({x[0], x[1]}, 0); });
  add("softmax of rows", 1, 256, {matrix}, [](In x, std::int64_t) { return softmax(x[0], -1); });
  add("layer_norm", 1, 256, {matrix}, [](In x, std::int64_t) { return layer_norm(x[0]); });
  add("topk", 1, 256, {matrix}, [](In x, std::int64_t) { return topk(x[0], 3).values; });
  add("cross_entropy", 1, 256, {matrix, classes},
      [](In x, std::int64_t) { return cross_entropy(x[0], x[1]); });
  add("cross_entropy by classes", 1, 256,
      {of([](std::int64_t n) {
         return Shape{8, n};
       }),
       ids([](std::int64_t) { return 8; }, 64)},
      [](In x, std::int64_t) { return cross_entropy(x[0], x[1]); });
  add("mse_loss", 1, 1 << 12, {vector, vector}, [](In x, std::int64_t) { return mse_loss(x[0], x[1]); });
  add("embedding", 1, 256, {matrix, classes}, [](In x, std::int64_t) { return embedding(x[1], x[0]); });
  add("index_select", 1, 256, {matrix, classes},
      [](In x, std::int64_t) { return index_select(x[0], 0, x[1]); });
  add("linear by rows", 1, 64, {matrix, fixed({32, 64})},
      [](In x, std::int64_t) { return linear(x[0], x[1]); });
  add("matmul", 3, 24, {square, square}, [](In x, std::int64_t) { return matmul(x[0], x[1]); });
  add("attention", 2, 32, {head, head, head},
      [](In x, std::int64_t) { return scaled_dot_product_attention(x[0], x[1], x[2]); });
  add("conv2d", 2, 16, {image, fixed({2, 2, 3, 3})}, [](In x, std::int64_t) { return conv2d(x[0], x[1]); });
  add("conv_transpose2d", 2, 16, {image, fixed({2, 2, 3, 3})},
      [](In x, std::int64_t) { return conv_transpose2d(x[0], x[1]); });
  add("conv1d", 1, 512, {line, fixed({2, 2, 3})}, [](In x, std::int64_t) { return conv1d(x[0], x[1]); });
  add("max_pool2d", 2, 32, {image}, [](In x, std::int64_t) { return max_pool2d(x[0], 2); });
  add("avg_pool2d", 2, 32, {image}, [](In x, std::int64_t) { return avg_pool2d(x[0], 2); });
  add("adaptive_avg_pool2d", 2, 32, {image},
      [](In x, std::int64_t n) { return adaptive_avg_pool2d(x[0], n / 2); });
  add("adaptive_max_pool2d", 2, 32, {image},
      [](In x, std::int64_t n) { return adaptive_max_pool2d(x[0], n / 2); });
  add("batch_norm", 2, 32, {image}, [](In x, std::int64_t) { return instance_norm(x[0]); });
  for (const bool up : {true, false})
    for (const auto mode : {Interpolation::nearest, Interpolation::linear})
      for (const bool corners : {false, true}) {
        if (corners && mode == Interpolation::nearest) continue;
        const auto size = [up](std::int64_t n) { return up ? 2 * n : n / 2; };
        add("upsample_nearest or bilinear", 2, 16, {image}, [=](In x, std::int64_t n) {
          return mode == Interpolation::nearest ? upsample_nearest(x[0], size(n))
                                                : upsample_bilinear(x[0], size(n), corners);
        });
        add("interpolate a line", 1, 256, {line}, [=](In x, std::int64_t n) {
          return interpolate(x[0], {.size = size(n), .mode = mode, .align_corners = corners});
        });
      }
  return all;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr double kUnknown = 1e9;
// On a busy virtual machine the clock of a thread stands still at times: then the measurement says nothing.
double seconds_since(double begin) {
  const double taken = thread_seconds() - begin;
  return taken > 0 ? taken : kUnknown;
}

struct Times {
  double forward = kUnknown, backward = kUnknown;
  Times least(const Times& t) const { return {std::min(forward, t.forward), std::min(backward, t.backward)}; }
};
#ifdef CT_SANITIZED  // whose checks are most of the time: a call is repeated where it seems slow
constexpr int kRepeats = 1, kAttempts = 9;
#else
constexpr int kRepeats = 3, kAttempts = 3;
#endif

Times measure(const Growing& op, DType dtype, std::int64_t n) {
  Times best;
  std::vector<Tensor> inputs;
  for (const Make& make : op.inputs) inputs.push_back(make(dtype, n).detach());
  for (Tensor& t : inputs)
    if (is_floating(t.dtype())) t.set_requires_grad();
  for (int i = 0; i < kRepeats; ++i) {
    const double begin = thread_seconds();
    const Tensor y = op.call(inputs, n);
    const double forward = seconds_since(begin), middle = thread_seconds();
    y.backward(ones(y.shape(), {.dtype = y.dtype()}));
    best = best.least({forward, seconds_since(middle)});
    for (Tensor& t : inputs) t.set_grad({});
  }
  return best;
}

// ---- The ops of the registry, by the samples that they are tested with ----

using testing::conformance::Tensors;

// A sample with every extent `from` `times` as large, where its elements repeat: none of them leaves its range.
Tensors grown(const Tensors& inputs, std::int64_t from, std::int64_t times) {
  Tensors all = inputs;
  for (Tensor& t : all) {
    if (!t.defined() || t.dim() == 0) continue;
    Dims repeats;
    for (const std::int64_t extent : t.shape()) repeats.push_back(extent == from ? times : 1);
    t = repeat(t, repeats);
  }
  return all;
}

// Least work of a call, in operations and bytes of f32: its cost, and for a gradient its inputs.
struct Work {
  double forward = 0, backward = 0;
};
Work work_of(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs) {
  const NoGrad guard;
  std::vector<TensorMeta> in, out;
  double bytes = 0;
  for (const Tensor& t : inputs) {
    in.push_back(t.defined() ? TensorMeta{t.shape(), t.dtype(), cpu} : TensorMeta{{0}, f32, cpu});
    if (t.defined()) bytes += 4 * static_cast<double>(t.numel());
  }
  const DType dtype = op.dtypes & dtype_bit(DType::f32) ? f32 : i64;
  for (const Tensor& t :
       testing::conformance::call(op, testing::conformance::convert(op, inputs, dtype, cpu), attrs))
    out.push_back(t.defined() ? TensorMeta{t.shape(), t.dtype(), cpu} : TensorMeta{{0}, f32, cpu});
  const Cost cost = cost_of(op, in, out, attrs.view());
  return {cost.flops + cost.bytes, cost.flops + cost.bytes + bytes};
}

// One call of an op, to be measured: forward and, where it has one, backward.
class MeasuredCall {
 public:
  MeasuredCall(const OpDef& op, const Sample& sample, const Tensors& inputs, DType dtype)
      : op_(op), attrs_(sample.attrs), leaves_(testing::conformance::convert(op, inputs, dtype, cpu)) {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!leaves_[i].defined()) continue;
      leaves_[i] = leaves_[i].detach();
      if (is_floating(dtype) && testing::conformance::takes_gradient(op, i, leaves_[i]))
        leaves_[i].set_requires_grad();
    }
  }
  Times measure() const {
    const double begin = thread_seconds();
    const Tensors y = testing::conformance::call(op_, leaves_, attrs_);
    Times times{seconds_since(begin), 0};
    Tensors roots, cotangents;
    for (const Tensor& t : y)
      if (t.defined() && t.requires_grad()) roots.push_back(t), cotangents.push_back(ones_like(t.detach()));
    if (roots.empty()) return times;
    const double middle = thread_seconds();
    backward(roots, cotangents);
    times.backward = seconds_since(middle);
    for (const Tensor& t : leaves_)
      if (t.defined()) Tensor(t).set_grad({});
    return times;
  }

 private:
  const OpDef& op_;
  const AnyAttrs& attrs_;
  Tensors leaves_;
};

// A sample and an extent of it, so small that a call takes some microseconds, and with 16 times the work.
struct Growth {
  Tensors small, large;
  Work more;  // times the work
};
// Nothing where the call that is so made is none, or no larger.
std::vector<Growth> growths(const OpDef& op, const Sample& sample) {
  constexpr double kSmall = 12e3;
  constexpr std::int64_t kElements = 1 << 20;  // of an input at most
  std::set<std::int64_t> extents;
  for (const Tensor& t : sample.inputs)
    if (t.defined()) extents.insert(t.shape().begin(), t.shape().end());
  std::vector<Growth> all;
  for (const std::int64_t extent : extents) {
    if (extent < 2) continue;
    try {
      Growth growth;
      Work small = work_of(op, sample.inputs, sample.attrs), large = small;
      if (work_of(op, grown(sample.inputs, extent, 2), sample.attrs).forward <= small.forward) continue;
      const auto grow = [&](double least, std::int64_t& times, Tensors& to) {
        Work work;
        for (bool fits = true; fits && work.forward < least; times *= 2) {
          to = grown(sample.inputs, extent, times);
          work = work_of(op, to, sample.attrs);
          for (const Tensor& t : to) fits = fits && (!t.defined() || t.numel() < kElements);
        }
        return work;
      };
      std::int64_t times = 1;
      small = grow(kSmall, times, growth.small);
      large = grow(16 * small.forward, times, growth.large);
      growth.more = {large.forward / small.forward, large.backward / small.backward};
      if (growth.more.forward > 4) all.push_back(std::move(growth));
    } catch (const Error&) {}  // attributes and extents that do not fit
  }
  return all;
}

// How much longer than f32 f64 may take, whose kernels are mostly plain: one number at a time.
constexpr double kLongest = 20;

// One thread, as before afterwards.
struct OneThread {
  int before = num_threads();
  OneThread() { set_num_threads(1); }
  ~OneThread() { set_num_threads(before); }
};

}  // namespace

TEST_CASE("no op's time grows faster than its work", "[complexity]") {
  const OneThread guard;
  for (const Growing& op : calls()) {
    // 16 times the work or, of a kernel that meets every element with every other, 256 times.
    const double more = std::round(std::pow(16, 1 / op.power));
    for (const DType dtype : {f64, f32, bf16, f16}) {
      const auto larger = static_cast<std::int64_t>(static_cast<double>(op.n) * more);
      const double work = std::pow(more, op.power);
      bool forward = false, backward = false;
      for (int attempt = 0; attempt < kAttempts && !(forward && backward); ++attempt) {
        const Times a = measure(op, dtype, op.n), b = measure(op, dtype, larger);
        forward = forward || b.forward < 5 * work * a.forward;
        backward = backward || b.backward < 5 * work * a.backward;
      }
      CAPTURE(op.name, dtype, larger);
      CHECK(forward);
      CHECK(backward);
    }
  }
}

// Views have no work, some ops no floats, and some samples no extent that may grow alone.
TEST_CASE("every op's time grows with its work, and f64 is slower than f32 by a factor", "[complexity]") {
  constexpr double kShortest = 1e-6;  // what a clock tells apart
  const OneThread guard;
  int grown_ops = 0, ops = 0;
  for (const OpDef* op : registry()) {
    if (op->view) continue;
    ++ops;
    bool some = false;
    SampleMaker make(1);
    for (const Sample& sample : find_tests(op->name)->samples(make))
      for (const Growth& growth : growths(*op, sample)) {
        for (const DType dtype : {f32, f64, bf16, f16, i64, u8}) {
          if (!(op->dtypes & dtype_bit(dtype))) continue;
#ifdef CT_SANITIZED  // whose checks are most of the time
          if (some || dtype == f64) continue;
#endif
          if (some && dtype != f32 && dtype != f64) continue;  // by the first
          const MeasuredCall small(*op, sample, growth.small, dtype), large(*op, sample, growth.large, dtype),
              large_f32(*op, sample, growth.large, is_floating(dtype) ? f32 : dtype);
          Times a, b, c;
          bool forward = false, backward = false;
          // The least of several, until it is good enough: what else the machine does takes longer, never less.
          for (int attempt = 0; attempt < 20 && !(forward && backward); ++attempt) {
            a = a.least(small.measure()), b = b.least(large.measure());
            if (dtype == f64) c = c.least(large_f32.measure());
            if (attempt < 2) continue;
            forward = b.forward < 8 * growth.more.forward * (a.forward + kShortest);
            backward = b.backward <= 8 * growth.more.backward * (a.backward + kShortest);
            if (dtype != f64) continue;
            forward = forward && b.forward < kLongest * c.forward;
            backward = backward && b.backward <= kLongest * c.backward;
          }
          CAPTURE(op->name, sample.label, describe(growth.large[0]), dtype, a.forward, b.forward, c.forward,
                  a.backward, b.backward, c.backward, growth.more.forward);
          CHECK(forward);
          CHECK(backward);
        }
        some = true;
      }
    grown_ops += some;
    if (!some) UNSCOPED_INFO(op->name << " was not grown");
  }
  CHECK(grown_ops >= ops - 2);
}
