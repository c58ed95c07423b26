"""Shared parts of the tests beside PyTorch: a call of both libraries, and the comparison of values, dtypes and gradients."""
import os

import numpy as np

import cotangent as ct

SEED = int(os.environ.get("COTANGENT_PYTHON_SEED", "0"))  # other numbers for the tables of functions and layers

try:
    import torch
    torch.set_num_threads(1)  # two that wait for one another cost five times the tests' time
except ImportError:
    pass



def late_groups(name):
    """PyTorch's Adagrad before 2.15 has no state for a group that is added."""
    return name != "Adagrad" or tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 15)


DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
          "uint8": "u8", "boolean": "bool"}


class Fixed(np.ndarray):
    """An array that gets no gradient."""


def fixed(array):
    return np.asarray(array).view(Fixed)


def is_array(value):
    return isinstance(value, np.ndarray)


def mapped(f, value):
    """f of each array in lists, tuples and dicts; what else is there stays."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(f, one) for one in value)
    if isinstance(value, dict):
        return {key: mapped(f, one) for key, one in value.items()}
    return f(value) if is_array(value) else value


def leaves(*values):
    for value in values:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            yield from leaves(*value)
        elif value is not None:
            yield value


def in_dtype(value, dtype):
    return mapped(lambda a: a.astype(dtype).view(type(a)) if a.dtype == np.float32 else a, value)


def differentiable(a):
    return a.dtype.kind == "f" and not isinstance(a, Fixed)


def ours(value, grad=True):
    return mapped(lambda a: ct.tensor(np.asarray(a), requires_grad=grad and differentiable(a)), value)


def theirs(value, grad=True):
    return mapped(lambda a: torch.tensor(np.asarray(a)).requires_grad_(grad and differentiable(a)), value)


def array(t):
    return np.asarray(t.detach().numpy())


def kind(t):
    name = str(t.dtype).rpartition(".")[2]
    return DTYPES.get(name, name)


def close(a, b, tolerance, what):
    assert a.shape == b.shape, (what, a.shape, b.shape)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 5, err_msg=str(what))


def backward(results, cotangents):
    """The gradients' source: sum of what is differentiable, weighted."""
    parts = [(y * w).sum() for y, w in zip(results, cotangents) if y.requires_grad]
    if parts:
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        total.backward()
    return len(parts)


def compare(result, wanted, inputs, their_inputs, dtype=np.float32, what="", tolerance=None):
    """Values and dtypes of two results, then gradients of the inputs."""
    a, b = list(leaves(result)), list(leaves(wanted))
    assert len(a) == len(b), (what, result, wanted)
    for y, z in zip(a, b):
        if not isinstance(z, torch.Tensor):
            assert type(y) is type(z) and y == z, (what, y, z)
            continue
        assert kind(y) == kind(z), (what, y.dtype, z.dtype)
        exact = tolerance or (1e-8 if z.dtype == torch.float64 else 2e-4)
        close(array(y), array(z), exact, what)
    pairs = [(y, z) for y, z in zip(a, b) if isinstance(z, torch.Tensor)]
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=tuple(z.shape)).astype(dtype) for _, z in pairs]
    backward([y for y, _ in pairs], [ct.tensor(w) for w in weights])
    backward([z for _, z in pairs], [torch.tensor(w) for w in weights])
    count = 0
    for i, (x, t) in enumerate(zip(leaves(inputs), leaves(their_inputs))):
        if not isinstance(t, torch.Tensor) or not t.is_leaf or not t.requires_grad:
            continue
        g = np.zeros(t.shape, dtype) if x.grad is None else array(x.grad)
        h = np.zeros(t.shape, dtype) if t.grad is None else array(t.grad)
        close(g, h, 5 * (tolerance or (1e-8 if dtype == np.float64 else 2e-4)), (what, "gradient", i))
        count += 1
    return len(a) + count
