"""What is more than an op, by the names that C++ has: axes that default to all, kernels' sizes, draws, several ops."""
import math as _math

from . import _core, ops


def _axes(x, axes):
    if axes is None:
        return ()
    return (axes,) if isinstance(axes, int) else tuple(axes)


def _reduction(name):
    op = getattr(ops, name)

    def function(x, axes=None, keepdim=False):
        return op(x, axes=_axes(x, axes), keepdim=keepdim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{op.op.formula}, over these axes (an int, or several; all where left out)."
    return function


sum, mean, prod, amax, amin, any, all, logsumexp = map(
    _reduction, ("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp"))


def argmax(x, axis=None, keepdim=False):
    """Where along an axis the largest element is; without one, of all elements."""
    return ops.argmax(x, axes=_axes(x, axis), keepdim=keepdim)


def argmin(x, axis=None, keepdim=False):
    """Where along an axis the smallest element is; without one, of all elements."""
    return ops.argmin(x, axes=_axes(x, axis), keepdim=keepdim)


def var(x, axes=None, correction=1.0, keepdim=False):
    """The variance over these axes: the sum of squares divided by n - correction."""
    return ops.var(x, axes=_axes(x, axes), number=float(correction), keepdim=keepdim)


def std(x, axes=None, correction=1.0, keepdim=False):
    """The square root of var()."""
    return ops.std(x, axes=_axes(x, axes), number=float(correction), keepdim=keepdim)


def norm(x, p=2.0, axes=None, keepdim=False):
    """(sum |x|^p)^(1/p) over these axes."""
    return ops.norm(x, axes=_axes(x, axes), number=float(p), keepdim=keepdim)


def cat(tensors, axis=0):
    """Tensors one behind the other along an axis."""
    return ops.concat(*tensors, axis=axis)


def stack(tensors, axis=0):
    """Tensors of one shape along a new axis."""
    return ops.stack(*tensors, axis=axis)


def leaky_relu(x, slope=0.01):
    """x where x > 0, else slope x."""
    return ops.leaky_relu(x, p=slope)


def gelu(x, approximate="none"):
    """x Phi(x); "tanh" is the approximation that GPT-2 uses."""
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


def clamp(x, low=None, high=None):
    """min(max(x, low), high)."""
    return ops.clamp(x, p=-_math.inf if low is None else low, q=_math.inf if high is None else high)


def dropout(x, p=0.5, training=True):
    """In training zeroes elements with probability p and multiplies the others by 1 / (1 - p)."""
    return ops.dropout(x, p=p) if training and p > 0 else x


def _pool(op, x, kernel_size, stride, **options):
    return op(x, kernel=kernel_size, stride=kernel_size if stride is None else stride, **options)


def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The largest element of each window of x [N, C, H, W]."""
    y, _ = _pool(ops.max_pool2d, x, kernel_size, stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    return y


def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window of x [N, C, H, W]."""
    return _pool(ops.avg_pool2d, x, kernel_size, stride, padding=padding, ceil_mode=ceil_mode,
                 count_include_pad=count_include_pad)


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """x [N, C, H, W] with weight [O, C / groups, kH, kW]."""
    return ops.conv2d(x, weight, bias, stride=stride, padding=padding, padding_end=padding, dilation=dilation,
                      groups=groups)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes, those of the weight, or one without."""
    return ops.layer_norm(x, weight, bias, eps=eps, axes=1 if weight is None else weight.ndim)


def rms_norm(x, weight=None, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return ops.rms_norm(x, weight, eps=eps)


def scaled_dot_product_attention(q, k, v, mask=None, causal=False, scale=None, dropout_p=0.0):
    """softmax(scale q k^T + mask) v, with scale 1 / sqrt(head size) where it is left out."""
    return ops.scaled_dot_product_attention(q, k, v, mask, causal=causal, dropout_p=dropout_p,
                                            scale=q.shape[-1] ** -0.5 if scale is None else scale)


def cross_entropy(logits, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    """The cross-entropy of logits [N, C, ..] with classes (i64) or distributions."""
    soft = target.dtype not in (_core.i64, _core.i32)
    op = ops.cross_entropy_soft if soft else ops.cross_entropy
    return op(logits, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)


def nll_loss(log_probs, target, weight=None, reduction="mean", ignore_index=-100):
    """-log_probs of the targets' classes."""
    return ops.nll_loss(log_probs, target, weight, reduction=reduction, ignore_index=ignore_index)


def flatten(x, first_axis=0, last_axis=-1):
    """Joins the axes first..last into one."""
    shape, last = list(x.shape), last_axis % x.ndim
    return x.reshape(*shape[:first_axis], -1, *shape[last + 1:])


def squeeze(x, axis=None):
    """Without axes of size 1, or without this one."""
    axes = range(x.ndim) if axis is None else [axis % x.ndim]
    mask = 0
    for one in axes:
        mask |= 1 << one
    return ops.squeeze(x, mask=mask)
