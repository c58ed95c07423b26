"""The functions by the names and arguments of torch.nn.functional, where those differ: F.layer_norm(x, x.shape[1:], w, b)."""
from typing import Any, Optional

from . import _core
from ._core import Tensor
from ._core._functions import *  # noqa: F403
from ._core._functions import bce_with_logits as binary_cross_entropy_with_logits


def _same(op: str, shape: Any, x: Tensor, weight: Optional[Tensor]) -> int:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if tuple(x.shape[x.ndim - len(sizes):]) != sizes or weight is not None and tuple(weight.shape) != sizes:
        raise _core.ShapeError(f"[{op}] normalized_shape is {sizes}, x is {tuple(x.shape)}; the last sizes of x, which are those "
                               "of the weight, are wanted")
    return len(sizes)


def layer_norm(input: Tensor, normalized_shape: Any, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:
    """ct.layer_norm over the axes of normalized_shape."""
    axes = _same("layer_norm", normalized_shape, input, weight)
    if weight is None and axes > 1:
        weight = _core._functions.ones(*input.shape[-axes:], dtype=input.dtype, device=input.device)
    return _core._functions.layer_norm(input, weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Optional[Tensor] = None, eps: Optional[float] = None) -> Tensor:
    """ct.rms_norm over the last axis; eps is by default the spacing of the dtype's numbers at 1."""
    _same("rms_norm", normalized_shape, input, weight)
    spacing = {_core.f64: 2.0 ** -52, _core.f16: 2.0 ** -10, _core.bf16: 2.0 ** -7}.get(input.dtype, 2.0 ** -23)
    return _core._functions.rms_norm(input, weight, spacing if eps is None else eps)


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training zeroes elements with probability p, and multiplies the others by 1 / (1 - p)."""
    return _core._functions.dropout(input, p, training)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(the p-norm of x along an axis, eps)."""
    return input / input.norm(p, dim, True).clamp(eps)
