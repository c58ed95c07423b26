#include <cotangent/core/op/registry.h>
#include <cotangent/ops/testing/conformance.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <new>

#include <cotangent/core/base/generator_state.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/testing/allocators.h>
#include <cotangent/ops/testing/conformance_internal.h>

#include "tests/catch.h"

// Attributes come from programs of users, from Python too: whatever they are, a call gives a result or a ct::Error, in
// bounded time and memory, and neither result nor gradients depend on uninitialised memory.

namespace {

using namespace ct;
using testing::conformance::Tensors;

#ifdef __SANITIZE_THREAD__  // which allows no threads after fork()
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif
constexpr unsigned kSeconds = 20;  // for one call; they take microseconds
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

/// Throws beyond 64 MiB, and fills what it hands out.
class Capped final : public testing::WrappedAllocator {
 public:
  Capped(std::shared_ptr<Allocator> inner, int byte) : WrappedAllocator(std::move(inner)), byte_(byte) {}
  void* allocate(std::size_t bytes, const Stream& stream) override {
    CT_CHECK(bytes <= kMostBytes, OutOfMemoryError, "allocator", "got ", bytes, " bytes; the test allows ",
             kMostBytes);
    void* block = WrappedAllocator::allocate(bytes, stream);
    return std::memset(block, byte_, bytes);
  }

 private:
  int byte_;
};

// Calls call(name, bytes, size) for each hostile value of an attribute, `now` being its value in the sample.
template <class Call>
void each_value(const AttrDef& attr, const std::byte* now, const Call& call) {
  const auto with = [&](const auto&... values) { (call(detail::cat(values), &values, sizeof values), ...); };
  const auto whole = [&]<class T>(T) {
    with(std::numeric_limits<T>::min(), static_cast<T>(-1), T{0}, T{1}, static_cast<T>(std::int64_t{1} << 31),
         std::numeric_limits<T>::max());
  };
  switch (attr.type) {
    case AttrType::flag: return with(false, true);
    case AttrType::int32: return whole(std::int32_t{});
    case AttrType::int64: return whole(std::int64_t{});
    case AttrType::uint32: return whole(std::uint32_t{});
    case AttrType::uint64: return whole(std::uint64_t{});
    case AttrType::real: return with(std::nan(""), -1.0, 0.0, 1e308, HUGE_VAL, -HUGE_VAL);
    case AttrType::number:
      return with(Scalar(std::nan("")), Scalar(-1), Scalar(HUGE_VAL), Scalar(INT64_MIN), Scalar(INT64_MAX),
                  Scalar(true));
    case AttrType::dims: {
      with(Dims{}, Dims::filled(kMaxRank, 0), Dims::filled(kMaxRank, 1), Dims::filled(kMaxRank, INT64_MAX),
           Dims{INT64_MIN}, Dims{-1}, Dims{0}, Dims{std::int64_t{1} << 31}, Dims{INT64_MAX}, Dims{0, 0},
           Dims{-1, -1});
      Dims dims;
      std::memcpy(static_cast<void*>(&dims), now, sizeof dims);
      for (int i = 0; i < dims.size(); ++i)
        for (const std::int64_t v :
             {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 31, INT64_MAX}) {
          Dims changed = dims;
          changed[i] = v;
          with(changed);
        }
      return;
    }
    case AttrType::dtype:
      for (int t = 0; t < kDTypeCount; ++t) with(static_cast<DType>(t));
      return;
    case AttrType::device: return with(cpu, cuda(0), cuda(99), cuda(-9));
    case AttrType::choice:
      for (const std::uint64_t value : {0, 1, 2, 3, 4, 5, 0x7fffffff, -1}) {
        std::uint64_t bytes = value;
        call(detail::cat(value), &bytes, attr.size);
      }
      return;
    case AttrType::draw:
      for (const std::uint64_t v : {std::uint64_t{0}, UINT64_MAX}) {
        const GeneratorState state{v, v};
        call(detail::cat(v), &state, sizeof state);
      }
  }
}

// Sets all whole numbers of a call to one value, those in lists too.
AnyAttrs all_at(const OpDef& op, AnyAttrs attrs, std::int64_t value) {
  for (const AttrDef& attr : op.attributes) {
    if (std::size_t{attr.offset} + attr.size > attrs.size) continue;
    std::byte* const at = attrs.bytes.data() + attr.offset;
    if (attr.type == AttrType::int32 || attr.type == AttrType::int64) std::memcpy(at, &value, attr.size);
    if (attr.type != AttrType::dims) continue;
    Dims dims;
    std::memcpy(static_cast<void*>(&dims), at, sizeof dims);
    for (std::int64_t& d : dims) d = value;
    std::memcpy(at, &dims, sizeof dims);
  }
  return attrs;
}

// Forward and backward with memory that is full of `byte`; the message of an error, if there was one.
std::string run(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs, int byte, Tensors& results) {
  const AllocatorGuard guard(cpu, std::make_shared<Capped>(allocator(cpu), byte));
  const auto differentiate = [&](const Tensors& cotangents, std::uint32_t wanted) {
    const testing::conformance::Gradients all =
        testing::conformance::differentiate(op, inputs, attrs, cotangents, wanted);
    for (const Tensors& list : {all.outputs, all.grads})
      for (const Tensor& t : list) results.push_back(t.defined() ? t.detach() : t);
    return all.outputs;
  };
  try {
    Tensors cotangents;
    for (const Tensor& y : differentiate({}, 0)) {
      cotangents.push_back(Tensor::allocate(y.shape(), y.dtype(), cpu));
      cotangents.back().fill_(1);
    }
    if (op.differentiable && is_floating(inputs[0].dtype())) differentiate(cotangents, ~0u);
  } catch (const Error& e) { return e.what(); }
  return {};
}

// A view may have more elements than memory.
bool huge(const Tensor& t) { return t.defined() && t.numel() > static_cast<std::int64_t>(kMostBytes / 8); }

/// Memory that parent and child share.
struct Shared {
  std::int64_t started;  // calls
  char call[1024];       // the last
  char wrong[1024];      // the first one that gave what it must not give
};

// Makes all calls from number `from` on.
void run_all(const OpDef& op, std::int64_t from, Shared& shared) {
  std::int64_t number = 0;
  SampleMaker make(1);
  const OpTests* tests = find_tests(op.name);
  for (const DType dtype : {f32, f64, i64}) {
    if (!(op.dtypes & dtype_bit(dtype)) || (dtype == i64 && op.dtypes & dtype_bit(f32))) continue;
    for (const Sample& sample : tests->samples(make)) {
      std::int64_t elements = 0;
      for (const Tensor& t : sample.inputs) elements += t.defined() ? t.numel() : 0;
      if (elements > 3000) continue;
      const Tensors inputs = testing::conformance::convert(op, sample.inputs, dtype, cpu);
      const auto attempt = [&](const AnyAttrs& attrs, const auto&... what) {
        if (++number <= from || shared.wrong[0]) return;
        shared.started = number;
        const std::string text =
            detail::cat(op.name, " in ", dtype, ", sample '", sample.label, "', ", what...);
        std::strncpy(shared.call, text.c_str(), sizeof shared.call - 1);
        const auto wrong = [&](const std::string& how) {
          std::strncpy(shared.wrong, how.c_str(), sizeof shared.wrong - 1);
        };
        if (kForks) alarm(kSeconds);
        try {
          Tensors one, other;
          const std::string a = run(op, inputs, attrs, 255, one), b = run(op, inputs, attrs, 60, other);
          if (a != b) wrong("another error: " + a + " and " + b);
          for (std::size_t k = 0; k < std::min(one.size(), other.size()); ++k)
            if (!huge(one[k]) && !testing::conformance::same_bits(one[k], other[k]))
              wrong(detail::cat("tensor ", k, " has not been written"));
        } catch (const std::exception& e) { wrong(detail::cat("threw what is no ct::Error: ", e.what())); }
      };
      for (const AttrDef& attr : op.attributes) {
        if (std::size_t{attr.offset} + attr.size > sample.attrs.size) continue;  // left out
        each_value(attr, sample.attrs.bytes.data() + attr.offset,
                   [&](const std::string& value, const void* bytes, std::size_t size) {
                     AnyAttrs attrs = sample.attrs;
                     std::memcpy(attrs.bytes.data() + attr.offset, bytes, size);
                     attempt(attrs, attr.name, " = ", value);
                   });
      }
      for (const std::int64_t value :
           {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 31, INT64_MAX})
        attempt(all_at(op, sample.attrs, value), "all whole numbers ", value);
    }
  }
  alarm(0);
}

}  // namespace

TEST_CASE("whatever an attribute is, an op gives a result or an error", "[hostile]") {
#ifdef CT_SANITIZED  // numbers of 63 bits overflow on the way to the check that refuses them
  return;
#endif
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  for (const OpDef* op : registry()) {
    DYNAMIC_SECTION(op->name) {
      Shared& shared = *new (memory) Shared{};
      int failures = 0;
      for (int status = 1; status != 0 && failures < 12;) {  // goes on behind the call that ended a child
        const std::int64_t from = shared.started;
        shared = {};
        shared.started = from;
        if (!kForks) {
          run_all(*op, from, shared);
          status = shared.wrong[0] != 0;
        } else {
          const pid_t child = fork();
          REQUIRE(child >= 0);
          if (child == 0) {
            run_all(*op, from, shared);
            _exit(shared.wrong[0] != 0);
          }
          REQUIRE(waitpid(child, &status, 0) == child);
        }
        if (status == 0) break;
        ++failures;
        FAIL_CHECK(shared.call << ": "
                               << (shared.wrong[0] ? shared.wrong
                                                   : detail::cat("ended the process, status ", status)));
      }
    }
  }
  munmap(memory, sizeof(Shared));
}
