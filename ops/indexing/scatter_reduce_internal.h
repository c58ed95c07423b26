#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/fold/gradients.h>
#include <cotangent/ops/engine/scatter/scatter.h>
#include <cotangent/ops/indexing/indexing_internal.h>

// Each element of x is folded with those of `source` that go there. Rows are as in engine/scatter: `columns` elements that
// have one index, of slices what lies behind the axis.

namespace ct::indexing_impl::scatter_reduced {

using indexing_impl::Attrs;

struct Call {
  ScatterReduce kind;
  bool include_self;
  IndexSite site;
  scatter_impl::Selection rows;
  std::int64_t columns = 1;

  /// For a contiguous table of shape x. An axis along which `index` is expanded, as it is of slices, becomes columns.
  Call(ScatterReduce the_kind, const OpDef& op, const Attrs& attrs, const Shape& x, const Tensor& index);
  bool extremum() const { return kind == ScatterReduce::amax || kind == ScatterReduce::amin; }
};

/// Inputs of the backward kernels of every device: contiguous, undefined where the kind has no use for it. dx holds g,
/// which is right where no place names a row.
struct Spread {
  Tensor x, source, y, g, dx, dsource;
};

/// The parts that are the same on each device: fold() turns y from x to the result, of floats and i64; spread() writes dx and
/// dsource, where they are defined.
void forward_by(ScatterReduce kind, const Forward& f,
                void (*fold)(const Call&, const Tensor& source, const Tensor& y));
void backward_by(ScatterReduce kind, const Backward& b, void (*spread)(const Call&, const Spread&));

/// Memory of a tensor that may be undefined.
template <class T>
T* data_of(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr;
}

template <class C>
CT_HD inline bool same(C a, C b) {
  return a == b || (a != a && b != b);
}

/// How elements, computed in C, are folded. Products of floats are kept in the range of C by an exponent beside them.
template <class C, bool product>
struct Fold {
  using Carry = std::conditional_t<product, fold::Product<C>, C>;
  using Wrapping = std::conditional_t<std::is_integral_v<C>, std::uint64_t, C>;
  using Limits = std::numeric_limits<C>;
  static constexpr C kHighest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  static constexpr C kLowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();

  ScatterReduce kind;

  /// Fold of nothing.
  CT_HD Carry none() const {
    if constexpr (product) {
      return {};
    } else {
      switch (kind) {
        case ScatterReduce::prod: return C(1);
        case ScatterReduce::amax: return kLowest;
        case ScatterReduce::amin: return kHighest;
        default: return C(0);
      }
    }
  }
  CT_HD void take(Carry& carry, C x) const {
    if constexpr (product) {
      carry.take(x);
      carry.normalize();
    } else {
      merge(carry, x);
    }
  }
  CT_HD void merge(Carry& carry, const Carry& x) const {
    if constexpr (product) {
      carry.merge(x);
    } else {
      switch (kind) {
        case ScatterReduce::prod: carry = static_cast<C>(Wrapping(carry) * Wrapping(x)); return;
        case ScatterReduce::amax: carry = x > carry || x != x ? x : carry; return;
        case ScatterReduce::amin: carry = x < carry || x != x ? x : carry; return;
        default: carry = static_cast<C>(Wrapping(carry) + Wrapping(x));
      }
    }
  }
  /// That of n elements.
  CT_HD C result(const Carry& carry, std::int64_t n) const {
    if constexpr (product) {
      return carry.value();
    } else {
      return kind == ScatterReduce::mean ? carry / static_cast<C>(n) : carry;
    }
  }
};

/// The gradient of an element x. Of each place: g; of a mean aux, how many there are; of extrema the result and how many
/// equal it; of products those of fold::OtherFactors.
template <class C>
CT_HD inline C slope(ScatterReduce kind, C g, C x, C value, C aux) {
  switch (kind) {
    case ScatterReduce::sum: return g;
    case ScatterReduce::mean: return g / aux;
    case ScatterReduce::prod: return fold::OtherFactors<C>{value, aux}.gradient(g, x);
    default: return fold::gradient_of<fold::Gradient::extremum>(x, g, value, aux, C(1), C(1));
  }
}

}  // namespace ct::indexing_impl::scatter_reduced

/// The lines of a device's CT_KERNELS: forward<kind> and backward<kind> of namespace `space`.
#define CT_SCATTER_REDUCE_LINE(space, kind) \
  { "scatter_reduce_" #kind, space::forward<ScatterReduce::kind>, space::backward<ScatterReduce::kind> }
#define CT_SCATTER_REDUCE_LINES(space)                                          \
  CT_SCATTER_REDUCE_LINE(space, sum), CT_SCATTER_REDUCE_LINE(space, prod),      \
      CT_SCATTER_REDUCE_LINE(space, mean), CT_SCATTER_REDUCE_LINE(space, amax), \
      CT_SCATTER_REDUCE_LINE(space, amin)
