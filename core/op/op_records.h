#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/base/shape.h>
#include <cotangent/core/device/device.h>

// Records of an op's inputs, outputs and attributes, by name: the parts of an OpDef that can be read at run
// time.

namespace ct {

struct GeneratorState;
class Tensor;

/// At most so many records of inputs; a record may stand for any number of inputs.
inline constexpr std::size_t kMaxInputDefs = 12;

/// Record of one input. A flag that is left out is false.
struct InputDef {
  const char* name;
  /// The inputs and outputs that its gradient reads beside the cotangents, by name: "x", "w y". Nothing else is
  /// kept alive for backward.
  const char* needs = "";
  /// False for indices, masks and other inputs that no gradient flows to.
  bool gradient = true;
  /// The gradient's kernel can add to an existing gradient (see Backward::accumulate).
  bool accumulates = false;
  /// The gradient's kernel can write f32, and add to f32, where the input has 16 bits. The gradient of a
  /// parameter that was converted for the op then goes to the f32 parameter without being rounded on its way
  /// (see Backward::grad_dtype).
  bool wide_grad = false;
  /// May be undefined.
  bool optional = false;
  /// Keeps a dtype of its own (an index, a mask): not promoted, not compared.
  bool any_dtype = false;
  /// May live on another device than input 0.
  bool any_device = false;
  /// The kernels want it contiguous: what is not is copied before they see it, forward and backward. Plain kernels get
  /// every tensor so.
  bool contiguous = false;
  /// For a `contiguous` input: other layouts that the kernels read in place.
  bool (*readable)(const Tensor&) = nullptr;
  /// The backward kernel alone wants it contiguous.
  bool contiguous_saved = false;
  /// May have 16 bits where input 0 is f32. Autocast leaves it so where it has its dtype.
  bool low = false;
  /// Stands for all inputs from here on (the tensors of concat). Only the last record.
  bool rest = false;
  /// The kernel writes it in place (detail::write() in core/op/execute.h).
  bool written = false;
  /// Inputs for which a last record stands come in turns of so many, like the records before it: parameter, gradient,
  /// parameter, gradient, ...
  std::uint8_t turn = 0;
};

/// Record of one output.
struct OutputDef {
  const char* name;
  /// False where no gradient flows back from it: indices, masks, statistics, truth values.
  bool gradient = true;
  /// The backward kernel wants its cotangent, and the saved output itself, contiguous; `readable` as of an input.
  bool contiguous = false;
  bool (*readable)(const Tensor&) = nullptr;
  /// Stands for all outputs from here on. Only the last record.
  bool rest = false;
};

/// The type of an attribute, as a struct of attributes holds it.
enum class AttrType : std::uint8_t {
  flag,
  int32,
  int64,
  uint32,
  uint64,
  real,    // double
  number,  // Scalar
  dims,    // Shape, Dims
  dtype,
  device,
  choice,  // an enum: AttrDef::choices names its values
  draw,    // GeneratorState: which random numbers are drawn
};
/// One attribute: its name, its type, and where it lies in the struct that is passed to dispatch().
struct AttrDef {
  const char* name;
  AttrType type;
  std::uint16_t offset;
  std::uint16_t size;
  /// The names of a choice's values from 0 on, separated by spaces.
  const char* choices = "";
};

namespace detail {
template <class T>
consteval AttrType attr_type() {
  if constexpr (std::is_same_v<T, bool>)
    return AttrType::flag;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return AttrType::int32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return AttrType::int64;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return AttrType::uint32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return AttrType::uint64;
  else if constexpr (std::is_same_v<T, double>)
    return AttrType::real;
  else if constexpr (std::is_same_v<T, Scalar>)
    return AttrType::number;
  else if constexpr (std::is_same_v<T, Dims>)
    return AttrType::dims;
  else if constexpr (std::is_same_v<T, DType>)
    return AttrType::dtype;
  else if constexpr (std::is_same_v<T, Device>)
    return AttrType::device;
  else if constexpr (std::is_same_v<T, GeneratorState>)
    return AttrType::draw;
  else
    return std::is_enum_v<T> ? AttrType::choice : throw "an attribute of a type that AttrType does not have";
}
}  // namespace detail

/// The record of one field of an attribute struct: CT_ATTRIBUTE(SoftmaxAttrs, axis), or with the names of an
/// enum's values CT_ATTRIBUTE(LossAttrs, reduction, "none mean sum").
// clang-format off
#define CT_ATTRIBUTE(Struct, member, ...)                                                                    \
  ::ct::AttrDef{#member, ::ct::detail::attr_type<decltype(Struct::member)>(), offsetof(Struct, member),      \
                sizeof(Struct::member) __VA_OPT__(, ) __VA_ARGS__}
// clang-format on

/// Saved values that the gradient of one input needs: bit i of `inputs` for input i, bit k of `outputs` for
/// output k.
struct Saves {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
};

}  // namespace ct
