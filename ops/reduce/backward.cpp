#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/reduce/kinds_internal.h>

// The part of the backward passes that is the same on both devices.

namespace ct::reduce {

AxisMask axis_mask(const char* op, const Dims& axes, int rank) {
  AxisMask mask = 0;
  for (const std::int64_t axis : axes) {
    const AxisMask bit = 1u << wrap_axis(op, axis, rank);
    CT_CHECK(!(mask & bit), ShapeError, op, "axis ", axis, " is named twice in ", axes,
             "; name each axis once");
    mask |= bit;
  }
  return axes.empty() ? (1u << rank) - 1 : mask;
}

namespace {
// Memory for the cotangent in the input's dtype, of which the gradient is an expanded view. One that is there already, as in a
// replay, is the view that an earlier call made.
Tensor scaled_gradient(const Backward& b) {
  const TensorMeta& x = b.in_meta(0);
  const Shape& shape = b.grad().shape();
  const Tensor& given = b.grad_inputs[0];
  if (!given.defined()) return Tensor::allocate(shape, x.dtype, x.device);
  return Tensor::from_storage(given.impl()->storage, shape, contiguous_strides(shape), given.storage_offset(),
                              x.dtype);
}
}  // namespace

void spread_sum(Kind kind, const Backward& b,
                void (*sum)(const Tensor&, AxisMask, const Tensor&, double, bool)) {
  if (!b.needs(0)) return;
  const TensorMeta& x = b.in_meta(0);
  const Attrs& attrs = b.attrs<Attrs>();
  const AxisMask mask = axis_mask(b.op.name, attrs.axes, x.shape.size());
  const std::int64_t outputs = b.grad().numel();
  const double divisor =
      kind == Kind::sum || outputs == 0 ? 1 : static_cast<double>(numel(x.shape) / outputs);
  const bool converted = divisor != 1 || b.grad().dtype() != x.dtype;
  const Tensor scaled = converted ? scaled_gradient(b) : Tensor();
  if (converted) sum(b.grad(), 0, scaled, divisor, false);
  const Tensor& g = converted ? scaled : b.grad();
  Strides strides = x.shape;
  for (int i = 0, from = 0; i < x.shape.size(); ++i) {
    const bool reduced = mask >> i & 1u;
    strides[i] = reduced ? 0 : g.strides()[from];
    from += !reduced || attrs.keepdim;
  }
  b.set_grad_in(0, Tensor::from_storage(g.impl()->storage, x.shape, strides, g.storage_offset(), x.dtype));
}

Tensor in_fold_type(const Tensor& t, void (*sum)(const Tensor&, AxisMask, const Tensor&, double, bool)) {
  const DType dtype = accumulate_type(t.dtype());
  if (t.dtype() == dtype && t.is_contiguous()) return t;
  Tensor out = Tensor::allocate(t.shape(), dtype, t.device());
  sum(t, 0, out, 1, false);
  return out;
}

Spread make_spread(const Shape& shape, AxisMask mask) {
  Spread spread;
  std::int64_t output = 1, reduced = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    const bool is_reduced = mask >> i & 1u;
    const int last = spread.rank - 1;
    if (last >= 0 && (spread.output_stride[last] == 0) == is_reduced) {
      spread.size[last] *= shape[i];
    } else {
      spread.size[spread.rank] = shape[i];
      spread.output_stride[spread.rank] = is_reduced ? 0 : output;
      spread.reduced_stride[spread.rank] = is_reduced ? reduced : 0;
      ++spread.rank;
    }
    (is_reduced ? reduced : output) *= shape[i];
  }
  if (spread.rank == 0) {
    spread.rank = 1;
    spread.size[0] = spread.output_stride[0] = 1;
    spread.reduced_stride[0] = 0;
  }
  return spread;
}

void backward_by(Kind kind, const Backward& b, const DeviceFunctions& device) {
  if (!b.needs(0)) return;
  const TensorMeta& meta = b.in_meta(0);
  const Attrs& attrs = b.attrs<Attrs>();
  const AxisMask mask = axis_mask(b.op.name, attrs.axes, meta.shape.size());
  const std::int64_t outputs = b.grad().numel();
  const double count = outputs == 0 ? 0 : static_cast<double>(numel(meta.shape) / outputs);

  GradientCall call{};
  call.mask = mask;
  call.dx = b.grad_in(0);
  if (call.dx.numel() == 0) return;
  call.g = in_fold_type(b.grad(), device.sum);
  NoGrad guard;
  if (kind != Kind::max && kind != Kind::min) call.x = b.in(0);
  const auto use_side = [&](Gradient gradient, bool smallest) {
    call.kind = gradient;
    Side side = device.side(call.x, mask, gradient, smallest);
    call.y = side.value;
    call.aux = side.aux;
  };
  switch (kind) {
    case Kind::max:
    case Kind::min:
      call.kind = Gradient::position;
      call.aux = b.out(1);
      break;
    case Kind::amax:
    case Kind::amin: use_side(Gradient::extremum, kind == Kind::amin); break;
    case Kind::prod: use_side(Gradient::product, false); break;
    case Kind::var:
    case Kind::std: {
      const double freedom = count > attrs.number ? count - attrs.number : 0;
      call.kind = kind == Kind::var ? Gradient::variance : Gradient::deviation;
      call.settings.scale = (kind == Kind::var ? 2 : 1) / freedom;
      if (kind == Kind::std) call.y = in_fold_type(b.out(0), device.sum);
      call.aux = b.out(1);
      break;
    }
    case Kind::norm:
      call.settings.p = attrs.number;
      if (std::isinf(attrs.number)) {
        use_side(Gradient::norm_extremum, attrs.number < 0);
      } else if (attrs.number == 0 || attrs.number == 1) {
        call.kind = Gradient::norm1;
        call.settings.scale = attrs.number;
      } else {
        call.kind = attrs.number == 2 ? Gradient::norm2 : Gradient::norm;
        call.y = in_fold_type(b.out(0), device.sum);
      }
      break;
    default:
      call.kind = Gradient::log_sum_exp;
      call.y = b.out(1).select(1, 0).contiguous();
      call.aux = b.out(1).select(1, 1).contiguous();
  }
  device.gradient(call);
}

}  // namespace ct::reduce
