#include <cotangent/ops/creation/creation.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/engine/random/fill.h>
#include <cotangent/ops/engine/random/with_draw.h>
#include <cotangent/ops/engine/walk/calls.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {

CT_KERNEL_TABLES(filling)

namespace {

Tensor make(const char* op, const Shape& shape, const TensorOptions& options, DType natural = DType::f32) {
  check_sizes(op, shape);
  check_device(op, options.device);
  const DType dtype = options.dtype.value_or(natural);
  CT_CHECK(!options.requires_grad || is_floating(dtype), DTypeError, op, "a tensor of dtype ", dtype,
           " can't require a gradient; only floating dtypes (f32, f64, f16, bf16) can");
  return Tensor::allocate(shape, dtype, options.device);
}

Tensor finish(Tensor t, const TensorOptions& options) {
  if (options.requires_grad) t.set_requires_grad();
  return t;
}

// ---- the two ops behind them: no shapes to infer, no gradients --------------------------------------------

void target_infer(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }

constexpr InputDef kWritten[] = {{.name = "target", .gradient = false}};
constexpr OutputDef kFilled[] = {{.name = "y", .gradient = false}};
constexpr AttrDef kSequenceAttributes[] = {
    CT_ATTRIBUTE(random::Sequence, start),        CT_ATTRIBUTE(random::Sequence, step),
    CT_ATTRIBUTE(random::Sequence, end),          CT_ATTRIBUTE(random::Sequence, integer_start),
    CT_ATTRIBUTE(random::Sequence, integer_step), CT_ATTRIBUTE(random::Sequence, from_end),
    CT_ATTRIBUTE(random::Sequence, integer),
};
constexpr AttrDef kDrawAttributes[] = {
    CT_ATTRIBUTE(random::Draw, kind, "uniform normal exponential integer"),
    CT_ATTRIBUTE(random::Draw, offset),
    CT_ATTRIBUTE(random::Draw, scale),
    CT_ATTRIBUTE(random::Draw, low),
    CT_ATTRIBUTE(random::Draw, high),
    CT_ATTRIBUTE(random::Draw, state),
};
constexpr OpDef k_sequence = checked({
    .name = "sequence",
    .formula = "y_i = start + i step, in the memory of the target",
    .inputs = kWritten,
    .outputs = kFilled,
    .attributes = kSequenceAttributes,
    .infer = target_infer,
    .kernels = &kernel_tables::filling,
    .dtypes = kAllTypes,
});
constexpr OpDef k_draw = checked({
    .name = "draw",
    .formula = "y_i = a number drawn from the distribution, in the memory of the target",
    .inputs = kWritten,
    .outputs = kFilled,
    .attributes = kDrawAttributes,
    .infer = target_infer,
    .kernels = &kernel_tables::filling,
    .dtypes = kAllTypes,
});

void write_sequence(const Tensor& t, const random::Sequence& sequence) {
  if (t.numel() > 0) detail::write(k_sequence, {&t}, sequence);
}
void write_random(const Tensor& t, const random::Draw& draw) {
  if (t.numel() > 0) detail::write(k_draw, {&t}, draw);
}
void zero(const Tensor& t) { walk::calls::fill(t, 0); }

void draw_into(const Tensor& t, random::Draw draw, Generator& generator) {
  with_draw(generator, [&](const GeneratorState& state) {
    draw.state = state;
    write_random(t, draw);
  });
}

Tensor& overwrite_random(const char* op, Tensor& t, random::Draw draw, Generator& generator) {
  CT_CHECK(is_floating(t.dtype()), DTypeError, op, "got ", describe(t),
           "; a floating dtype (f32, f64, f16, bf16) is needed");
  CT_CHECK(
      !(grad_enabled() && t.requires_grad()), AutogradError, op, describe(t),
      " requires a gradient and can't be overwritten while recording; wrap the change in a NoGrad guard");
  walk::check_writable(op, t);
  const bool direct = t.is_contiguous() && reinterpret_cast<std::uintptr_t>(t.raw_data()) % 16 == 0;
  const Tensor values = direct ? t : Tensor::allocate(t.shape(), t.dtype(), t.device());
  draw_into(values, draw, generator);
  if (!direct) walk::calls::assign(t, values);
  detail::note_change(*t.impl()->storage);
  return t;
}

void check_floating_draw(const char* op, const Tensor& t) {
  CT_CHECK(is_floating(t.dtype()), DTypeError, op, "a tensor of dtype ", t.dtype(),
           " can't hold these numbers; use randint, or a floating dtype (f32, f64, f16, bf16)");
}

Tensor random_floating(const char* op, random::Draw::Kind kind, const Shape& shape,
                       const TensorOptions& options, Generator& generator) {
  Tensor t = make(op, shape, options);
  check_floating_draw(op, t);
  draw_into(t, {.kind = kind, .state = {}}, generator);
  return finish(std::move(t), options);
}

// The numbers of a dtype: floating ones only as far as no integer is left out, as a draw that is rounded no
// longer has the probabilities asked for, and a permutation is none.
void check_holds(const char* op, DType dtype, std::int64_t first, std::int64_t last) {
  const auto [low, high] = integer_range(dtype);
  CT_CHECK(low <= first && last <= high, ValueError, op, "numbers from ", first, " to ", last,
           " were asked for as ", dtype, ", which holds those from ", low, " to ", high,
           "; choose a wider dtype");
}

TensorOptions options_of(const Tensor& like) { return {.dtype = like.dtype(), .device = like.device()}; }

}  // namespace

// ---- constant values -------------------------------------------------------------------------------------

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return finish(make("empty", shape, options), options);
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  Tensor t = make("zeros", shape, options);
  zero(t);
  return finish(std::move(t), options);
}

Tensor ones(const Shape& shape, const TensorOptions& options) {
  Tensor t = make("ones", shape, options);
  walk::calls::fill(t, 1);
  return finish(std::move(t), options);
}

Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options) {
  const DType natural = value.kind() == Scalar::Kind::floating  ? DType::f32
                        : value.kind() == Scalar::Kind::integer ? DType::i64
                                                                : DType::boolean;
  check_fits("full", value, options.dtype.value_or(natural));
  Tensor t = make("full", shape, options, natural);
  walk::calls::fill(t, value);
  return finish(std::move(t), options);
}

Tensor empty_like(const Tensor& like) { return Tensor::allocate(like.shape(), like.dtype(), like.device()); }

Tensor zeros_like(const Tensor& like) {
  Tensor t = empty_like(like);
  zero(t);
  return t;
}

Tensor ones_like(const Tensor& like) { return full_like(like, 1); }

Tensor full_like(const Tensor& like, const Scalar& value) {
  check_fits("full_like", value, like.dtype());
  Tensor t = empty_like(like);
  walk::calls::fill(t, value);
  return t;
}

Tensor eye(Integer rows, const TensorOptions& options) { return eye(rows, rows, options); }

Tensor eye(Integer rows, Integer columns, const TensorOptions& options) {
  Tensor t = make("eye", {rows, columns}, options);
  zero(t);
  const std::int64_t n = std::min(rows, columns);
  walk::calls::fill(Tensor::from_storage(t.impl()->storage, {n}, {columns + 1}, 0, t.dtype()), 1);
  return finish(std::move(t), options);
}

// ---- sequences -------------------------------------------------------------------------------------------

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options) {
  random::Sequence s;
  s.integer = !start.is_floating() && !end.is_floating() && !step.is_floating();
  s.start = start.to<double>();
  s.step = step.to<double>();
  const double stop = end.to<double>();
  CT_CHECK(std::isfinite(s.start) && std::isfinite(stop) && std::isfinite(s.step), ValueError, "arange",
           "start ", start, ", end ", end, ", step ", step, " are not all finite; they must be");
  CT_CHECK(s.step != 0, ValueError, "arange", "step is 0; it must lead from start to end");
  CT_CHECK((stop >= s.start) == (s.step > 0) || stop == s.start, ValueError, "arange", "step ", step,
           " leads away from end: start is ", start, ", end ", end,
           "; change its sign or exchange start and end");
  std::int64_t count;
  if (s.integer) {
    s.integer_start = start.to<std::int64_t>();
    s.integer_step = step.to<std::int64_t>();
    // Unsigned, since the distance of two i64 may need 64 bits.
    const auto from = static_cast<std::uint64_t>(s.integer_start), to = end.to<std::uint64_t>();
    const std::uint64_t distance = s.integer_step > 0 ? to - from : from - to;
    const std::uint64_t stride = s.integer_step > 0
                                     ? static_cast<std::uint64_t>(s.integer_step)
                                     : std::uint64_t{0} - static_cast<std::uint64_t>(s.integer_step);
    const std::uint64_t exact = distance / stride + (distance % stride != 0);
    CT_CHECK(exact < std::uint64_t{1} << 62, ValueError, "arange", "start ", start, ", end ", end,
             " and step ", step, " give ", exact, " elements; that is too many: choose a larger step");
    count = static_cast<std::int64_t>(exact);
  } else {
    const double exact = std::ceil((stop - s.start) / s.step);
    CT_CHECK(exact < 0x1p62, ValueError, "arange", "start ", start, ", end ", end, " and step ", step,
             " give ", exact, " elements; that is too many: choose a larger step");
    count = static_cast<std::int64_t>(exact);
  }
  Tensor t = make("arange", {count}, options, s.integer ? DType::i64 : DType::f32);
  CT_CHECK(t.dtype() != DType::boolean, DTypeError, "arange", "dtype bool can't count; use an integer dtype");
  write_sequence(t, s);
  return finish(std::move(t), options);
}

Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options) {
  return arange(start, end, 1, options);
}

Tensor arange(const Scalar& end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(Real start, Real end, Integer count, const TensorOptions& options) {
  CT_CHECK(count >= 0, ValueError, "linspace", "count is ", count, "; it must be >= 0");
  detail::check_finite("linspace", "start", start);
  detail::check_finite("linspace", "end", end);
  Tensor t = make("linspace", {count}, options);
  CT_CHECK(t.dtype() != DType::boolean, DTypeError, "linspace", "dtype bool can't count; use another dtype");
  random::Sequence s;
  s.start = start;
  s.end = end;
  s.step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
  s.from_end = count > 1;
  write_sequence(t, s);
  return finish(std::move(t), options);
}

// ---- random values ---------------------------------------------------------------------------------------

Tensor rand(const Shape& shape, const TensorOptions& options, Generator& generator) {
  return random_floating("rand", random::Draw::Kind::uniform, shape, options, generator);
}

Tensor randn(const Shape& shape, const TensorOptions& options, Generator& generator) {
  return random_floating("randn", random::Draw::Kind::normal, shape, options, generator);
}

Tensor rand_like(const Tensor& like, Generator& generator) {
  return rand(like.shape(), options_of(like), generator);
}

Tensor randn_like(const Tensor& like, Generator& generator) {
  return randn(like.shape(), options_of(like), generator);
}

Tensor randint(Integer low, Integer high, const Shape& shape, const TensorOptions& options,
               Generator& generator) {
  CT_CHECK(high > low, ValueError, "randint", "the range [", low, ", ", high,
           ") is empty; high must be > low");
  check_holds("randint", options.dtype.value_or(DType::i64), low, high - 1);
  Tensor t = make("randint", shape, options, DType::i64);
  draw_into(t, {.kind = random::Draw::Kind::integer, .low = low, .high = high, .state = {}}, generator);
  return finish(std::move(t), options);
}

Tensor randperm(Integer n, const TensorOptions& options, Generator& generator) {
  CT_CHECK(n >= 0, ValueError, "randperm", "n is ", n, "; it must be >= 0");
  check_holds("randperm", options.dtype.value_or(DType::i64), 0, n - 1);
  struct Entry {
    std::uint64_t key;
    std::int64_t value;
    bool operator<(const Entry& other) const {
      return key < other.key || (key == other.key && value < other.value);
    }
  };
  // Memory of tensors: where there is not enough, they say so by an OutOfMemoryError.
  const Tensor values = Tensor::allocate({n}, DType::i64, cpu);
  const Tensor sorting = Tensor::allocate({n, sizeof(Entry)}, DType::u8, cpu);
  const std::span entries(static_cast<Entry*>(sorting.raw_data()), static_cast<std::size_t>(n));
  return with_draw(generator, [&](const GeneratorState& reserved) {
    const GeneratorState draw = detail::on_host("randperm", reserved);
    for (std::size_t i = 0; i < entries.size(); ++i)
      entries[i] = {philox_word64(draw, i), static_cast<std::int64_t>(i)};
    std::sort(entries.begin(), entries.end());
    std::ranges::transform(entries, values.data<std::int64_t>(), &Entry::value);
    return detail::from_memory("randperm", values.raw_data(), DType::i64, n, {n}, options);
  });
}

Tensor& uniform_(Tensor& t, double low, double high, Generator& generator) {
  CT_CHECK(high >= low && std::isfinite(high - low), ValueError, "uniform_", "low is ", low, ", high ", high,
           "; they must be finite, and low not above high");
  return overwrite_random(
      "uniform_", t, {.kind = random::Draw::Kind::uniform, .offset = low, .scale = high - low, .state = {}},
      generator);
}

Tensor& normal_(Tensor& t, double mean, double std, Generator& generator) {
  detail::check_finite("normal_", "mean", mean);
  detail::check_not_negative("normal_", "std", std);
  return overwrite_random("normal_", t,
                          {.kind = random::Draw::Kind::normal, .offset = mean, .scale = std, .state = {}},
                          generator);
}

Tensor& exponential_(Tensor& t, double rate, Generator& generator) {
  detail::check_positive("exponential_", "rate", rate);
  return overwrite_random("exponential_", t,
                          {.kind = random::Draw::Kind::exponential, .scale = 1 / rate, .state = {}},
                          generator);
}

CT_MEMBER(Tensor&, uniform_, (Real low, Real high, Generator& generator), low, high, generator)
CT_MEMBER(Tensor&, normal_, (Real mean, Real std, Generator& generator), mean, std, generator)
CT_MEMBER(Tensor&, exponential_, (Real rate, Generator& generator), rate, generator)

// ---- values from elsewhere -------------------------------------------------------------------------------

namespace detail {

Tensor from_memory(const char* op, const void* data, DType source, std::int64_t count, const Shape& shape,
                   const TensorOptions& options) {
  check_sizes(op, shape);
  CT_CHECK(numel(shape) == count, ShapeError, op, "got ", count, " values for shape ", shape, ", which has ",
           numel(shape), " elements; they must be as many");
  check_device(op, options.device);
  CT_CHECK(!options.requires_grad || is_floating(options.dtype.value_or(source)), DTypeError, op,
           "a tensor of dtype ", options.dtype.value_or(source),
           " can't require a gradient; only floating dtypes (f32, f64, f16, bf16) can");
  Tensor t = Tensor::allocate(shape, source, cpu);
  if (count > 0) std::memcpy(t.raw_data(), data, static_cast<std::size_t>(t.nbytes()));
  if (options.dtype) t = walk::calls::converted(t, *options.dtype);
  if (!options.device.is_cpu()) t = walk::calls::moved(t, options.device);
  return finish(std::move(t), options);
}

void check_list_length(std::size_t got, std::int64_t want) {
  CT_CHECK(static_cast<std::int64_t>(got) == want, ShapeError, "tensor", "lists of one level have ", want,
           " and ", got, " entries; they must have the same length");
}

void check_whole(const char* op, std::uint64_t value) {
  CT_CHECK(value <= INT64_MAX, ValueError, op, "got ", value,
           "; integers are stored as i64, up to 2^63 - 1: convert it to a floating number first");
}

}  // namespace detail

namespace {

void collect(const detail::Literal& literal, int level, const Shape& shape, std::vector<Scalar>& numbers) {
  CT_CHECK(literal.is_list() == (level < shape.size()), ShapeError, "tensor",
           "a number stands beside a list; what stands in one list must be of one kind");
  if (!literal.is_list()) return numbers.push_back(literal.number());
  detail::check_list_length(literal.items().size(), shape[level]);
  for (const detail::Literal& item : literal.items()) collect(item, level + 1, shape, numbers);
}

template <class T>
Tensor from_numbers(const std::vector<Scalar>& numbers, const Shape& shape, DType natural,
                    TensorOptions options) {
  std::vector<T> values;
  values.reserve(numbers.size());
  for (const Scalar& number : numbers) values.push_back(number.to<T>());
  if (!options.dtype) options.dtype = natural;
  return detail::from_memory("tensor", values.data(), dtype_of<T>, static_cast<std::int64_t>(values.size()),
                             shape, options);
}

}  // namespace

Tensor tensor(const detail::Literal& values, const TensorOptions& options) {
  Shape shape;
  for (const detail::Literal* first = &values; first != nullptr && first->is_list();) {
    shape.push_back(static_cast<std::int64_t>(first->items().size()));
    first = first->items().data();
  }
  std::vector<Scalar> numbers;
  collect(values, 0, shape, numbers);
  DType dtype = numbers.empty() ? DType::f32 : DType::boolean;
  for (const Scalar& number : numbers) dtype = promote(dtype, number);
  if (dtype == DType::f32) return from_numbers<double>(numbers, shape, dtype, options);
  if (dtype == DType::i64) return from_numbers<std::int64_t>(numbers, shape, dtype, options);
  return from_numbers<std::uint8_t>(numbers, shape, dtype, options);
}

Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options,
                 std::function<void()> release) {
  return from_blob(data, shape, contiguous_strides(shape), options, std::move(release));
}

Tensor from_blob(void* data, const Shape& shape, const Strides& strides, const TensorOptions& options,
                 std::function<void()> release) {
  check_sizes("from_blob", shape);
  check_device("from_blob", options.device);
  CT_CHECK(strides.size() == shape.size(), ShapeError, "from_blob", "got strides ", strides, " for shape ",
           shape, "; there must be one per axis");
  const bool any = numel(shape) > 0;
  CT_CHECK(data != nullptr || !any, ValueError, "from_blob", "the pointer is null, shape ", shape,
           " is not empty; pass the memory of its elements");
  const DType dtype = options.dtype.value_or(DType::f32);
  CT_CHECK(!options.requires_grad || is_floating(dtype), DTypeError, "from_blob", "a tensor of dtype ", dtype,
           " can't require a gradient; only floating dtypes (f32, f64, f16, bf16) can");
  std::int64_t last = 0;
  for (int i = 0; i < shape.size(); ++i) {
    CT_CHECK(strides[i] >= 0, ShapeError, "from_blob", "strides ", strides,
             " hold a negative one; strides must be >= 0");
    std::int64_t way = 0;
    const bool fits = !any || (!__builtin_mul_overflow(shape[i] - 1, strides[i], &way) &&
                               !__builtin_add_overflow(last, way, &last) && last < INT64_MAX / 16);
    CT_CHECK(fits, ShapeError, "from_blob", "shape ", shape, " with strides ", strides,
             " reaches beyond all memory; strides are in elements");
  }
  const std::size_t bytes = any ? static_cast<std::size_t>(last + 1) * size_of(dtype) : 0;
  Tensor t = Tensor::from_storage(Storage::wrap(data, bytes, options.device, std::move(release)), shape,
                                  strides, 0, dtype);
  return finish(std::move(t), options);
}

namespace rooms {
extern const Room creation;
const Room creation{"creation", {}};  // functions that make tensors record nothing: there is no op among them
}  // namespace rooms
}  // namespace ct
