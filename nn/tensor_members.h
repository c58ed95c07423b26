#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <cotangent/core/tensor/tensor.h>

namespace ct::nn::detail {

// NAME(..) of a handle is that of its tensor. A list in braces in front is one of sizes or axes.
#define CT_MEMBER_OF_TENSOR(name)                                              \
  template <class... A>                                                        \
  decltype(auto) name(A&&... all) const {                                      \
    return now().name(std::forward<A>(all)...);                                \
  }                                                                            \
  template <class... A>                                                        \
  decltype(auto) name(std::initializer_list<Integer> list, A&&... all) const { \
    return now().name(Dims(list), std::forward<A>(all)...);                    \
  }
// One that changes the elements, for every handle to the tensor.
#define CT_CHANGE_OF_TENSOR(name)         \
  template <class... A>                   \
  Tensor name(A&&... all) const {         \
    Tensor tensor = now();                \
    tensor.name(std::forward<A>(all)...); \
    return tensor;                        \
  }
#define CT_ASSIGNMENT_TO_TENSOR(symbol)             \
  template <class B>                                \
  const Handle& operator symbol(const B& b) const { \
    Tensor tensor = now();                          \
    tensor symbol b;                                \
    return static_cast<const Handle&>(*this);       \
  }

/// The members of Tensor, for a handle to one: those of the tensor that it stands for now.
template <class Handle>
class TensorMembers {
 public:
#define X CT_MEMBER_OF_TENSOR
  // clang-format off
  X(dim) X(shape) X(sizes) X(strides) X(size) X(stride) X(numel) X(nbytes) X(storage_offset) X(dtype) X(device)
  X(is_cpu) X(is_cuda) X(is_contiguous) X(is_pinned) X(meta) X(is_same) X(raw_data) X(item_scalar) X(begin) X(end)
  X(to) X(type_as) X(clone) X(contiguous) X(pin_memory) X(view) X(reshape) X(view_as) X(reshape_as) X(flatten)
  X(unflatten) X(transpose) X(t) X(permute) X(narrow) X(slice) X(select) X(expand) X(expand_as) X(squeeze)
  X(unsqueeze) X(movedim) X(swapaxes) X(diagonal) X(unfold) X(unbind) X(split) X(chunk) X(neg) X(abs) X(sign)
  X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos)
  X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(floor) X(ceil) X(round)
  X(trunc) X(relu) X(sigmoid) X(tanh) X(silu) X(selu) X(mish) X(softsign) X(logsigmoid) X(hardsigmoid) X(hardswish)
  X(isnan) X(isinf) X(isfinite) X(logical_not) X(bitwise_not) X(clamp) X(add) X(sub) X(mul) X(div) X(pow) X(maximum)
  X(minimum) X(fmod) X(remainder) X(atan2) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) X(logical_or)
  X(logical_xor) X(lerp) X(where) X(masked_fill) X(masked_select) X(allclose) X(equal) X(sum) X(mean) X(max) X(min)
  X(argmax) X(argmin) X(prod) X(amax) X(amin) X(any) X(all) X(logsumexp) X(var) X(std) X(norm) X(softmax)
  X(log_softmax) X(matmul) X(mm) X(bmm) X(dot) X(outer) X(gather) X(index_select) X(scatter) X(scatter_add)
  X(index_add) X(scatter_reduce) X(index_reduce) X(nonzero) X(flip) X(roll) X(repeat) X(repeat_interleave) X(tril)
  X(triu) X(diag) X(topk) X(sort) X(argsort) X(median) X(cumsum) X(cumprod) X(logcumsumexp) X(cummax) X(cummin)
  X(requires_grad) X(is_leaf) X(grad) X(detach) X(retain_grad) X(register_hook) X(register_post_accumulate_hook)
  X(remove_hook) X(grad_fn_name)
#undef X
#define X CT_CHANGE_OF_TENSOR
  X(fill_) X(zero_) X(copy_) X(index_put_) X(add_) X(sub_) X(mul_) X(div_) X(neg_) X(abs_) X(exp_) X(log_) X(sqrt_)
  X(rsqrt_) X(square_) X(reciprocal_) X(tanh_) X(sigmoid_) X(relu_) X(clamp_) X(masked_fill_) X(masked_scatter_)
  X(scatter_) X(scatter_add_) X(index_add_) X(index_copy_) X(scatter_reduce_) X(index_reduce_) X(uniform_)
  X(normal_) X(exponential_) X(requires_grad_) X(set_requires_grad) X(set_grad)
#undef X
  CT_ASSIGNMENT_TO_TENSOR(+=)
  CT_ASSIGNMENT_TO_TENSOR(-=)
  CT_ASSIGNMENT_TO_TENSOR(*=)
  CT_ASSIGNMENT_TO_TENSOR(/=)
      // clang-format on

      template <class Index>
      Tensor operator[](const Index& index) const {
    return now()[index];
  }
  template <class T = double>
  T item() const {
    return now().template item<T>();
  }
  template <class T>
  T* data() const {
    return now().template data<T>();
  }
  template <class T>
  std::vector<T> to_vector() const {
    return now().template to_vector<T>();
  }
  template <class T, int N>
  Accessor<T, N> accessor() const {
    return now().template accessor<T, N>();
  }
  Tensor index(const TensorIndices& indices) const { return now().index(indices); }
  void backward(const Tensor& gradient = {}, Flag retain_graph = false) const {
    now().backward(gradient, retain_graph);
  }

 private:
  const Tensor& now() const { return static_cast<const Handle&>(*this).tensor(); }
};
#undef CT_MEMBER_OF_TENSOR
#undef CT_CHANGE_OF_TENSOR
#undef CT_ASSIGNMENT_TO_TENSOR

}  // namespace ct::nn::detail
