#include <limits>
#include <utility>

#include <cotangent/ops/attention/attention_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using attention::Attrs;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  std::int64_t batch, heads, kv_heads, queries, keys, dim, value_dim;
};

std::vector<Sample> samples(SampleMaker& make) {
  const auto inputs = [&](const Case& c, Tensor mask = {}) {
    return std::vector<Tensor>{make.normal({c.batch, c.heads, c.queries, c.dim}),
                               make.normal({c.batch, c.kv_heads, c.keys, c.dim}),
                               make.normal({c.batch, c.kv_heads, c.keys, c.value_dim}), std::move(mask)};
  };
  const auto attrs = [](double scale, bool causal = false, std::int64_t offset = 0, double p = 0) {
    return Attrs{scale, p, causal, offset, {77, 5}};
  };
  const Tensor hides = make.values({2, 1, 1, 5}, {0, 1, -kInf, 2, 0.5, -kInf, -kInf, -kInf, -kInf, -kInf});
  return {
      {inputs({2, 2, 2, 3, 3, 16, 16}), attrs(0.25), "all see all"},
      {inputs({1, 2, 2, 5, 5, 24, 24}), attrs(0.2, true), "causal, odd head dimension"},
      {inputs({1, 4, 2, 5, 7, 8, 8}), attrs(0.3, true, 2), "causal with the past, grouped heads"},
      {inputs({2, 3, 1, 4, 6, 5, 3}), attrs(0.4), "one key head, values of another size"},
      {inputs({1, 1, 1, 7, 3, 16, 16}), attrs(0.25, true, -2), "queries that see nothing"},
      {inputs({1, 1, 1, 70, 67, 20, 20}), attrs(0.2, true), "more than one tile", false},
      {inputs({1, 2, 1, 1, 130, 80, 80}), attrs(0.1), "one query, many keys", false},
      {inputs({1, 1, 1, 3, 5, 128, 128}), attrs(0.08), "head dimension 128"},
      {inputs({1, 1, 1, 2, 33, 200, 256}), attrs(0.07), "head dimensions 200 and 256", false},
      {inputs({2, 2, 1, 3, 5, 16, 16}, make.mask({3, 5})), attrs(0.25), "bool mask of queries and keys"},
      {inputs({2, 2, 2, 3, 5, 16, 16}, make.mask({2, 1, 1, 5})), attrs(0.25, true, 2),
       "bool mask of keys, causal"},
      {inputs({2, 2, 2, 3, 5, 16, 16}, make.normal({2, 2, 3, 5})), attrs(0.25), "full additive mask"},
      {inputs({2, 2, 1, 3, 5, 16, 16}, make.normal({2, 3, 5})), attrs(0.25, true, 1),
       "additive mask per head"},
      {inputs({2, 1, 1, 3, 5, 16, 16}, make.normal({2, 1, 1, 5})), attrs(0.25), "additive mask of keys"},
      {inputs({1, 2, 2, 3, 5, 16, 16}, make.normal({1, 1, 3, 1})), attrs(0.25), "additive mask of queries"},
      {inputs({1, 1, 1, 40, 37, 16, 16}, make.normal({40, 37})), attrs(0.25), "additive mask of many tiles",
       false},
      {inputs({2, 2, 2, 3, 5, 16, 16}, hides), attrs(0.25), "additive mask that hides", false},
      {inputs({2, 2, 1, 3, 5, 16, 16}), attrs(0.25, false, 0, 0.4), "dropout"},
      {inputs({1, 2, 2, 35, 37, 16, 16}), attrs(0.25, true, 2, 0.1), "dropout, causal, odd lengths", false},
      {inputs({1, 1, 1, 2, 3, 16, 16}), attrs(0.25, false, 0, 1.0), "everything dropped"},
      {inputs({1, 1, 1, 1, 1, 1, 1}), attrs(1), "one of everything"},
      {inputs({0, 2, 2, 3, 3, 16, 16}), attrs(1), "no batch"},
      {inputs({1, 2, 2, 0, 3, 16, 16}), attrs(1), "no queries"},
      {inputs({1, 2, 2, 3, 0, 16, 16}), attrs(1), "no keys"},
  };
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  const Attrs plain{1, 0, false, 0, {}};
  const auto call = [&](const Shape& q, const Shape& k, const Shape& v, Tensor mask, const Attrs& attrs,
                        const char* message) {
    return ErrorSample{{make.normal(q), make.normal(k), make.normal(v), std::move(mask)}, attrs, message};
  };
  Attrs too_likely = plain, infinite = plain;
  too_likely.dropout_p = 1.5;
  infinite.scale = kInf;
  const Shape s{1, 2, 3, 4};
  return {
      call({2, 3, 4}, s, s, {}, plain, "q is f64[2, 3, 4]; it must be [batch, heads, queries, dim]"),
      call(s, {2, 2, 3, 4}, {2, 2, 3, 4}, {}, plain, "their batch sizes must be equal"),
      call(s, s, {1, 2, 5, 4}, {}, plain, "as many heads and keys"),
      call(s, {1, 2, 3, 5}, s, {}, plain, "q.size(-1) must equal k.size(-1)"),
      call({1, 3, 3, 4}, s, s, {}, plain, "q has 3 heads and k has 2"),
      call(s, s, s, make.mask({2, 3}), plain, "the mask must broadcast"),
      call(s, s, s, make.index({3, 3}, 2), plain, "it must be bool (true: seen) or floating"),
      call(s, s, s, {}, too_likely, "dropout_p is 1.5; it must lie in [0, 1]"),
      call(s, s, s, {}, infinite, "it must be finite"),
      {{make.index(s, 3), make.index(s, 3), make.index(s, 3), Tensor{}}, plain, "supported dtypes are f32"},
  };
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(attention, {"scaled_dot_product_attention", samples, error_samples, nullptr, nullptr, 4, true})
