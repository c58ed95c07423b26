#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/accessor.h>
#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/core/base/ref.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/base/shape.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/memory/pool.h>
#include <cotangent/core/memory/storage.h>

namespace ct {

class Generator;
class Tensor;
class TensorIndices;
class RowIterator;
struct ValuesIndices;
CT_API Generator& default_generator();

/// Reductions of scatter_reduce() and index_reduce() over the elements that meet at one place.
enum class ScatterReduce : std::uint8_t { sum, prod, mean, amax, amin };

/// Metadata of a tensor: all but its data.
struct TensorMeta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
};

/// A tensor's data for the tape beyond its place in it; the autograd folder defines the contents.
struct AutogradMeta {
  virtual ~AutogradMeta() = default;
};

/// The shared part of a tensor; several Tensor handles may point to one. Library-internal: user code goes
/// through Tensor.
struct CT_API TensorImpl final : RefCounted, Pooled {
  Ref<Storage> storage;
  std::int64_t offset = 0;  // in elements
  std::int64_t numel = 0;
  Shape shape;
  Strides strides;
  DType dtype = DType::f32;
  bool contiguous = true;
  bool requires_grad = false;      // a leaf that wants a gradient, or the result of a recorded op
  bool is_view = false;            // shares its storage with the tensor it was made from
  std::uint32_t output_index = 0;  // which output of grad_fn this is
  std::uint32_t history_version =
      0;  // the storage's history version this tensor's place in the tape refers to
  std::uint32_t unrecorded_version = 0;  // the storage's, when grad_fn was set
  Ref<RefCounted> grad_fn;               // the Node that made it; null for leaves
  std::unique_ptr<AutogradMeta> autograd;

  TensorImpl() = default;
  ~TensorImpl() override;
};

/// A multi-dimensional array on one device, and a handle: copying a Tensor shares the data.
///
/// A default-constructed Tensor is *undefined* and stands for "no tensor" (a layer without bias, a gradient
/// that nobody asked for). Rank is at most 8. Sizes are in elements.
///
/// Assignment: to a tensor with a name it makes that handle refer to another tensor, and changes no data. To
/// one without a name, as views are where they are made, it writes into the elements:
///
///     Tensor row = x[0];
///     row = y;             // row is another handle of y now; x is as it was
///     x[0] = y;            // as x[0].copy_(y)
///     x[0][1] = 3.f;       // as fill_(3.f)
///     x.slice(1, 2) += y;
class CT_API Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  explicit Tensor(std::nullptr_t) = delete;  // Tensor(0) is none; no tensor is Tensor()
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// Writes into the elements, as copy_() and fill_() do, with their errors. Throws ValueError where nobody
  /// would see it, because no other tensor shares the memory: `x.clone() = y`, or x.reshape() where it copies.
  Tensor operator=(const Tensor& source) &&;
  Tensor operator=(const Scalar& value) &&;

  /// Uninitialised, contiguous. The low-level constructor under ct::empty().
  static Tensor allocate(const Shape& shape, DType dtype, Device device);
  /// A view of `storage` with the given layout; no checks beyond debug builds.
  static Tensor from_storage(Ref<Storage> storage, const Shape& shape, const Strides& strides,
                             std::int64_t offset, DType dtype);

  // ---- Properties -------------------------------------------------------------------------------------
  bool defined() const { return static_cast<bool>(impl_); }
  /// The truth of the one element: `if (ct::any(x > 0))`, `while (loss > 0.1)`. Waits for the device. Throws
  /// ShapeError unless numel() == 1, Error for an undefined tensor: defined() asks whether there is one.
  /// && and || are C++'s own: they ask each side for its truth. Masks are combined by logical_and(),
  /// logical_or() and logical_not(); !mask is logical_not(mask).
  explicit operator bool() const;
  int dim() const { return get().shape.size(); }
  const Shape& shape() const { return get().shape; }
  const Shape& sizes() const { return get().shape; }
  const Strides& strides() const { return get().strides; }
  /// The size along `axis`; negative axes count from the end. Throws ShapeError outside the rank.
  std::int64_t size(Integer axis) const;
  std::int64_t stride(Integer axis) const;
  std::int64_t numel() const { return get().numel; }
  std::int64_t nbytes() const { return numel() * static_cast<std::int64_t>(size_of(dtype())); }
  std::int64_t storage_offset() const { return get().offset; }
  DType dtype() const { return get().dtype; }
  Device device() const { return get().storage->device(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_contiguous() const { return get().contiguous; }
  bool is_pinned() const { return get().storage->is_pinned(); }
  TensorMeta meta() const { return {shape(), dtype(), device()}; }
  /// True when both handles share one TensorImpl.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // ---- Data -------------------------------------------------------------------------------------------
  /// Address of the first element (on the tensor's device). Null for an empty tensor.
  void* raw_data() const {
    const TensorImpl& t = get();
    auto* const start = static_cast<char*>(t.storage->data());
    return start == nullptr ? nullptr : start + t.offset * static_cast<std::int64_t>(size_of(t.dtype));
  }
  /// The same, typed. Throws DTypeError if T is not the tensor's element type.
  template <class T>
  T* data() const {
    static_assert(ElementType<T>,
                  "data<T>() wants an element type: float, double, ct::Half, ct::BFloat16, "
                  "std::int64_t, std::int32_t, std::uint8_t or bool");
    CT_CHECK(dtype_of<T> == dtype(), DTypeError, "data", "asked for ", ct::name(dtype_of<T>),
             " elements of a ", ct::name(dtype()), " tensor; convert with .to(dtype) first");
    return static_cast<T*>(raw_data());
  }
  /// The value of a tensor with one element, converted to T. Waits for the device.
  /// Throws ShapeError if numel() != 1.
  template <class T = double>
  T item() const {
    return item_scalar().to<T>();
  }
  Scalar item_scalar() const;
  /// All elements in row-major order, converted to T: an element type, or any other number. Waits for the
  /// device.
  template <class T>
  std::vector<T> to_vector() const {
    static_assert(ElementType<T> || Number<T>,
                  "to_vector<T>() gives numbers, bools, ct::Half or ct::BFloat16");
    if constexpr (ElementType<T>) {
      return elements<T>();
    } else {
      const auto wide = elements<host_t<T>>();
      return std::vector<T>(wide.begin(), wide.end());
    }
  }

  /// The elements of a CPU tensor by their indices, a[i][j], without the cost of tensors (core/base/accessor.h). Throws DTypeError
  /// if T is not the element type, ShapeError unless dim() == N, DeviceError for a tensor on another device.
  template <class T, int N>
  Accessor<T, N> accessor() const& {
    CT_CHECK(dim() == N, ShapeError, "accessor", "asked for ", N, " axes of ", describe_self(),
             "; the number in accessor<T, N>() is that of the tensor's axes");
    CT_CHECK(is_cpu(), DeviceError, "accessor", "the tensor is ", describe_self(),
             "; elements are reached one by one on the CPU: use .to(ct::cpu) first");
    return {data<T>(), shape().begin(), strides().begin()};
  }
  template <class T, int N>
  Accessor<T, N> accessor() const&& = delete;  // it would refer to memory that is gone
  /// The parts along the first axis, for a loop: `for (const ct::Tensor& row : x)`. Throws ShapeError for a tensor without
  /// axes.
  RowIterator begin() const;
  RowIterator end() const;

  // ---- Conversion (recorded on the tape where the dtype is floating) ----------------------------------
  /// Converted to `dtype`; the same tensor if it already has it.
  Tensor to(DType dtype) const;
  /// On `device`; the same tensor if it is there. From pinned memory the copy is asynchronous.
  Tensor to(Device device) const;
  Tensor to(Device device, DType dtype) const { return to(dtype).to(device); }
  /// On the device of `other`, and in its dtype.
  Tensor to(const Tensor& other) const { return to(other.device(), other.dtype()); }
  Tensor type_as(const Tensor& other) const { return to(other.dtype()); }
  /// A contiguous copy with storage of its own.
  Tensor clone() const;
  /// This tensor if it is contiguous, else a contiguous copy.
  Tensor contiguous() const;
  /// A copy in page-locked host memory.
  Tensor pin_memory() const;

  // ---- Views: no data is copied (reshape and flatten copy when no view exists) ---------------------------
  /// One size may be -1: it is inferred. Throws ShapeError if the sizes don't fit, or (view) if the layout
  /// allows no view.
  Tensor view(const Shape& shape) const;
  Tensor reshape(const Shape& shape) const;
  Tensor view_as(const Tensor& other) const { return view(other.shape()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.shape()); }
  Tensor flatten(Integer first_axis = 0, Integer last_axis = -1) const;
  /// One axis becomes several, of the sizes given, one of which may be -1. Throws ShapeError unless their product is the
  /// axis's size.
  Tensor unflatten(Integer axis, const Shape& sizes) const;
  Tensor transpose(Integer axis0, Integer axis1) const;
  /// Transpose of a matrix (rank 2), a vector or a scalar (unchanged).
  Tensor t() const;
  Tensor permute(const Dims& axes) const;
  /// Elements [start, start + length) along an axis.
  Tensor narrow(Integer axis, Integer start, Integer length) const;
  /// Elements start, start + step, ... below stop; negative bounds count from the end and bounds are
  /// clamped, as in Python. step > 0.
  Tensor slice(Integer axis, Integer start, Integer stop = INT64_MAX, Integer step = 1) const;
  /// The sub-tensor at `index` along `axis`, which disappears. Throws IndexError out of range.
  Tensor select(Integer axis, Integer index) const;
  /// Shorthand for select(0, index).
  Tensor operator[](Integer index) const { return select(0, index); }
  /// Shorthand for index({index}): the elements, or rows, that a mask or a tensor of indices names. They are a copy: to
  /// write where they stand is index_put_().
  Tensor operator[](const Tensor& index) const;
  /// x.index({2, Slice(0, 3), None, Ellipsis, tensor}), as x[2, 0:3, None, ..., tensor] in PyTorch: from the first axis on,
  /// a number selects, a Slice narrows, None is a new axis, Ellipsis stands for whole axes; what is not named is whole. So
  /// far a view, which can be assigned to. Tensors of i64 or i32, whose negative elements count from the end, broadcast
  /// and name elements together: their shape takes the place of their axes, or comes first where these are not neighbours.
  /// A mask (bool) stands for the indices of its true elements, and has the sizes of the axes it takes. The result is
  /// then a copy. Everything is recorded. Tensors may be on the CPU.
  /// Throws IndexError for too many indices, two Ellipsis, a mask of other sizes and what is out of range (in a tensor on
  /// CUDA at the next call that waits), DTypeError for tensors of other dtypes. (core/tensor/tensor_index.h has Slice and None.)
  Tensor index(const TensorIndices& indices) const;
  /// Axes of size 1 repeated to the given size (-1 keeps a size), new axes in front; stride 0, nothing
  /// copied.
  Tensor expand(const Shape& shape) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.shape()); }
  Tensor squeeze() const;
  Tensor squeeze(Integer axis) const;
  Tensor unsqueeze(Integer axis) const;
  /// Axis `source` at the place `destination`; the others keep their order.
  Tensor movedim(Integer source, Integer destination) const;
  /// transpose(), by NumPy's name.
  Tensor swapaxes(Integer axis0, Integer axis1) const { return transpose(axis0, axis1); }
  /// The elements x[.., i, .., i + offset, ..] of axes axis1 and axis2, along a new last axis.
  Tensor diagonal(Integer offset = 0, Integer axis1 = 0, Integer axis2 = 1) const;
  /// Windows of `size` elements along `axis`, `step` apart, that may overlap: axis `axis` counts them, a new last one their
  /// elements. Throws ValueError unless 0 <= size <= the axis's size and step > 0.
  Tensor unfold(Integer axis, Integer size, Integer step) const;
  std::vector<Tensor> unbind(Integer axis = 0) const;
  /// Pieces of `size` along `axis`, the last one may be shorter.
  std::vector<Tensor> split(Integer size, Integer axis = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, Integer axis = 0) const;
  /// At most `chunks` pieces of equal size, the last one may be shorter.
  std::vector<Tensor> chunk(Integer chunks, Integer axis = 0) const;
  // The same with the sizes, or axes, one by one: x.view(2, -1), x.permute(0, 2, 1).
  template <WholeNumber... Rest>
  Tensor view(Integer first, Integer second, Rest... rest) const {
    return view(Shape{first, second, rest...});
  }
  template <WholeNumber... Rest>
  Tensor reshape(Integer first, Integer second, Rest... rest) const {
    return reshape(Shape{first, second, rest...});
  }
  template <WholeNumber... Rest>
  Tensor expand(Integer first, Integer second, Rest... rest) const {
    return expand(Shape{first, second, rest...});
  }
  template <WholeNumber... Rest>
  Tensor permute(Integer first, Integer second, Rest... rest) const {
    return permute(Dims{first, second, rest...});
  }

  // ---- In-place changes ---------------------------------------------------------------------------------
  /// Writes `value` into every element. Throws ValueError for NaN or a value out of range where the dtype is one of integers.
  Tensor& fill_(const Scalar& value);
  /// Writes 0 into every element.
  Tensor& zero_();
  /// Copies `source` (broadcast, converted, from any device) into this tensor.
  Tensor& copy_(const Tensor& source);
  /// Writes `values` (broadcast, converted) into the elements that index(indices) gives, or adds them: with `accumulate` an
  /// element that is named twice gets both, else the last in row-major order. Errors as of index() and copy_().
  Tensor& index_put_(const TensorIndices& indices, const Tensor& values, Flag accumulate = false);
  Tensor& index_put_(const TensorIndices& indices, const Scalar& value, Flag accumulate = false);
  /// Adds `other`, subtracts it, multiplies or divides by it, in place. Throws DTypeError where the result's dtype is not this
  /// tensor's, and AutogradError for a leaf that requires a gradient while recording.
  Tensor& add_(const Tensor& other);
  Tensor& add_(const Scalar& other);
  Tensor& sub_(const Tensor& other);
  Tensor& sub_(const Scalar& other);
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(const Scalar& other);
  Tensor& div_(const Tensor& other);
  Tensor& div_(const Scalar& other);

  // ---- Ops as members -----------------------------------------------------------------------------------
  // x.NAME(..) is ct::NAME(x, ..), whose contract stands in the header of its room; axes of reductions default to all.
  Tensor neg() const, abs() const, sign() const, square() const, sqrt() const, rsqrt() const,
      reciprocal() const, exp() const, exp2() const, expm1() const, log() const, log2() const, log10() const,
      log1p() const, sin() const, cos() const, tan() const, asin() const, acos() const, atan() const,
      sinh() const, cosh() const, asinh() const, acosh() const, atanh() const, erf() const, erfc() const,
      floor() const, ceil() const, round() const, trunc() const, relu() const, sigmoid() const, tanh() const,
      silu() const, selu() const, mish() const, softsign() const, logsigmoid() const, hardsigmoid() const,
      hardswish() const;
  Tensor isnan() const, isinf() const, isfinite() const, logical_not() const, bitwise_not() const;
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt) const;
  Tensor add(const Tensor& b) const;
  Tensor sub(const Tensor& b) const;
  Tensor mul(const Tensor& b) const;
  Tensor div(const Tensor& b) const;
  Tensor pow(const Tensor& b) const;
  Tensor maximum(const Tensor& b) const;
  Tensor minimum(const Tensor& b) const;
  Tensor fmod(const Tensor& b) const;
  Tensor remainder(const Tensor& b) const;
  Tensor atan2(const Tensor& b) const;
  Tensor add(const Scalar& b) const;
  Tensor sub(const Scalar& b) const;
  Tensor mul(const Scalar& b) const;
  Tensor div(const Scalar& b) const;
  Tensor pow(const Scalar& b) const;
  Tensor maximum(const Scalar& b) const;
  Tensor minimum(const Scalar& b) const;
  Tensor fmod(const Scalar& b) const;
  Tensor remainder(const Scalar& b) const;
  Tensor atan2(const Scalar& b) const;
  Tensor eq(const Tensor& b) const;
  Tensor ne(const Tensor& b) const;
  Tensor lt(const Tensor& b) const;
  Tensor le(const Tensor& b) const;
  Tensor gt(const Tensor& b) const;
  Tensor ge(const Tensor& b) const;
  Tensor logical_and(const Tensor& b) const;
  Tensor logical_or(const Tensor& b) const;
  Tensor logical_xor(const Tensor& b) const;
  Tensor eq(const Scalar& b) const;
  Tensor ne(const Scalar& b) const;
  Tensor lt(const Scalar& b) const;
  Tensor le(const Scalar& b) const;
  Tensor gt(const Scalar& b) const;
  Tensor ge(const Scalar& b) const;
  Tensor lerp(const Tensor& b, const Tensor& weight) const;
  Tensor lerp(const Tensor& b, const Scalar& weight) const;
  Tensor where(const Tensor& condition, const Tensor& other) const;
  Tensor where(const Tensor& condition, const Scalar& other) const;
  Tensor masked_fill(const Tensor& mask, const Scalar& value) const;
  Tensor masked_select(const Tensor& mask) const;
  bool allclose(const Tensor& b, Real rtol = 1e-5, Real atol = 1e-8, Flag equal_nan = false) const;
  bool equal(const Tensor& b) const;
  Tensor sum() const, mean() const, max() const, min() const, argmax() const, argmin() const;
  Tensor sum(const Dims& axes, Flag keepdim = false) const;
  Tensor mean(const Dims& axes, Flag keepdim = false) const;
  Tensor prod(const Dims& axes = {}, Flag keepdim = false) const;
  Tensor amax(const Dims& axes = {}, Flag keepdim = false) const;
  Tensor amin(const Dims& axes = {}, Flag keepdim = false) const;
  Tensor any(const Dims& axes = {}, Flag keepdim = false) const;
  Tensor all(const Dims& axes = {}, Flag keepdim = false) const;
  Tensor logsumexp(const Dims& axes = {}, Flag keepdim = false) const;
  Tensor argmax(Integer axis, Flag keepdim = false) const;
  Tensor argmin(Integer axis, Flag keepdim = false) const;
  ValuesIndices max(Integer axis, Flag keepdim = false) const;
  ValuesIndices min(Integer axis, Flag keepdim = false) const;
  Tensor max(const Tensor&other) const, min(const Tensor&other) const;
  /// `std` is ct::stddev.
  Tensor var(const Dims& axes = {}, Real correction = 1, Flag keepdim = false) const;
  Tensor std(const Dims& axes = {}, Real correction = 1, Flag keepdim = false) const;
  Tensor norm(Real p = 2, const Dims& axes = {}, Flag keepdim = false) const;
  Tensor softmax(Integer axis) const;
  Tensor log_softmax(Integer axis) const;
  Tensor matmul(const Tensor& b) const;
  Tensor mm(const Tensor& b) const;
  Tensor bmm(const Tensor& b) const;
  Tensor dot(const Tensor& b) const;
  Tensor outer(const Tensor& b) const;
  Tensor gather(Integer axis, const Tensor& index) const;
  Tensor index_select(Integer axis, const Tensor& indices) const;
  Tensor scatter(Integer axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_add(Integer axis, const Tensor& index, const Tensor& source) const;
  Tensor index_add(Integer axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_reduce(Integer axis, const Tensor& index, const Tensor& source, ScatterReduce reduce,
                        Flag include_self = true) const;
  Tensor index_reduce(Integer axis, const Tensor& index, const Tensor& source, ScatterReduce reduce,
                      Flag include_self = true) const;
  Tensor nonzero() const;
  Tensor flip(const Dims& axes) const;
  Tensor roll(Integer shift) const;
  Tensor roll(const Dims& shifts, const Dims& axes) const;
  Tensor repeat(const Dims& repeats) const;
  Tensor repeat_interleave(Integer repeats, Integer axis) const;
  Tensor tril(Integer diagonal = 0) const;
  Tensor triu(Integer diagonal = 0) const;
  Tensor diag(Integer offset = 0) const;
  ValuesIndices topk(Integer k, Integer axis = -1, Flag largest = true, Flag sorted = true) const;
  ValuesIndices sort(Integer axis = -1, Flag descending = false) const;
  Tensor argsort(Integer axis = -1, Flag descending = false) const;
  Tensor median() const;
  ValuesIndices median(Integer axis, Flag keepdim = false) const;
  Tensor cumsum(Integer axis) const;
  Tensor cumprod(Integer axis) const;
  Tensor logcumsumexp(Integer axis) const;
  ValuesIndices cummax(Integer axis) const;
  ValuesIndices cummin(Integer axis) const;
  // In place; the same rules as for add_() hold.
  Tensor &neg_(), &abs_(), &exp_(), &log_(), &sqrt_(), &rsqrt_(), &square_(), &reciprocal_(), &tanh_(),
      &sigmoid_(), &relu_();
  Tensor& clamp_(std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt);
  Tensor& masked_fill_(const Tensor& mask, const Scalar& value);
  Tensor& masked_fill_(const Tensor& mask, const Tensor& value);
  Tensor& masked_scatter_(const Tensor& mask, const Tensor& source);
  Tensor& scatter_(Integer axis, const Tensor& index, const Tensor& source);
  Tensor& scatter_(Integer axis, const Tensor& index, const Scalar& value);
  Tensor& scatter_add_(Integer axis, const Tensor& index, const Tensor& source);
  Tensor& index_add_(Integer axis, const Tensor& index, const Tensor& source, const Scalar& alpha = 1);
  Tensor& index_copy_(Integer axis, const Tensor& index, const Tensor& source);
  Tensor& scatter_reduce_(Integer axis, const Tensor& index, const Tensor& source, ScatterReduce reduce,
                          Flag include_self = true);
  Tensor& index_reduce_(Integer axis, const Tensor& index, const Tensor& source, ScatterReduce reduce,
                        Flag include_self = true);
  Tensor& uniform_(Real low = 0, Real high = 1, Generator& generator = default_generator());
  Tensor& normal_(Real mean = 0, Real std = 1, Generator& generator = default_generator());
  Tensor& exponential_(Real rate = 1, Generator& generator = default_generator());

  // ---- Autograd -----------------------------------------------------------------------------------------
  bool requires_grad() const { return get().requires_grad; }
  /// Marks a leaf as wanting a gradient (or not). Throws DTypeError for a non-floating dtype and
  /// AutogradError for the result of an op.
  Tensor& set_requires_grad(Flag value = true);
  /// set_requires_grad(), by PyTorch's name.
  Tensor& requires_grad_(Flag value = true) { return set_requires_grad(value); }
  bool is_leaf() const { return !get().grad_fn; }
  /// The accumulated gradient; undefined before the first backward().
  Tensor grad() const;
  /// Replaces the gradient; an undefined tensor clears it. Shape, dtype and device must be this tensor's.
  void set_grad(const Tensor& grad);
  /// Walks the tape from this tensor and adds d(this)/d(leaf) to every leaf's grad(). `gradient` is the
  /// cotangent of this tensor; it may be left out for a tensor with one element.
  void backward(const Tensor& gradient = {}, Flag retain_graph = false) const;
  /// The same data, without history: gradients stop here.
  Tensor detach() const;
  /// Keeps the gradient of this non-leaf tensor in grad() during backward.
  void retain_grad() const;
  /// Called with the gradient of this tensor when it is complete, before it flows on; a defined result
  /// replaces it, and backward() throws ShapeError, DTypeError or DeviceError unless it is like it. Returns
  /// an id for remove_hook, which may be called from the hook itself.
  std::uint64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// A hook that looks and changes nothing, and so gives nothing back, is one as well.
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F&, const Tensor&>> std::uint64_t register_hook(F hook)
  const { return register_watcher(std::move(hook)); }
  /// For leaves: called after the gradient was added to grad().
  std::uint64_t register_post_accumulate_hook(std::function<void(const Tensor&)> hook) const;
  void remove_hook(std::uint64_t id) const;
  /// The name of the op that made this tensor; empty for leaves.
  std::string_view grad_fn_name() const;

  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& ref() const { return impl_; }
  Ref<TensorImpl> take() && { return std::move(impl_); }

 private:
  TensorImpl& get() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn, gnu::cold]] static void throw_undefined();
  [[gnu::cold]] std::string describe_self() const;  // describe(), declared below
  std::uint64_t register_watcher(std::function<void(const Tensor&)> hook) const;
  template <class T>
  std::vector<T> elements() const;

  Ref<TensorImpl> impl_;
};

/// Goes along a tensor's first axis; *i is select(0, ..).
class RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = std::int64_t;
  RowIterator(const Tensor& tensor, std::int64_t row) : tensor_(&tensor), row_(row) {}
  Tensor operator*() const { return tensor_->select(0, row_); }
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  void operator++(int) { ++row_; }
  bool operator==(const RowIterator& other) const { return row_ == other.row_; }

 private:
  const Tensor* tensor_;
  std::int64_t row_;
};
inline RowIterator Tensor::begin() const { return {*this, 0}; }
inline RowIterator Tensor::end() const { return {*this, size(0)}; }

/// Base of what converts to a Tensor from outside of this namespace, as nn::Parameter does: thanks to it C++
/// looks for the operators of tensors here.
struct TensorHandle {};

namespace detail {
/// A Tensor or a handle to one, but no list in braces, which may stand for several.
template <class T>
concept OneTensor = std::convertible_to<const T&, const Tensor&>;
template <class T>
concept Tensors = requires(const T& list) {
  std::span<const Tensor>(list);
};
}  // namespace detail

/// Tensors handed to a function: {a, b}, a vector, an array or a span. It refers to them, and is for
/// parameters only: a list in braces is gone when the call is over.
class TensorList : public std::span<const Tensor> {
 public:
  TensorList(std::initializer_list<Tensor> tensors) : span(tensors.begin(), tensors.size()) {}
  template <detail::Tensors List>
  TensorList(const List& tensors) : span(tensors) {}
};

/// "f32[2, 3]", with the device appended unless it is the CPU: "f32[2, 3] on cuda:0". Used in messages.
CT_API std::string describe(const Tensor& t);
CT_API std::string describe(const TensorMeta& t);
namespace detail {
// Lets a Tensor be written straight into an error message.
struct Described {
  const Tensor& tensor;
};
CT_API std::ostream& operator<<(std::ostream& out, const Described& d);

/// `t`, the left side of the assignment `op`; throws ValueError if nobody but `t` knows its memory.
CT_API Tensor& assigned(const char* op, Tensor& t);
}  // namespace detail

/// Prints values, shape, dtype, device and grad_fn in PyTorch's layout.
CT_API std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace ct
