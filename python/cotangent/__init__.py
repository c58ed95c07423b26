"""Cotangent from Python: tensors, every op of the library's registry, gradients, modules, optimizers, files.

    import cotangent as ct
    x = ct.randn(4, 3, requires_grad=True)
    ct.softmax(x, axis=1).square().sum().backward()
    print(x.grad)

The memory of NumPy's arrays and PyTorch's tensors is shared by ct.from_dlpack(array), numpy.from_dlpack(x) and
torch.from_dlpack(x). `cotangent.torch` makes an op a torch.autograd.Function.
"""
import sys as _sys
from contextlib import contextmanager as _contextmanager

from ._core import (DType, Op, Tensor, autocast, bf16, boolean, cuda_is_available, f16, f32, f64, from_dlpack, grad,
                    grad_enabled, i32, i64, manual_seed, num_threads, registry, set_grad_enabled, set_num_threads,
                    stream, synchronize, u8, version)
from ._core import (AutogradError, CudaError, DeviceError, DTypeError, Error, IndexError, IoError, OutOfMemoryError,
                    ShapeError, ValueError)
from ._core._functions import *  # noqa: F403  the public functions of C++
from . import data, io, models, nn, ops, optim, testing, text
from ._array import tensor
from ._build import compile_command
from .function import Function
from .ops import load_library, load_op

__version__ = version()
_package = _sys.modules[__name__]


@_contextmanager
def _grad_mode(on):
    before = set_grad_enabled(on)
    try:
        yield
    finally:
        set_grad_enabled(before)


def no_grad():
    """with ct.no_grad(): nothing is recorded in here."""
    return _grad_mode(False)


def enable_grad():
    """with ct.enable_grad(): ops are recorded in here, also inside of no_grad()."""
    return _grad_mode(True)
