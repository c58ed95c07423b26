"""Tensors of Python's and NumPy's objects, and the methods that NumPy, copies and files expect of a tensor."""
from typing import Any, Optional

import numpy as _numpy

from . import _core
from ._core import DType, Tensor

# NumPy's dtypes that tensors do not have, each with the smallest dtype that holds it.
_HELD_BY = {"int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
_SHARED = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool")

# PyTorch's names of dtypes; __init__.py publishes them.
dtype_names = {"float32": _core.f32, "float64": _core.f64, "float16": _core.f16, "bfloat16": _core.bf16,
               "int64": _core.i64, "int32": _core.i32, "uint8": _core.u8, "bool_": _core.boolean, "bool": _core.boolean,
               "float": _core.f32, "double": _core.f64, "half": _core.f16, "long": _core.i64, "int": _core.i32}


def _types_of(data):
    found = set(map(type, data))
    if found & {list, tuple}:
        for one in data:
            found |= _types_of(one) if isinstance(one, (list, tuple)) else set()
    return found


def _is_array(kind):
    return hasattr(kind, "__dlpack__") and not issubclass(kind, (_numpy.ndarray, _numpy.generic))


def _fitting(array, op):
    """A NumPy array whose elements tensors can have, else its copy; as they can lie in one, else a copy."""
    name = array.dtype.name
    if isinstance(array, _numpy.ma.MaskedArray):
        raise TypeError(f"[{op}] the array is masked, and tensors have no masks; fill it by array.filled(value) first")
    if name == "uint64" and array.size and array.max() > 2 ** 63 - 1:
        raise _core.ValueError(f"[{op}] the array has {array.max()}, beyond i64; smaller numbers are wanted")
    target = _HELD_BY.get(name, name)
    if target not in _SHARED:
        raise _core.DTypeError(f"[{op}] the array is of {name}; convert it to one of {', '.join(_SHARED)} first")
    array = _numpy.asarray(array).astype(target, copy=False)  # in this machine's order of bytes
    lies = array.flags.writeable and array.flags.aligned and all(
        step >= 0 and step % array.itemsize == 0 for step in array.strides)
    return array if lies else array.copy()


def _of_lists(data, op, exact):
    """A NumPy array of lists of numbers, or of a number."""
    types = _types_of(data) if isinstance(data, (list, tuple)) else {type(data)}
    try:
        array = _numpy.array(data)
    except ValueError as error:
        raise _core.ShapeError(f"[{op}] the lists differ in length; at each level as many are wanted ({error})") \
            from None
    too_large = array.dtype == object or array.dtype.kind in "fu" and (abs(array) >= 2.0 ** 63).any()
    if too_large and any(type(one) is int and not -2 ** 63 <= one < 2 ** 63
                         for one in _numpy.array(data, dtype=object).flat):
        raise _core.ValueError(f"[{op}] an int is beyond 64 bits; smaller ones, or floats, are wanted")
    if array.dtype.kind not in "biufc":
        raise TypeError(f"[{op}] got a {type(data).__name__} of {array.dtype}; numbers are wanted")
    typed = any(issubclass(one, (_numpy.generic, _numpy.ndarray)) for one in types)
    return array if exact or typed or array.dtype != _numpy.float64 else array.astype(_numpy.float32)


def _new(data, op, exact=False):
    """A tensor that shares memory where it can, and whether it does."""
    if isinstance(data, Tensor):
        return data.detach(), True
    if isinstance(data, (list, tuple)) and any(map(_is_array, _types_of(data))):
        import cotangent
        parts = [_new(one, op, exact)[0] for one in data]
        return cotangent.stack([part.to(parts[0].device) for part in parts]), False
    if _is_array(type(data)):
        return _core.from_dlpack(data.detach() if hasattr(data, "detach") else data), True
    shares = isinstance(data, _numpy.ndarray) or hasattr(data, "__array__") and not isinstance(data, _numpy.generic)
    array = _numpy.asarray(data) if shares and not isinstance(data, _numpy.ndarray) else data
    if shares and array.dtype.kind in "OUS":
        raise TypeError(f"[{op}] got a {type(data).__name__} of {array.dtype}; numbers are wanted")
    plain = _fitting(array if shares else _of_lists(data, op, exact), op)
    return _core.from_dlpack(plain), plain is array


def tensor(data: Any, dtype: Any = None, device: Optional[str] = None, requires_grad: bool = False) -> Tensor:
    """A tensor with memory of its own: of a number, of lists of numbers, of an array, a tensor, or lists of them.

    Lists of floats give f32, of ints i64, of bools bool; arrays and NumPy's numbers keep their dtype. Throws ShapeError
    for lists that differ in length, DTypeError for elements that there is no dtype for, ValueError for ints beyond i64.
    """
    made, shared = _new(data, "tensor", dtype is not None)
    if shared:
        made = made.clone()
    made = made.to(dtype=dtype, device=device).detach()
    made.requires_grad = requires_grad
    return made


def as_tensor(data: Any, dtype: Any = None, device: Optional[str] = None) -> Tensor:
    """A tensor itself, an array's memory where a tensor can share it, else a copy as tensor() makes."""
    made = data if isinstance(data, Tensor) else _new(data, "as_tensor", dtype is not None)[0]
    return made.to(dtype=dtype, device=device)


def from_numpy(array: Any) -> Tensor:
    """The memory of a NumPy array as a tensor. Throws ValueError where a tensor can't share it: tensor() copies."""
    if not isinstance(array, _numpy.ndarray):
        raise TypeError(f"[from_numpy] the array is a {type(array).__name__}; a numpy.ndarray is wanted")
    return _core.from_dlpack(array)


def _as_index(value):
    """An index that is no number, as a tensor of i64, i32 or bool."""
    if _is_array(type(value)):
        return _core.from_dlpack(value)
    try:
        array = _numpy.asarray(value)
    except ValueError as error:
        raise TypeError(f"[index] an index is a {type(value).__name__} whose lists differ in length ({error})") \
            from None
    if not array.size and not isinstance(value, _numpy.ndarray):
        array = array.astype(_numpy.int64)
    if array.dtype.kind not in "biu":
        raise TypeError(f"[index] an index is a {type(value).__name__} of {array.dtype}; ints or bools are wanted")
    return _new(array if array.dtype != _numpy.uint8 else array.astype(_numpy.int64), "index")[0]


# NumPy's functions of elements, where they have other names here.
_NAMES = dict(zip(
    "subtract multiply divide true_divide power float_power floor_divide mod negative absolute fabs invert left_shift "
    "right_shift equal not_equal less less_equal greater greater_equal arcsin arccos arctan arcsinh arccosh arctanh "
    "arctan2 rint".split(),
    "sub mul div div pow pow floor_divide remainder neg abs abs bitwise_not bitwise_left_shift "
    "bitwise_right_shift eq ne lt le gt ge asin acos atan asinh acosh atanh atan2 round".split()))


class _Methods:
    """Methods of a tensor beside C++'s."""

    def numpy(self, force=False):
        """The same memory as a NumPy array; with force a copy where that is needed, without its gradient.

        Throws AutogradError where a gradient is required, DTypeError for bf16, DeviceError for another device.
        """
        if force:
            self = self.detach().to("cpu")
        if self.requires_grad:
            raise _core.AutogradError("[numpy] the tensor requires a gradient, which NumPy would not see; use "
                                      "x.detach().numpy()")
        if self.dtype == _core.bf16:
            raise _core.DTypeError("[numpy] the tensor is bf16, which NumPy has not; convert it with x.to(ct.f32) first")
        if self.device != "cpu":
            raise _core.DeviceError(f"[numpy] the tensor is on {self.device}; copy it with x.to(\"cpu\") first")
        return _numpy.from_dlpack(self)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if copy is False and dtype is not None and array.dtype != dtype:
            raise ValueError(f"[numpy] the tensor is {self.dtype}, and {dtype} of it is a copy; let copy be None")
        return array.astype(dtype, copy=bool(copy)) if dtype is not None else array.copy() if copy else array

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        import cotangent
        name = ufunc.__name__
        if method != "__call__" or more:
            what = f"method {method}" if method != "__call__" else f"argument {', '.join(more)}"
            raise TypeError(f"[numpy.{name}] the {what} writes NumPy's arrays, and a tensor is given; call "
                            "cotangent's function, or numpy's with x.detach().numpy()")
        function = getattr(cotangent, _NAMES.get(name, name), None)
        if function is None:
            raise TypeError(f"[numpy.{name}] there is no such function of tensors; x.detach().numpy() makes an array")
        return function(*(as_tensor(one, device=self.device) if isinstance(one, _numpy.ndarray) else
                          one.item() if isinstance(one, _numpy.generic) else one for one in inputs))

    def tolist(self):
        """The elements as lists of numbers."""
        return (self.to(_core.f32) if self.dtype == _core.bf16 else self).numpy(force=True).tolist()

    def size(self, axis=None):
        """The shape, or the size along an axis."""
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis=None):
        """The strides in elements, or that along an axis."""
        return self.strides if axis is None else self.strides[axis]

    def __reduce_ex__(self, _):
        plain = self.to(_core.f32) if self.dtype == _core.bf16 else self  # which NumPy has not
        return tensor, (plain.numpy(force=True), self.dtype.name, self.device, self.requires_grad)

    def __copy__(self, change=lambda made: made):
        if self.requires_grad and not self.is_leaf:
            raise _core.AutogradError("[copy] the tensor is the result of an op, with its history; copy x.detach()")
        made = change(self.detach())
        made.requires_grad = self.requires_grad
        return made

    def __deepcopy__(self, memo):
        made = memo[id(self)] = self.__copy__(Tensor.clone)
        if self.grad is not None:
            made.grad = self.grad.detach().clone()
        return made

    def __format__(self, form: str) -> str:
        if form and self.numel() != 1:
            raise TypeError(f"[format] the tensor is {self.dtype.name}{list(self.shape)}; '{form}' is for one element: "
                            "x[i] or x.item(), or use np.array2string(x)")
        return format(self.item(), form) if form else str(self)

    def __contains__(self, value: object) -> bool:
        found = self == value
        if not isinstance(found, Tensor):
            raise TypeError(f"[in] the value is a {type(value).__name__}; a number or a tensor is wanted")
        return bool(found.any())

    def __divmod__(self, other: object) -> "tuple[Tensor, Tensor]":
        return self // other, self % other

    def __rdivmod__(self, other: object) -> "tuple[Tensor, Tensor]":
        return other // self, other % self

    def __delitem__(self, key: object) -> None:
        raise TypeError("[del] elements of a tensor can't be deleted; x[mask] or ct.cat() makes another")

    def __round__(self, ndigits: Optional[int] = None) -> Tensor:
        places = ndigits or 0
        if not self.is_floating_point():
            return self if places >= 0 else round(self.to(_core.f64), places).to(self.dtype)
        power = 10.0 ** abs(places)
        return (self / power).round() * power if places < 0 else (self * power).round() / power if places else self.round()

    def _write(self, value):
        data = as_tensor(value)
        if data.shape != self.shape:
            raise _core.ShapeError(f"[data] the value has the shape {data.shape}, the tensor {self.shape}; a new tensor is wanted "
                                   "for that")
        self.detach().copy_(data.detach())

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def cuda(self, device: int = 0) -> Tensor:
        return self.to(f"cuda:{device}")


for _name, _method in vars(_Methods).items():
    if callable(_method):
        setattr(Tensor, _name, _method)
Tensor.__array_priority__ = 1000
Tensor.data = property(Tensor.detach, Tensor._write, doc="The same memory without history; what is assigned is written into it.")
DType.__repr__ = DType.__str__ = lambda self: f"cotangent.{self.name}"
