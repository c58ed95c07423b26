"""Cotangent from Python: tensors, the library's functions, gradients, modules, optimizers, files.

    import cotangent as ct
    x = ct.randn(4, 3, requires_grad=True)
    ct.softmax(x, axis=1).square().sum().backward()
    print(x.grad)

The memory of NumPy's arrays and PyTorch's tensors is shared by ct.from_dlpack(array), numpy.from_dlpack(x) and
torch.from_dlpack(x). `cotangent.torch` makes a function of tensors a torch.autograd.Function.
"""
from ._core import *  # noqa: F403  the tensor, its dtypes, errors, settings
from ._core._functions import *  # noqa: F403  the public functions of C++
from . import autograd as autograd, cuda as cuda
from . import data as data, io as io, models as models, nn as nn, ops as ops, optim as optim
from . import testing as testing, text as text
from ._array import as_tensor as as_tensor, dtype_names as _names, from_numpy as from_numpy, tensor as tensor
from ._capture import *  # noqa: F403
from ._build import compile_command as compile_command
from ._device import FloatTensor as FloatTensor, LongTensor as LongTensor, device as device
from ._device import get_num_threads as get_num_threads, is_tensor as is_tensor
from ._core import version as _version
from ._grad import *  # noqa: F403
from .function import Function as Function
from .io import load as load, save as save
from .ops import load_library as load_library, load_op as load_op

asarray = as_tensor
float32, float64, float16, bfloat16, int64, int32, uint8 = f32, f64, f16, bf16, i64, i32, u8  # PyTorch's names
half, double, long = f16, f64, i64
globals().update(_names)  # float, int, bool among them
__version__ = _version()
