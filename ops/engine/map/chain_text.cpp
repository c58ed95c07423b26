#include <algorithm>
#include <string_view>

#include <cotangent/core/base/error.h>
#include <cotangent/core/op/around.h>
#include <cotangent/ops/engine/map/chain.h>

// The CUDA text of a program: the library's own formulas and lanes, a struct for each formula of a step, one for the program, and a
// kernel that runs it, of its own or (core/op/around.h) an op's. It includes no file, so that NVRTC compiles it without CUDA's headers;
// numbers of steps are arguments, so that another number needs no other kernel.

asm(".pushsection .rodata\n"
    "cotangent_chain_formulas: .incbin \"cotangent/ops/engine/map/formulas.h\"\n.byte 0\n"
    "cotangent_chain_philox: .incbin \"cotangent/core/base/philox.h\"\n.byte 0\n"
    "cotangent_chain_lane: .incbin \"cotangent/core/cuda/math.h\"\n"
    ".incbin \"cotangent/ops/engine/map/lane.cuh\"\n.byte 0\n"
    "cotangent_chain_kernel: .incbin \"cotangent/core/cuda/kernel.h\"\n.byte 0\n"
    "cotangent_chain_rows: .incbin \"cotangent/core/cuda/convert.h\"\n"
    ".incbin \"cotangent/core/cuda/block_reduce.h\"\n"
    ".incbin \"cotangent/ops/engine/rows/elements.cuh\"\n"
    ".incbin \"cotangent/ops/engine/rows/extents.h\"\n"
    ".incbin \"cotangent/ops/engine/rows/share.cuh\"\n.byte 0\n"
    ".popsection\n");
[[gnu::visibility("hidden")]] extern const char chain_formulas[] asm("cotangent_chain_formulas");
[[gnu::visibility("hidden")]] extern const char chain_lane[] asm("cotangent_chain_lane");
[[gnu::visibility("hidden")]] extern const char chain_philox[] asm("cotangent_chain_philox");
[[gnu::visibility("hidden")]] extern const char chain_kernel[] asm("cotangent_chain_kernel");
[[gnu::visibility("hidden")]] extern const char chain_rows[] asm("cotangent_chain_rows");

namespace ct::map::chain {
namespace {

using detail::cat;

constexpr std::string_view kStandard = R"(
#pragma nv_diag_suppress 177  // of functions that no step calls
#ifdef __CUDACC_RTC__
namespace std {
using int64_t = long long;
using int32_t = int;
using uint64_t = unsigned long long;
using uint32_t = unsigned;
using uint8_t = unsigned char;
using size_t = decltype(sizeof(0));
using uintptr_t = unsigned long long;
template <class T> struct type_identity { using type = T; };
template <class T> using type_identity_t = typename type_identity<T>::type;
template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;
template <class T, T v> struct integral_constant { __device__ constexpr T operator()() const { return v; } };
struct string_view { __device__ constexpr string_view(const char*) {} };
template <bool, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool b, class A, class B> using conditional_t = typename conditional<b, A, B>::type;
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static __device__ constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
  static __device__ constexpr float lowest() { return -0x1.fffffep127f; }
  static __device__ constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000u); }
};
template <> struct numeric_limits<double> {
  static __device__ constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ull); }
  static __device__ constexpr double lowest() { return -0x1.fffffffffffffp1023; }
  static __device__ constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000ull); }
};
template <bool, class T> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <class T> inline constexpr bool is_integral_v = false;
template <> inline constexpr bool is_integral_v<bool> = true;
template <> inline constexpr bool is_integral_v<int> = true;
template <> inline constexpr bool is_integral_v<unsigned> = true;
template <> inline constexpr bool is_integral_v<long long> = true;
template <> inline constexpr bool is_integral_v<unsigned long long> = true;
template <class T> inline constexpr bool is_arithmetic_v = is_integral_v<T>;
template <> inline constexpr bool is_arithmetic_v<float> = true;
template <> inline constexpr bool is_arithmetic_v<double> = true;
template <class T> struct make_unsigned { using type = unsigned long long; };
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
}  // namespace std
#else
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#endif
#define CT_HD __device__
#define CT_API
#define CT_KERNEL_TEXT
namespace ct {
struct Half { unsigned short bits; };
struct BFloat16 { unsigned short bits; };
template <class T> using compute_t = std::conditional_t<sizeof(T) == 2, float, T>;
enum class DType : unsigned char { f32, f64, f16, bf16, i64, i32, u8, boolean };
}  // namespace ct
)";

constexpr std::string_view kElements = R"(
namespace ct::map::chain {
using map::Lane;
using BFloat = BFloat16;
__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ double wide(double x) { return x; }
__device__ __forceinline__ bool wide(bool x) { return x; }
__device__ __forceinline__ float wide(Half x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ float wide(BFloat x) { return __uint_as_float(unsigned(x.bits) << 16); }
template <class T> struct Narrow { template <class V> static __device__ __forceinline__ T of(V x) { return T(x.v); } };
template <> struct Narrow<bool> { static __device__ __forceinline__ bool of(bool x) { return x; } };
template <> struct Narrow<Half> { template <class V> static __device__ __forceinline__ Half of(V x) {
  Half y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x.v))); return y; } };
template <> struct Narrow<BFloat> { template <class V> static __device__ __forceinline__ BFloat of(V x) {
  BFloat y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(float(x.v))); return y; } };
// A value as another type of value; truths are bool.
template <class X> struct As {
  template <class V> static __device__ __forceinline__ X of(V x) { return X(typename X::Scalar(x.v)); }
  static __device__ __forceinline__ X of(bool x) { return X(x ? 1 : 0); }
};
template <> struct As<bool> {
  template <class V> static __device__ __forceinline__ bool of(V x) { return x.v != 0; }
  static __device__ __forceinline__ bool of(bool x) { return x; }
};
// Keeps a product from being contracted with the sum of a later step: `none` is 0, which no compiler knows.
template <class V> __device__ __forceinline__ V apart(V x, long long none) {
  if constexpr (sizeof(x.v) == 8) return V(__longlong_as_double(__double_as_longlong(x.v) ^ none));
  else return V(__int_as_float(__float_as_int(x.v) ^ int(none)));
}
template <int bytes> struct Word { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<1> { using type = unsigned char; };
template <class T, int V> struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T of[V];
  using W = typename Word<(sizeof(T) * V < 16 ? sizeof(T) * V : 16)>::type;
  static constexpr int kWords = sizeof(T) * V / sizeof(W);
  __device__ __forceinline__ void load(const T* from) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) reinterpret_cast<W*>(of)[k] = reinterpret_cast<const W*>(from)[k];
  }
  __device__ __forceinline__ void fill(T value) {
#pragma unroll
    for (int k = 0; k < V; ++k) of[k] = value;
  }
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (int k = 0; k < kWords; ++k) reinterpret_cast<W*>(to)[k] = reinterpret_cast<const W*>(of)[k];
  }
};
)";

// For programs that draw.
constexpr std::string_view kKey = R"(
namespace ct {
struct GeneratorState { std::uint64_t seed, offset; };
__device__ __forceinline__ GeneratorState key(long long live, long long seed, long long offset) {
  if (!live) return {std::uint64_t(seed), std::uint64_t(offset)};
  const GeneratorState* const now = reinterpret_cast<const GeneratorState*>(live);
  return {now->seed, now->offset + std::uint64_t(offset)};
}
}  // namespace ct
)";

// A header's text without the lines that include others.
std::string body(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (!line.starts_with("#include") && !line.starts_with("#pragma once")) kept += line;
    text.remove_prefix(end);
  }
  return kept;
}

static_assert(DType::f32 < DType::f64 && DType::f64 < DType::f16 && DType::f16 < DType::bf16 &&
              static_cast<int>(DType::bf16) == 3);  // as kStandard has them

std::string_view storage_name(DType t) {
  switch (t) {
    case DType::f16: return "Half";
    case DType::bf16: return "BFloat";
    case DType::f64: return "double";
    case DType::boolean: return "bool";
    default: return "float";
  }
}
std::string_view value_name(DType t) {
  return held(t) == DType::f64 ? "D" : held(t) == DType::boolean ? "bool" : "R";
}

}  // namespace

bool names_number(std::string_view text, char number) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t i = 1; i < text.size(); ++i)
    if (text[i] == number && !in_word(text[i - 1]) && (i + 1 == text.size() || !in_word(text[i + 1])))
      return true;
  return false;
}

Steady steadiness(std::string_view text, DType dtype) {
  bool calls = false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const std::string_view before = text.substr(0, i);
    if (text[i] == '(' && before.back() != ' ' && before.back() != '(')
      calls = calls || !(before.ends_with("where") || before.ends_with("abs"));
  }
  const bool contracts = text.find('*') != text.npos && text.find_first_of("+-") != text.npos;
  if (!calls && !contracts) return Steady::everywhere;
  return dtype == DType::f64 || text.find("lerp(") != text.npos ? Steady::nowhere : Steady::in_chunks;
}

bool draws(const Program& p) {
  return std::any_of(p.steps.begin(), p.steps.end(),
                     [](const Step& s) { return s.formula && s.formula->draws; });
}

std::string library_text(bool draws) {
  static const std::string& library =
      *new std::string(cat(kStandard, body(chain_kernel), body(chain_formulas), body(chain_lane), kElements,
                           "}  // namespace ct::map::chain\n"));
  return draws ? cat(library, kKey, body(chain_philox)) : library;
}

std::string program_text(const Program& p, const Variant& variant, std::string_view of) {
  const int outputs = static_cast<int>(p.outputs.size()), operands = outputs + p.inputs, rank = variant.rank;
  const auto is_read = [&](int k) {
    return k < outputs || p.input_slots[static_cast<std::size_t>(k - outputs)] >= 0;
  };
  const auto repeated = [&](int k) { return (variant.repeated >> k & 1u) != 0; };
  const auto storage = [&](int k) { return storage_name(variant.storage[static_cast<std::size_t>(k)]); };
  const auto type = [&](int v) { return value_name(p.dtypes[static_cast<std::size_t>(v)]); };

  std::string kernel, members;
  std::vector<const map::FormulaRecord*> formulas;
  bool rough = !p.round_between;
  for (int m = 0; m < outputs; ++m)
    rough = rough && is_low_precision(variant.storage[static_cast<std::size_t>(m)]);
  std::string text = cat("namespace ct::map::chain::", of, " {\nusing R = Lane<float, ", rough,
                         ">;\nusing Q = Lane<float, true>;\nusing D = Lane<double>;\n");

  for (int k = 0; k < operands; ++k)
    if (is_read(k)) members += cat("  ", k < outputs ? "" : "const ", storage(k), "* p", k, ";\n");
  members += "  long long n, none;\n";
  const auto word = [&](auto... name) { members += cat("  long long ", name..., ";\n"); };
  for (int d = 1; d < rank; ++d) word("size", d);
  for (int k = 0; k < operands; ++k)
    for (int d = 0; d < rank && is_read(k); ++d) word('s', k, '_', d);

  kernel += cat("  using I = ", variant.wide_index ? "long long" : "int", ";\n  I rest = I(thread);\n");
  for (int d = rank - 1; d > 0; --d)
    kernel += cat("  const I i", d, " = rest % I(size", d, ");\n  rest /= I(size", d, ");\n");
  kernel += "  const I i0 = rest;\n";
  for (int k = 0; k < operands; ++k) {
    if (!is_read(k)) continue;
    kernel += cat("  const I o", k, " = i0 * I(s", k, "_0)");
    for (int d = 1; d < rank; ++d) kernel += cat(" + i", d, " * I(s", k, '_', d, ')');
    kernel += ";\n";
    if (k != variant.passed) kernel += cat("  Pack<", storage(k), ", V> r", k, ";\n");
  }
  for (int k = outputs; k < operands; ++k)
    if (is_read(k) && k != variant.passed)
      kernel += cat("  r", k, repeated(k) ? ".fill(p" : ".load(p", k, repeated(k) ? "[o" : " + o", k,
                    repeated(k) ? "]" : "", ");\n");
  kernel += "#pragma unroll\n  for (int j = 0; j < V; ++j) {\n";
  for (int v = 0; v < p.inputs; ++v)
    if (is_read(outputs + v))
      kernel += outputs + v == variant.passed  // which may be a product of the kernel's
                    ? cat("    const ", type(v), " v", v, " = apart(", type(v), "(wide(r", outputs + v,
                          ".of[j])), none);\n")
                    : cat("    const ", type(v), " v", v, " = wide(r", outputs + v, ".of[j]);\n");
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    const int v = p.inputs + static_cast<int>(s);
    const DType dtype = p.dtypes[static_cast<std::size_t>(v)];
    const auto number = [&](char which) { return cat('n', which, s); };
    std::string value;
    bool rounds = false;
    if (step.operand_count == 0) {
      members += cat("  double ", number('p'), ";\n");
      value = cat(held(dtype) == DType::boolean ? "(" : cat(type(v), "("), number('p'),
                  held(dtype) == DType::boolean ? " != 0)" : ")");
    } else if (!step.formula) {
      value = cat("As<", type(v), ">::of(v", step.operands[0], ')');
      rounds = p.dtypes[step.operands[0]] != dtype;
    } else {
      const auto known = std::find_if(formulas.begin(), formulas.end(), [&](const auto* f) {
        return f->text == step.formula->text && f->names == step.formula->names;
      });
      const auto index = known - formulas.begin();
      if (known == formulas.end()) formulas.push_back(step.formula);
      const bool in_f64 = p.dtypes[step.operands[step.operand_count - 1]] == DType::f64;
      const std::string_view x = in_f64 ? "D" : step.rough ? "Q" : "R";
      value = cat("F", index, "::eval(");
      for (int k = 0; k < step.operand_count; ++k) value += cat("As<", x, ">::of(v", step.operands[k], "), ");
      if (step.formula->draws) {
        for (const char* const name : {"live", "seed", "offset", "below"}) word(name, s);
        value += cat("LaneMask{philox_word(key(live", s, ", seed", s, ", offset", s,
                     "), std::uint64_t(thread * V + j)) < std::uint64_t(below", s, ")}, ");
      }
      for (const char which : {'p', 'q'}) {
        const bool named = names_number(step.formula->text, which);
        if (named) members += cat("  double ", number(which), ";\n");
        value += cat(x, '(', named ? number(which) : "0", ')', which == 'p' ? ", " : ")");
      }
      value = step.formula->tiles->predicate ? cat(value, ".v") : cat("As<", type(v), ">::of(", value, ')');
      rounds = p.round_between;
    }
    if (rounds && is_low_precision(dtype))
      value = cat("R(wide(Narrow<", storage_name(dtype), ">::of(", value, ")))");
    else if (p.round_between && step.formula && dtype != DType::boolean &&
             step.formula->text.find_first_of("*(") != std::string_view::npos)
      value = cat("apart(", value, ", none)");
    kernel += cat("    const ", type(v), " v", v, " = ", value, ";\n");
  }
  for (int m = 0; m < outputs; ++m)
    kernel += cat("    r", m, ".of[j] = Narrow<", storage(m), ">::of(v",
                  p.outputs[static_cast<std::size_t>(m)], ");\n");
  kernel += "  }\n";
  for (int m = 0; m < outputs; ++m)
    if (m != variant.passed || variant.in_memory)
      kernel += cat("  if constexpr (kWrites) r", m, ".store(p", m, " + o", m, ");\n");

  for (std::size_t f = 0; f < formulas.size(); ++f) {
    std::string names(formulas[f]->names);
    if (const std::size_t drawn = names.find("auto "); formulas[f]->draws)
      names.replace(drawn, 4, "LaneMask");
    text += cat("struct F", f, " { template <class X> static CT_FORMULA auto eval(", names, ") { ",
                formulas[f]->text, "; } };\n");
  }
  const std::string passed =
      variant.passed < 0 ? "" : cat(", Pack<", storage(variant.passed), ", V>& r", variant.passed);
  return text + cat("struct Program {\n  static constexpr int V = ", variant.vector, ";\n", members,
                    "  template <bool kWrites = true> __device__ __forceinline__ void run(long long thread",
                    passed, ") const {\n", kernel, "  }\n",
                    passed.empty() ? "" : cat("  using Passed = Pack<", storage(variant.passed), ", V>;\n"),
                    "};\n}  // namespace ct::map::chain::", of, '\n');
}

std::string cuda_text(const Program& p, const Variant& variant) {
  return library_text(draws(p)) + program_text(p, variant, "whole") + R"(
extern "C" __global__ void __launch_bounds__(256) chain(const ct::map::chain::whole::Program p) {
  ct::gpu::wait_for_previous();
  const long long thread = blockIdx.x * 256LL + threadIdx.x;
  if (thread < p.n) p.run(thread);
}
)";
}

// The elements of an op's kernel by way of programs.
constexpr std::string_view kWays = R"(
namespace ct::rows {
template <class Program> struct Load : Program {
  static constexpr bool kMakes = true;
  template <class T, int N>
  __device__ __forceinline__ void operator()(gpu::Vector<T, N>& v, const T*, long long i) const {
    typename Program::Passed elements;
    constexpr int V = Program::V;
    if constexpr (N == V) {
      this->run(i / V, elements);
      v.word = *reinterpret_cast<const typename gpu::Vector<T, N>::Word*>(elements.of);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        this->run((i + j) / V, elements);
        v.set(j, *reinterpret_cast<const T*>(elements.of + (i + j) % V));
      }
    }
  }
  template <class T> __device__ __forceinline__ T at(const T*, long long i) const {
    typename Program::Passed elements;
    this->template run<false>(i / Program::V, elements);
    return *reinterpret_cast<const T*>(elements.of + i % Program::V);
  }
};
template <class Program, bool kInMemory> struct Store : Program {
  template <class T, int N>
  __device__ __forceinline__ void operator()(const gpu::Vector<T, N>& v, T* to, long long i) const {
    if constexpr (kInMemory) v.store(to + i);
    typename Program::Passed elements;
    if constexpr (N == Program::V) {
      *reinterpret_cast<typename gpu::Vector<T, N>::Word*>(elements.of) = v.word;
      this->run(i / N, elements);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        *reinterpret_cast<T*>(elements.of) = v[j];
        this->run(i + j, elements);
      }
    }
  }
};
}  // namespace ct::rows
)";

std::string wrapped_text(const detail::KernelText& kernel, unsigned threads, const Wrapping& around,
                         const Variant& load, const Variant& store) {
  const auto* const first = around.before(kernel);
  const auto* const last = around.behind(kernel);
  return cat(library_text((first && draws(*first)) || (last && draws(*last))), body(chain_rows), kWays,
             body(kernel.headers), first ? program_text(*first, load, "load") : "",
             last ? program_text(*last, store, "store") : "",
             "namespace ct {\nextern \"C\" __global__ void __launch_bounds__(", threads, ") chain(const ",
             kernel.argument, " a, const rows::", first ? "Load<map::chain::load::Program>" : "FromMemory",
             " load, const rows::",
             last ? cat("Store<map::chain::store::Program, ", store.in_memory, '>') : "ToMemory",
             " store) {\n  gpu::wait_for_previous();\n  ", kernel.call, ";\n}\n}\n");
}

}  // namespace ct::map::chain
