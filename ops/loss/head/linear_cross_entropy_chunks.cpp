#include <algorithm>

#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_chunks_internal.h>

namespace ct::loss::head {
namespace {

using gemm::Missing;
using gemm::Stack;

void multiply(const Stack& a, const Stack& b, const Tensor& c, bool accumulate, const DeviceSteps& device) {
  gemm::multiply(a, b, Stack(c, Missing::none), accumulate, device.backend);
}
Stack stack(const Tensor& t) { return Stack(t, Missing::none); }

// Rows [first, first + count) of a contiguous tensor whose last axis is a row.
Tensor rows_of(const Tensor& t, std::int64_t first, std::int64_t count) {
  const std::int64_t n = t.shape().back();
  return Tensor::from_storage(t.impl()->storage, {count, n}, {n, 1}, t.storage_offset() + first * n,
                              t.dtype());
}

void* advance(void* data, std::int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

// The operands and a buffer for the logits of one chunk.
class Walk {
 public:
  Walk(const DeviceSteps& device, const Attrs& attrs, const Tensor& x, const Tensor& weight,
       const Tensor& target, const Tensor& stats)
      : device_(device), x_(x), weight_(weight), target_(target) {
    const DType wide = stats.dtype();
    all_.dtype = x.dtype();
    all_.rows = target.numel();
    all_.classes = weight.size(0);
    // Rows start where vectors do, whatever the number of classes.
    const auto line = static_cast<std::int64_t>(64 / size_of(x.dtype()));
    all_.pitch = (all_.classes + line - 1) / line * line;
    all_.labels = loss::Labels(target_);
    all_.log_sums = stats.raw_data();
    all_.rests = advance(all_.log_sums, all_.rows, wide);
    all_.losses = advance(all_.rests, all_.rows, wide);
    all_.ignore_index = attrs.ignore_index;
    all_.smoothing = attrs.label_smoothing;
    divisor_ = advance(all_.losses, all_.rows, wide);
    step_ = attrs.chunk_rows;
    if (step_ == 0) {
      const std::int64_t row = all_.pitch * static_cast<std::int64_t>(size_of(x.dtype()));
      step_ = std::max<std::int64_t>(device.chunk_bytes / row / 128, 1) * 128;
    }
    step_ = std::min(step_, std::max<std::int64_t>(all_.rows, 1));
  }

  const Chunk& all() const { return all_; }
  const Tensor& weight() const { return weight_; }
  void* divisor() const { return divisor_; }
  bool one_chunk() const { return all_.rows <= step_; }
  void set_cotangent(const Tensor& g, bool each) {
    all_.cotangent = g.raw_data();
    all_.each = each;
    all_.divisor = divisor_;
  }

  /// Makes the logits of a chunk, takes `step` with them, and calls body(logits, x, first row).
  template <class Body>
  void run(Step step, const Body& body) const {
    if (all_.rows == 0) return;
    const Tensor buffer = Tensor::allocate({step_, all_.pitch}, all_.dtype, x_.device());
    const DType wide = accumulate_type(all_.dtype);
    for (std::int64_t first = 0; first < all_.rows; first += step_) {
      Chunk chunk = all_;
      chunk.rows = std::min(step_, all_.rows - first);
      const Tensor logits = Tensor::from_storage(buffer.impl()->storage, {chunk.rows, chunk.classes},
                                                 {chunk.pitch, 1}, 0, chunk.dtype);
      const Tensor x = rows_of(x_, first, chunk.rows);
      multiply(stack(x), stack(weight_).t(), logits, false, device_);
      chunk.logits = buffer.raw_data();
      const std::size_t label = size_of(chunk.labels.wide ? DType::i64 : DType::i32);
      chunk.labels.data =
          static_cast<const char*>(chunk.labels.data) + static_cast<std::size_t>(first) * label;
      chunk.log_sums = advance(chunk.log_sums, first, wide);
      chunk.rests = advance(chunk.rests, first, wide);
      chunk.losses = advance(chunk.losses, first, wide);
      if (chunk.each) chunk.cotangent = advance(const_cast<void*>(chunk.cotangent), first, wide);
      device_.rows(step, chunk);
      body(logits, x, first);
    }
  }

 private:
  const DeviceSteps& device_;
  Tensor x_, weight_, target_;
  Chunk all_;
  void* divisor_ = nullptr;
  std::int64_t step_ = 0;
};

// The gradient of the weight: the products g^T x of all chunks, added up in `sum`, which may be wider than
// they are.
class WeightSum {
 public:
  WeightSum(const DeviceSteps& device, const Tensor& sum, bool started)
      : device_(device), sum_(sum), started_(started) {}
  void add(const Tensor& g, const Tensor& x) {
    multiply(stack(g).t(), stack(x), sum_, started_, device_);
    started_ = true;
  }
  /// Elements that no chunk has written are 0.
  void finish() const {
    if (!started_) zero_bytes(sum_.raw_data(), sum_.device(), static_cast<std::size_t>(sum_.nbytes()));
  }

 private:
  const DeviceSteps& device_;
  Tensor sum_;
  bool started_;
};

}  // namespace

void forward(const Forward& f, const DeviceSteps& device) {
  const auto& attrs = f.attrs<Attrs>();
  const Walk walk(device, attrs, f.in(0), f.in(1), f.in(2), f.out(1));
  const Chunk& all = walk.all();
  device.check(all.labels, all.rows, all.classes, all.ignore_index);
  if (attrs.eager == kNone) {
    walk.run(Step::losses, [](const Tensor&, const Tensor&, std::int64_t) {});
  } else {
    WeightSum sum(device, f.out(3), false);
    walk.run(Step::both, [&](const Tensor& g, const Tensor& x, std::int64_t first) {
      if (attrs.eager & kX)
        multiply(stack(g), stack(walk.weight()), rows_of(f.out(2), first, x.size(0)), false, device);
      if (attrs.eager & kWeight) sum.add(g, x);
    });
    sum.finish();
  }
  device.reduce(all, attrs.reduction, walk.divisor(), f.out(0));
}

void scale(const Backward& b, const DeviceSteps& device) {
  check_kept(b);
  const DType dtype = b.in_meta(0).dtype;
  const Tensor& g = b.grad();
  for (int i = 0; i < 2; ++i) {
    if (!b.needs(i)) continue;
    const Tensor& from = b.out(2 + i);
    const Tensor& to = b.grad_in_over(i, from);
    const Tensor& stats = b.out(1);
    device.scale(from, to, b.accumulate(i), dtype, g.raw_data(),
                 advance(stats.raw_data(), stats.numel() - 1, stats.dtype()));
  }
}

void recompute(const Backward& b, const DeviceSteps& device) {
  const auto& attrs = b.attrs<Attrs>();
  const Tensor& g = b.grad();
  Walk walk(device, attrs, b.in(0), b.in(1), b.in(2), b.out(1));
  walk.set_cotangent(g, attrs.reduction == Reduction::none);
  const DType dtype = walk.all().dtype;
  const bool x_wanted = b.needs(0), weight_wanted = b.needs(1);
  // One chunk, or a dtype that sums are kept in anyway, goes straight to where the gradient belongs.
  const bool direct = walk.one_chunk() || b.grad_dtype(1) == accumulate_type(dtype);
  Tensor weights;
  if (weight_wanted)
    weights = direct ? b.grad_in(1)
                     : Tensor::allocate(b.in_meta(1).shape, accumulate_type(dtype), b.in_meta(1).device);
  WeightSum sum(device, weights, direct && b.accumulate(1));
  walk.run(Step::gradient, [&](const Tensor& dy, const Tensor& x, std::int64_t first) {
    if (x_wanted)
      multiply(stack(dy), stack(walk.weight()), rows_of(b.grad_in(0), first, x.size(0)), b.accumulate(0),
               device);
    if (weight_wanted) sum.add(dy, x);
  });
  if (x_wanted) b.grad_in(0);  // also of no rows
  if (!weight_wanted) return;
  sum.finish();
  if (!direct) device.scale(weights, b.grad_in(1), b.accumulate(1), dtype, nullptr, nullptr);
}

}  // namespace ct::loss::head
