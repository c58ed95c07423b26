"""Cotangent from Python: tensors, every op of the library's registry, gradients, modules, optimizers, files.

    import cotangent as ct
    x = ct.randn(4, 3, requires_grad=True)
    ct.softmax(x, axis=1).square().sum().backward()
    print(x.grad)

The memory of NumPy's arrays and PyTorch's tensors is shared by ct.from_dlpack(array), numpy.from_dlpack(x) and
torch.from_dlpack(x). `cotangent.torch` makes an op a torch.autograd.Function.
"""
import sys as _sys

from ._core import (DType, Op, Tensor, arange, bf16, boolean, cuda_is_available, empty, f16, f32, f64,
                    from_dlpack, full, grad_enabled, i32, i64, manual_seed, num_threads, ones, rand, randint,
                    randn, registry, set_num_threads, stream, synchronize, u8, version, zeros)
from ._core import (AutogradError, CudaError, DeviceError, DTypeError, Error, IndexError, IoError, OutOfMemoryError,
                    ShapeError, ValueError)
from . import data, functional, io, models, nn, ops, optim, testing, text
from ._array import tensor
from ._build import compile_command
from ._grad import *  # noqa: F403
from .function import Function
from .io import load, save
from .ops import load_library, load_op

__version__ = version()
_package = _sys.modules[__name__]


def _publish():
    # Each function is the package's own, and where a tensor comes first, a method of tensors too, unless C++ has one. An
    # op that was loaded anew takes the place of its older self.
    for module in (functional, ops):
        for name, function in vars(module).items():
            own = getattr(function, "__module__", None) == module.__name__ and not name.startswith(("_", "load_"))
            for owner in (_package, Tensor):
                if own and getattr(getattr(owner, name, function), "__module__", None) == module.__name__:
                    setattr(owner, name, function)


_publish()
