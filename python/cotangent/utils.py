"""nn.utils: functions on the parameters of modules."""
from typing import Iterable

from . import _core
from ._core import Tensor
from ._core._optim import clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, as one vector."""
    return _core._functions.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes the parts of a vector into the parameters. Throws ShapeError unless it has as many elements."""
    parameters = list(parameters)
    if (wanted := sum(p.numel() for p in parameters)) != vec.numel():
        raise _core.ShapeError(f"[vector_to_parameters] the vector has {vec.numel()} elements, the parameters {wanted}")
    start = 0
    for p in parameters:
        p.detach().copy_(vec[start:start + p.numel()].detach().reshape(p.shape))
        start += p.numel()
