"""Tensors of what Python and NumPy have, and what NumPy expects of a tensor."""
import numpy as _numpy

from . import _core
from ._core import Tensor


def tensor(data, dtype=None, device=None, requires_grad=False):
    """A tensor with memory of its own: of a number, of lists of numbers, of an array or tensor.

    Lists of floats give f32, of ints i64, of bools bool. Throws ShapeError for lists that differ in length.
    """
    if hasattr(data, "__dlpack__") and not isinstance(data, _numpy.generic):
        made = (data.detach() if isinstance(data, Tensor) else _core.from_dlpack(data)).clone()
    else:
        try:
            array = _numpy.array(data)
        except ValueError as error:
            raise _core.ShapeError(f"[tensor] the lists differ in length; at each level as many are wanted ({error})")\
                from None
        if array.dtype == object or array.dtype.kind in "USO":
            raise TypeError(f"[tensor] got a {type(data).__name__} of {array.dtype}; numbers are wanted")
        if array.dtype == _numpy.float64 and not isinstance(data, _numpy.generic):
            array = array.astype(_numpy.float32) if dtype is not _core.f64 else array
        made = _core.from_dlpack(_numpy.ascontiguousarray(array).reshape(array.shape)).clone()
    if dtype is not None:
        made = made.to(dtype)
    if device is not None:
        made = made.to(device)
    made = made.detach()
    if requires_grad:
        made.requires_grad = True
    return made


def _numpy_of(self):
    """The same memory as a NumPy array. Throws AutogradError where a gradient is required, DTypeError for bf16."""
    if self.dtype == _core.bf16:
        raise _core.DTypeError("[numpy] the tensor is bf16, which NumPy has not; convert it with x.to(ct.f32) first")
    if self.device != "cpu":
        raise _core.DeviceError(f"[numpy] the tensor is on {self.device}; copy it with x.to(\"cpu\") first")
    return _numpy.from_dlpack(self)


def _as_array(self, dtype=None, copy=None):
    array = _numpy_of(self)
    return array.astype(dtype, copy=bool(copy)) if dtype is not None else array.copy() if copy else array


def _to_list(self):
    """The elements as lists of numbers."""
    on_cpu = self.detach().to("cpu")
    return _numpy_of(on_cpu.to(_core.f32) if self.dtype == _core.bf16 else on_cpu).tolist()


def _size(self, axis=None):
    """The shape, or the size along an axis."""
    return self.shape if axis is None else self.shape[axis]


Tensor.numpy = _numpy_of
Tensor.__array__ = _as_array
Tensor.tolist = _to_list
Tensor.size = _size
