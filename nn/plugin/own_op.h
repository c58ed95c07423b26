#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/version.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/dispatch.h>

// The last lines of an own op's op.cpp: nn/plugin/README.md.

namespace ct {

class CudaText;
struct OpTests;
struct Sample;
class SampleMaker;

/// An op outside of the library, and what `./ct op` asks of it.
struct OwnOp {
  const OpDef* op = nullptr;
  /// Its tests. `reference`, the same op composed of the library's, is also what it is measured against.
  const OpTests* tests = nullptr;
  /// Its CUDA kernels, where they are text: so that `./ct op build` can say whether they compile.
  const CudaText* cuda = nullptr;
  /// Calls to measure it with, of the size that it is made for. Null: the last of the samples.
  std::vector<Sample> (*bench)(SampleMaker&) = nullptr;
};

namespace detail {

/// Layout of the objects that a program and an op it loads both touch, as one number.
consteval std::uint64_t layout_of_ops() {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const std::size_t part : {sizeof(OpDef),
                                 offsetof(OpDef, infer),
                                 offsetof(OpDef, cpu),
                                 offsetof(OpDef, cuda),
                                 offsetof(OpDef, plain),
                                 offsetof(OpDef, rule),
                                 offsetof(OpDef, dtypes),
                                 offsetof(OpDef, saves),
                                 offsetof(OpDef, linked),
                                 sizeof(InputDef),
                                 offsetof(InputDef, gradient),
                                 offsetof(InputDef, rest),
                                 sizeof(OutputDef),
                                 sizeof(AttrDef),
                                 sizeof(Infer),
                                 sizeof(Forward),
                                 sizeof(Backward),
                                 sizeof(OwnOp),
                                 sizeof(TensorImpl),
                                 sizeof(Storage),
                                 sizeof(Shape),
                                 sizeof(TensorMeta),
                                 sizeof(Scalar),
                                 sizeof(std::string),
                                 sizeof(std::vector<int>)})
    hash = (hash ^ part) * 0x100000001b3u;
  return hash;
}

inline constexpr std::string_view kOpMarker = "cotangent op for ";

/// "cotangent op for 0.1.0 0123456789abcdef": load_op() looks for it in a file before anything of it runs.
consteval auto op_stamp() {
  constexpr std::string_view version = COTANGENT_VERSION_STRING " ";
  std::array<char, kOpMarker.size() + version.size() + 17> text{};
  char* to = text.data();
  for (const char c : kOpMarker) *to++ = c;
  for (const char c : version) *to++ = c;
  for (int digit = 15; digit >= 0; --digit) *to++ = "0123456789abcdef"[layout_of_ops() >> 4 * digit & 15];
  return text;
}

}  // namespace detail
}  // namespace ct

/// Says which op a folder holds, at the end of its op.cpp, outside of namespaces:
/// CT_OWN_OP(.op = &kOp, .tests = &kTests). In a program that op.cpp is compiled into it says nothing.
#ifdef COTANGENT_LOADED_OP
#define CT_OWN_OP(...)                                                                        \
  extern "C" {                                                                                \
  extern CT_API const decltype(::ct::detail::op_stamp()) cotangent_op_stamp;                  \
  extern CT_API const ::ct::OwnOp cotangent_own_op;                                           \
  constexpr decltype(::ct::detail::op_stamp()) cotangent_op_stamp = ::ct::detail::op_stamp(); \
  constexpr ::ct::OwnOp cotangent_own_op{__VA_ARGS__};                                        \
  }
#else
#define CT_OWN_OP(...) static_assert(::ct::OwnOp{__VA_ARGS__}.op != nullptr, "CT_OWN_OP needs an op");
#endif
