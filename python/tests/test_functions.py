"""Every published function beside PyTorch, or beside what it is composed of there: with its required arguments alone,
with each optional one, in f32 and in f64; values, dtypes, gradients."""
import functools
import inspect
import math

import numpy as np
import pytest

import cotangent as ct
from beside import SEED, compare, fixed, in_dtype, leaves, mapped, ours, theirs
from cotangent._core import _functions

PUBLISHED = sorted(name for name in vars(_functions) if not name.startswith("_"))
IN_PLACE = [name for name in PUBLISHED if name.endswith("_")]
OPTIONS = {"dtype", "device", "requires_grad",
           "generator"}  # of all functions that make tensors: test_made_*, test_draws_*
CREATED = ["empty", "zeros", "ones", "full", "scalar", "eye", "arange", "linspace", "rand", "randn", "randint",
           "randperm"]
DRAWN = ["rand", "randn", "rand_like", "randn_like", "randint", "randperm", "bernoulli", "normal", "multinomial",
         "sample_logits",
         "dropout"]
ELSEWHERE = {**dict.fromkeys(IN_PLACE, "test_in_place"), **dict.fromkeys(CREATED, "test_made"),
             **dict.fromkeys(DRAWN, "test_draws"),
             "empty_like": "test_made"}
UNARY = ["neg", "abs", "sign", "exp", "square", "sin", "cos", "tanh", "sigmoid", "relu", "erf", "erfc", "expm1", "exp2",
         "tan",
         "atan", "sinh", "cosh", "asinh", "floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite"]
POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal", "log1p", "log2", "log10"]
ACTIVATIONS = ["silu", "selu", "relu6", "hardsigmoid", "hardswish", "mish", "softsign", "logsigmoid", "gelu", "elu",
               "hardtanh",
               "leaky_relu", "softplus"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "floor_divide", "atan2", "hypot",
          "xlogy", "pow"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
RENAMED = {"axis": "dim", "axes": "dim"}


def rotary(x, positions, base=10000.0, interleaved=False, rotary_dim=0, scaling=None):
    import torch
    d = rotary_dim or x.shape[-1]
    phi = positions.to(x.dtype)[..., None] * base ** (-torch.arange(0, d, 2).to(x.dtype) / d) / (scaling
        or {}).get("factor", 1.0)
    a, b = (x[..., 0:d:2], x[..., 1:d:2]) if interleaved else (x[..., :d // 2], x[..., d // 2:d])
    a, b = a * phi.cos() - b * phi.sin(), a * phi.sin() + b * phi.cos()
    turned = torch.stack([a, b], -1).flatten(-2) if interleaved else torch.cat([a, b], -1)
    return torch.cat([turned, x[..., d:]], -1)


def recurrence(a, x, dim, reverse=False):
    import torch
    a, x = a.movedim(dim, 0), x.movedim(dim, 0)
    y, made = torch.zeros_like(x[0]), [None] * len(x)
    for i in reversed(range(len(x))) if reverse else range(len(x)):
        made[i] = y = a[i] * y + x[i]
    return torch.stack(made).movedim(0, dim)


def masked_softmax(x, mask, scale=1.0, dim=-1):
    import torch
    shown = x * scale + (mask if mask.is_floating_point() else torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask,
        -math.inf))
    return torch.nan_to_num(shown.softmax(dim))


def recurrent(kind, x, h0, weights, c0=None, lengths=None, reverse=False, relu=False):
    """One layer of torch.nn, and the steps behind a sequence's end set to 0."""
    import torch
    w_ih, w_hh, *b = weights
    more = {"nonlinearity": "relu" if relu else "tanh"} if kind == "RNN" else {}
    layer = getattr(torch.nn, kind + "Cell")(x.shape[-1], w_hh.shape[1], bias=bool(b), dtype=x.dtype, **more)
    for name in [n for n, _ in layer.named_parameters()]:
        delattr(layer, name)
    for name, w in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights):
        setattr(layer, name, w)
    T, state = len(x), (h0, c0) if kind == "LSTM" else h0
    out = [None] * T
    for i in reversed(range(T)) if reverse else range(T):
        new = layer(x[i], state)
        on = torch.ones(x.shape[1], 1, dtype=torch.bool) if lengths is None else (i < lengths)[:, None]
        keep = [torch.where(on, n, o) for n, o in zip(new, state)] if kind == "LSTM" else torch.where(on, new, state)
        state = tuple(keep) if kind == "LSTM" else keep
        out[i] = torch.where(on, state[0] if kind == "LSTM" else state, 0.0)
    return (torch.stack(out), *state) if kind == "LSTM" else (torch.stack(out), state)


@functools.lru_cache(maxsize=None)
def table():
    """name -> [(PyTorch's function, arguments, options by our names)]"""
    import torch
    from torch.nn import functional as F
    rng, rows = np.random.default_rng(7 + SEED), {}

    def normal(*shape):
        return np.asarray(rng.normal(size=shape), np.float32)

    def positive(*shape):
        return np.abs(normal(*shape)) + np.float32(0.5)

    def unit(*shape):
        return rng.uniform(0.1, 0.9, shape).astype(np.float32)

    def whole(*shape, high=9):
        return rng.integers(1, high, shape)

    def mask(*shape):
        return rng.random(shape) < 0.6

    def row(name, theirs, *args, **options):
        rows.setdefault(name, []).append((theirs, args, options))

    def each(name, theirs, args, *options):
        row(name, theirs, *args)
        for one in options:
            row(name, theirs, *args, **one)

    # ---- element by element ----
    for name in UNARY:
        row(name, getattr(torch, name), normal(3, 5))
        row(name, getattr(torch, name), normal())
    for name in POSITIVE:
        row(name, getattr(torch, name), positive(3, 5))
    for name in ("isnan", "isinf", "isfinite"):
        row(name, getattr(torch, name), np.array([1, math.nan, -math.inf], np.float32))
        row(name, getattr(torch, name), whole(3))
    for name in ("asin", "acos", "atanh"):
        row(name, getattr(torch, name), unit(3, 5))
    row("acosh", torch.acosh, positive(3, 5) + 1)
    for name in ACTIVATIONS:
        row(name, getattr(F, name), 3 * normal(4, 5))
    row("gelu", F.gelu, normal(3, 5), approximate="tanh")
    row("elu", F.elu, normal(3, 5), alpha=0.3)
    row("hardtanh", lambda x, low=-1, high=1: F.hardtanh(x, low, high), normal(4, 5), low=-0.25)
    row("hardtanh", lambda x, low=-1, high=1: F.hardtanh(x, low, high), normal(4, 5), high=0.5)
    row("leaky_relu", lambda x, slope: F.leaky_relu(x, slope), normal(3, 5), slope=0.2)
    each("softplus", F.softplus, [3 * normal(4, 5)], {"beta": 2.0}, {"threshold": 1.0})
    bad = np.array([1, math.nan, math.inf, -math.inf], np.float32)
    each("nan_to_num", torch.nan_to_num, [bad], {"nan": 2.0}, {"posinf": 3.0}, {"neginf": -4.0})
    row("bitwise_not", torch.bitwise_not, whole(3))
    row("bitwise_not", torch.bitwise_not, mask(5))
    row("logical_not", torch.logical_not, mask(5))
    row("clamp", lambda x, low=None, high=None: torch.clamp(x, low, high), normal(4, 5), low=-0.5)
    row("clamp", lambda x, low=None, high=None: torch.clamp(x, low, high), normal(4, 5), low=None, high=0.5)
    row("clamp", torch.clamp, normal(4, 5), -0.5, 0.5)
    row("clamp", torch.clamp, whole(5), 3)
    # ---- of two ----
    for name in BINARY:
        f = functools.partial(torch.div, rounding_mode="floor") if name == "floor_divide" else getattr(torch, name)

        def g(a, b, f=f, **more):
            as_tensor = [v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in (a, b)]
            return f(*as_tensor, **more)
        row(name, g, positive(3, 5), positive(5))
        row(name, g, positive(3, 1), positive(3, 5))
        row(name, g, positive(3, 5), 1.5)
        row(name, g, 1.5, positive(3, 5))
        if name != "hypot":
            row(name, g, whole(3, 5), whole(5))
            row(name, g, whole(3, 5), 2)
            row(name, g, 2, whole(3, 5))
    for name in ("fmod", "remainder", "atan2", "div", "sub", "maximum", "minimum", "hypot"):
        row(name, getattr(torch, name), normal(4, 5), normal(4, 5))
    for name in ("add", "sub"):
        row(name, getattr(torch, name), normal(3, 5), normal(5), alpha=2)
        row(name, getattr(torch, name), normal(3, 5), 1.5, alpha=0.5)
    for name in BITS:
        f = getattr(torch, name)
        row(name, f, whole(3, 5), whole(5, high=4))
        row(name, f, whole(3, 5), 2)
        row(name, f, 2, whole(3, 5, high=4))
    for name in COMPARISONS:
        row(name, getattr(torch, name), whole(3, 5).astype(np.float32), whole(5).astype(np.float32))
        row(name, getattr(torch, name), whole(3, 5), 4)
    for name in ("logical_and", "logical_or", "logical_xor"):
        row(name, getattr(torch, name), mask(3, 5), mask(5))
    row("prelu", F.prelu, normal(3, 5), normal(1))
    row("prelu", F.prelu, normal(3, 5), normal(5))
    row("lerp", torch.lerp, normal(3, 5), normal(3, 5), unit(3, 5))
    row("lerp", torch.lerp, normal(3, 5), normal(3, 5), 0.3)
    for name in ("addcmul", "addcdiv"):
        row(name, getattr(torch, name), normal(3, 5), normal(5), positive(3, 5))
        row(name, getattr(torch, name), normal(3, 5), normal(5), positive(3, 5), value=0.5)
    near = np.array([1, 1 + 1e-3, math.nan, 2, 0], np.float32), np.array([1, 1, math.nan, 2 + 1e-6, 1e-7], np.float32)
    each("isclose", torch.isclose, near, {"rtol": 1e-2}, {"atol": 1e-2}, {"equal_nan": True})
    each("allclose", torch.allclose, [near[0][:2], near[1][:2]], {"rtol": 1e-2}, {"atol": 1e-2})
    row("allclose", torch.allclose, near[0][2:3], near[1][2:3], equal_nan=True)
    row("equal", torch.equal, near[0], near[0])
    row("equal", torch.equal, whole(3), whole(4))
    row("equal", torch.equal, np.arange(4), np.arange(4))
    row("swiglu", lambda g, u: F.silu(g) * u, normal(3, 5), normal(3, 5))
    row("geglu", lambda g, u, approximate="none": F.gelu(g, approximate=approximate) * u, normal(3, 5), normal(3, 5))
    row("geglu", lambda g, u, approximate: F.gelu(g, approximate=approximate) * u, normal(3, 5), normal(3, 5),
        approximate="tanh")
    each("rotary_embedding", rotary, [normal(2, 3, 4, 8), np.arange(4)], {"base": 100.0}, {"interleaved": True},
         {"rotary_dim": 4},
         {"scaling": {"kind": "linear", "factor": 2.0}})
    # ---- choice, and places ----
    row("where", torch.where, mask(3, 5), normal(3, 5), normal(5))
    row("where", torch.where, mask(3, 5), normal(3, 5), 0.5)
    row("where", torch.where, mask(3, 5), 0.5, normal(3, 5))
    row("where", torch.where, mask(3, 5))
    row("embedding", F.embedding, whole(3, 4), normal(9, 2))
    row("embedding", F.embedding, whole(30), normal(9, 2), padding_idx=3)
    row("index_select", torch.index_select, normal(3, 5), 1, np.array([4, 0, 4]))
    row("gather", torch.gather, normal(3, 5), 1, whole(3, 4, high=5))
    row("take_along_dim", torch.take_along_dim, normal(3, 5), whole(3, 1, high=5), axis=1)
    row("take_along_dim", torch.take_along_dim, normal(3, 5), whole(4, high=15))
    for name in ("index_add", "index_copy"):
        row(name, getattr(torch, name), normal(3, 5), 1, np.array([4, 0]), normal(3, 2))
    row("index_add", torch.index_add, normal(3, 5), 1, np.array([4, 4]), normal(3, 2), alpha=0.5)
    row("scatter_add", torch.scatter_add, normal(3, 5), 1, whole(3, 2, high=5), normal(3, 2))
    row("scatter", torch.scatter, normal(3, 5), 0, np.array([[0, 1, 2]]), normal(1, 3))
    row("scatter", torch.scatter, normal(3, 5), 1, whole(3, 2, high=5), 0.5)
    row("scatter", lambda x, dim, index, value: torch.scatter(x, dim, index, value), normal(3, 5), 1,
        np.array([[2], [1], [0]]), value=2)
    row("nonzero", torch.nonzero, mask(3, 5))
    row("masked_select", torch.masked_select, normal(3, 5), mask(3, 5))
    row("masked_fill", torch.masked_fill, normal(3, 5), mask(3, 5), 0.5)
    row("masked_fill", torch.masked_fill, normal(3, 5), mask(5), normal())
    row("masked_scatter", torch.masked_scatter, normal(3, 5), mask(3, 5), normal(15))
    row("one_hot", F.one_hot, whole(3, 4))
    row("one_hot", lambda i, classes: F.one_hot(i, classes), whole(3), classes=12)
    row("searchsorted", torch.searchsorted, fixed(np.sort(normal(5))), fixed(normal(3, 4)))
    row("searchsorted", torch.searchsorted, np.arange(5), whole(3, high=5), right=True)
    row("bucketize", torch.bucketize, normal(3, 4), fixed(np.sort(normal(5))))
    row("bucketize", torch.bucketize, whole(3, high=5), np.arange(5), right=True)
    each("bincount", torch.bincount, [whole(20)], {"minlength": 12})
    row("bincount", lambda x, weights: torch.zeros(9, dtype=weights.dtype).index_add(0, x, weights),
        np.array([1, 8, 1]), weights=normal(3))
    # ---- views and shapes ----
    row("concat", torch.cat, [normal(2, 3), normal(1, 3)])
    for name, f in (("concat", torch.cat), ("cat", torch.cat), ("stack", torch.stack)):
        row(name, f, [normal(2, 3), normal(2, 3)])
        row(name, f, [normal(2, 3), normal(2, 3), normal(2, 3)], axis=1)
        row(name, f, (normal(2, 3), normal(2, 3)), -1)
    cube = normal(2, 3, 4)
    for name in ("reshape", "view"):
        row(name, getattr(torch.Tensor, name), cube, (4, -1))
        row(name, getattr(torch.Tensor, name), cube, 3, -1, 2)
    row("reshape", torch.Tensor.reshape, cube, -1)
    row("expand", torch.Tensor.expand, normal(3, 1), (2, -1, 4))
    row("expand", torch.Tensor.expand, normal(3, 1), 2, 3, 4)
    for name in ("view_as", "reshape_as"):
        row(name, getattr(torch.Tensor, name), cube, normal(4, 6))
    row("expand_as", torch.Tensor.expand_as, normal(3, 1), normal(2, 3, 4))
    row("type_as", torch.Tensor.type_as, normal(3), whole(3))
    row("permute", torch.Tensor.permute, cube, (2, 0, 1))
    row("permute", torch.Tensor.permute, cube, 2, 0, 1)
    row("flip", torch.Tensor.flip, cube, (0, -1))
    row("flip", torch.Tensor.flip, cube, 0, 2)
    row("flip", torch.Tensor.flip, cube, 1)
    row("repeat", torch.Tensor.repeat, cube, (2, 1, 1, 3))
    row("repeat", torch.Tensor.repeat, cube, 1, 2, 1)
    row("tile", torch.Tensor.tile, cube, (2, 3))
    row("tile", torch.Tensor.tile, cube, 3)
    row("roll", torch.roll, cube, 5)
    row("roll", torch.roll, cube, (1, 2), (0, -1))
    row("roll", torch.roll, cube, 1, 2)
    row("roll", lambda x, shifts, dim: torch.roll(x, shifts, dim), cube, shifts=1, axes=2)
    row("roll", lambda x, shift: torch.roll(x, shift), cube, shift=3)
    row("repeat_interleave", torch.repeat_interleave, cube, 2, axis=1)
    row("repeat_interleave", torch.repeat_interleave, cube, np.array([0, 2, 1]), axis=1)
    for name in ("tril", "triu"):
        each(name, getattr(torch, name), [normal(2, 4, 5)], {"diagonal": 1}, {"diagonal": -2})
    axes = {"axis1": "dim1", "axis2": "dim2"}

    def crossed(f):
        return lambda x, **more: f(x, **{axes.get(k, k): v for k, v in more.items()})
    each("diag_embed", crossed(torch.diag_embed), [normal(2, 3)], {"offset": 1}, {"axis1": 0}, {"axis2": 0})
    each("diagonal", crossed(torch.diagonal), [normal(3, 4, 5)], {"offset": 1}, {"axis1": 2}, {"axis2": 2})
    for shape in ((4,), (3, 4)):
        row("diag", torch.diag, normal(*shape))
        row("diag", lambda x, offset: torch.diag(x, offset), normal(*shape), offset=1)
    row("meshgrid", lambda t: torch.meshgrid(t, indexing="ij"), [normal(2), normal(3)])
    row("meshgrid", torch.meshgrid, normal(2), normal(3), indexing="xy")
    image = normal(2, 3, 5, 6)
    row("pad", F.pad, image, (1, 2, 0, 1))
    row("pad", F.pad, image, [1, -2], value=0.5)
    for mode in ("reflect", "replicate", "circular"):
        row("pad", F.pad, image, (1, 2, 2, 1), mode=mode)
    each("flatten", lambda x, first_axis=0, last_axis=-1: torch.flatten(x, first_axis, last_axis), [cube],
         {"first_axis": 1},
         {"last_axis": 1})
    row("flatten", torch.flatten, normal())
    row("transpose", torch.transpose, cube, 0, 2)
    row("swapaxes", torch.swapaxes, cube, 0, -1)
    row("squeeze", torch.squeeze, normal(1, 3, 1))
    row("squeeze", torch.squeeze, normal(1, 3, 1), axis=-1)
    row("unsqueeze", torch.unsqueeze, cube, -1)
    row("movedim", torch.movedim, cube, 0, 2)
    row("unbind", torch.unbind, normal(5, 2))
    row("unbind", torch.unbind, normal(2, 5), axis=1)
    row("split", torch.split, normal(5, 4), 2)
    row("split", torch.split, normal(5, 4), [1, 4])
    row("split", torch.split, normal(5, 4), 3, axis=1)
    row("split", lambda x, sizes: torch.split(x, sizes), normal(5, 4), sizes=[2, 3])
    row("chunk", torch.chunk, normal(5, 4), 2)
    row("chunk", torch.chunk, normal(5, 4), 2, axis=1)
    row("clone", torch.clone, cube)
    row("contiguous", torch.Tensor.contiguous, cube)
    row("unflatten", torch.unflatten, cube, 2, (2, -1))
    row("t", torch.t, normal(2, 3))
    row("narrow", torch.narrow, cube, 1, 1, 2)
    row("slice", lambda x, dim, start: x[:, start:], cube, 1, 1)
    row("slice", lambda x, dim, start, stop: x[:, start:stop], cube, 1, 0, stop=-1)
    row("slice", lambda x, dim, start, step: x[..., start::step], cube, 2, 1, step=2)
    row("select", torch.select, cube, 1, -1)
    row("unfold", torch.Tensor.unfold, normal(3, 8), 1, 3, 2)
    for name in ("zeros_like", "ones_like"):
        row(name, lambda x, f=getattr(torch, name): f(x), cube)
        row(name, lambda x, f=getattr(torch, name): f(x), whole(3))
    row("full_like", lambda x, value: torch.full_like(x, value), cube, 2.5)
    # ---- reductions, scans, orders ----
    for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "any", "all", "var", "std", "stddev", "norm",
                 "aminmax"):
        f = {"stddev": torch.std, "norm": torch.linalg.vector_norm, "aminmax": lambda x, **k: tuple(
            f(x, **k) for f in (torch.amin, torch.amax))}.get(name) or getattr(torch, name)
        several = f
        if name == "prod":
            def f(x, dim=None, keepdim=False, dtype=None):
                dtype = {None: None, ct.f64: torch.float64}[dtype]
                if dim is None:
                    return torch.prod(x, dtype=dtype).reshape([1] * x.ndim if keepdim else [])
                for one in sorted(dim if isinstance(dim, tuple) else (dim,), key=lambda d: d % x.ndim, reverse=True):
                    x = torch.prod(x, one, keepdim, dtype=dtype)
                return x
        elif name in ("sum", "mean"):
            def f(x, dim=None, keepdim=False, dtype=None, f=several):
                return f(x, dim, keepdim, dtype={None: None, ct.f64: torch.float64}[dtype])
        elif name == "logsumexp":
            def f(x, dim=(0, 1, 2), keepdim=False, f=several):
                return f(x, dim, keepdim)
        each(name, f, [cube], {"axes": 1}, {"axes": (0, -1)}, {"axes": 2, "keepdim": True}, {"keepdim": True})
        if name in ("sum", "mean", "prod"):
            row(name, f, cube, axes=0, dtype=ct.f64)
        if name in ("var", "std", "stddev"):
            each(name, f, [cube], {"correction": 0.0}, {"correction": 2.0, "axes": 1})
        if name in ("sum", "prod", "amax", "amin", "any", "all"):
            row(name, f, whole(3, 4, high=3))
        if name in ("sum", "any", "all"):
            row(name, f, mask(3, 4), axes=0)
    for p in (0.0, 1.0, 3.0, math.inf, -math.inf):
        row("norm", lambda x, p, dim=None: torch.linalg.vector_norm(x, p, dim), cube, p=p)
        row("norm", lambda x, p, dim=None: torch.linalg.vector_norm(x, p, dim), cube, p, axes=1)
    for name in ("max", "min", "argmax", "argmin", "median"):
        f = getattr(torch, name)
        each(name, f, [cube], {"axis": 1}, {"axis": -1, "keepdim": True})
    for name in ("max", "min"):
        row(name, getattr(torch, name), cube, cube[::-1].copy())
        row(name, getattr(torch, name), cube, other=np.asarray([0.1], np.float32))
    for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        row(name, getattr(torch, name), cube, 1)
        row(name, getattr(torch, name), cube, axis=-1)
    for name in ("cumsum", "cumprod"):
        row(name, getattr(torch, name), whole(3, 4, high=4), 0)
        row(name, lambda x, dim, dtype, f=getattr(torch, name): f(x, dim, dtype=torch.float64), cube, 1, dtype=ct.f64)
    each("linear_recurrence", recurrence, [unit(3, 5), normal(3, 5), 1], {"reverse": True})
    for name in ("sort", "argsort"):
        f = {"sort": torch.sort, "argsort": torch.argsort}[name]
        each(name, lambda x, dim=-1, descending=False, stable=True,
             f=f: f(x, dim=dim, descending=descending, stable=stable),
             [cube], {"axis": 1}, {"descending": True}, {"stable": False})
    row("sort", lambda x: torch.sort(x, stable=True), whole(30, high=5))
    row("kthvalue", torch.kthvalue, cube, 2)
    row("kthvalue", torch.kthvalue, cube, 3, axis=1)
    row("kthvalue", torch.kthvalue, cube, 1, keepdim=True)
    each("topk", lambda x, k, dim=-1, largest=True, sorted=True: torch.topk(x, k, dim, largest, True), [cube, 2],
         {"axis": 1},
         {"largest": False}, {"sorted": False})
    each("unique", torch.unique, [whole(12, high=5)], {"return_inverse": True}, {"return_counts": True},
         {"sorted": False})
    each("unique_consecutive", torch.unique_consecutive, [whole(12, high=3)], {"return_inverse": True},
         {"return_counts": True})
    for name in ("unique", "unique_consecutive"):
        row(name, getattr(torch, name), whole(6, 2, high=3), axis=0, return_inverse=True, return_counts=True)
    # ---- products ----
    for a, b in (((4,), (4,)), ((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2))):
        row("matmul", torch.matmul, normal(*a), normal(*b))
    row("matmul", torch.matmul, whole(3, 4), whole(4, 5))
    row("mm", torch.mm, normal(3, 4), normal(4, 5))
    row("bmm", torch.bmm, normal(2, 3, 4), normal(2, 4, 5))
    row("dot", torch.dot, normal(4), normal(4))
    row("outer", torch.outer, normal(4), normal(3))
    for equation, *shapes in (("ij,jk->ik", (2, 3), (3, 4)), ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
                              ("ii", (3, 3)),
                              ("...i,...i->...", (2, 3), (3,)), ("i,j,k->kji", (2,), (3,), (4,))):
        row("einsum", torch.einsum, equation, [normal(*s) for s in shapes])
        row("einsum", torch.einsum, equation, *[normal(*s) for s in shapes])
    row("tensordot", torch.tensordot, normal(2, 3, 4), normal(3, 4, 5))
    row("tensordot", lambda a, b, dim: torch.tensordot(a, b, dim), normal(2, 3, 4), normal(4, 5), axes=1)
    row("tensordot", lambda a, b, a_axes, b_axes: torch.tensordot(a, b, ([a_axes], [b_axes])), normal(2, 3, 4),
        normal(3, 5),
        a_axes=1, b_axes=0)
    for name, s in (("addmm", ()), ("baddbmm", (2,))):
        each(name, getattr(torch, name), [normal(*s, 3, 5), normal(*s, 3, 4), normal(*s, 4, 5)], {"beta": 0.5},
             {"alpha": 2})
    row("linear", F.linear, normal(2, 3, 4), normal(5, 4))
    row("linear", F.linear, normal(3, 4), normal(5, 4), bias=normal(5))
    row("bilinear", F.bilinear, normal(3, 4), normal(3, 2), normal(5, 4, 2))
    row("bilinear", F.bilinear, normal(3, 4), normal(3, 2), normal(5, 4, 2), bias=normal(5))
    each("cdist", torch.cdist, [normal(2, 3, 4), normal(5, 4)], {"p": 1.0}, {"p": 3.0}, {"p": math.inf})
    q, k, v = normal(2, 4, 5, 8), normal(2, 4, 6, 8), normal(2, 4, 6, 3)

    def attention(q, k, v, mask=None, causal=False, causal_offset=0, dropout_p=0.0, scale=None):
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(causal_offset)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen if causal else mask, scale=scale)
        return y * (dropout_p < 1)
    each("scaled_dot_product_attention", attention, [q, k, v], {"mask": np.tri(5, 6, 1) > 0},
         {"mask": normal(2, 1, 5, 6)},
         {"causal": True}, {"causal": True, "causal_offset": 1}, {"dropout_p": 1.0}, {"scale": 0.3})
    # ---- convolutions and pools ----
    for n, suffix in ((1, "1d"), (2, "2d")):
        size = [7, 8][:n]

        def pair(a, b, n=n):
            return (a, b) if n == 2 else b
        x, w, b = normal(2, 4, *size), normal(6, 4, *[3] * n), normal(6)
        each("conv" + suffix, getattr(F, "conv" + suffix), [x, w], {"bias": b}, {"stride": 2}, {"padding": 1},
             {"padding": "same"},
             {"stride": pair(1, 2), "padding": "valid"}, {"dilation": pair(1, 2), "padding": pair(2, 1)})
        row("conv" + suffix, getattr(F, "conv" + suffix), x, normal(6, 2, *[3] * n), groups=2)
        row("conv" + suffix, getattr(F, "conv" + suffix), x[0], w, b)
        name = "conv_transpose" + suffix
        w = normal(4, 6, *[3] * n)
        each(name, getattr(F, name), [x, w], {"bias": b}, {"stride": 2}, {"stride": 2, "padding": 1}, {"dilation": 2},
             {"stride": 3, "output_padding": pair(2, 1)})
        row(name, getattr(F, name), x, normal(4, 3, *[3] * n), groups=2)
        each("max_pool" + suffix, getattr(F, "max_pool" + suffix), [x, 2], {"stride": 1}, {"stride": None},
             {"padding": 1},
             {"dilation": 2}, {"stride": 3, "ceil_mode": True})
        each("avg_pool" + suffix, getattr(F, "avg_pool" + suffix), [x, 2], {"stride": 1}, {"stride": None},
             {"padding": 1},
             {"stride": 3, "ceil_mode": True}, {"padding": 1, "count_include_pad": False})
        for kind in ("avg", "max"):
            row(f"adaptive_{kind}_pool{suffix}", getattr(F, f"adaptive_{kind}_pool{suffix}"), x, 3)
    each("max_pool2d_with_indices", F.max_pool2d_with_indices, [x, (2, 3)], {"stride": 1}, {"padding": 1},
         {"dilation": 2},
         {"stride": 3, "ceil_mode": True})
    row("adaptive_avg_pool2d", F.adaptive_avg_pool2d, x, (3, 2))
    row("avg_pool2d", F.avg_pool2d, x, 2, divisor_override=3)
    each("interpolate", lambda x, **more: F.interpolate(x, **more), [image], {"size": 8}, {"size": (3, 9)},
         {"scale_factor": 2.0},
         {"scale_factor": (1.5, 2.5), "mode": "bilinear"}, {"size": 9, "mode": "bilinear", "align_corners": True})
    del rows["interpolate"][0]  # one of size and scale_factor is wanted
    row("interpolate", lambda x, **more: F.interpolate(x, **more), normal(2, 3, 5), size=8, mode="linear")
    row("upsample_nearest", lambda x, size: F.interpolate(x, size), image, (8, 4))
    row("upsample_bilinear", lambda x, size: F.interpolate(x, size, mode="bilinear"), image, (8, 4))
    row("upsample_bilinear", lambda x, size, align_corners: F.interpolate(x, size, mode="bilinear", align_corners=True),
        image, 9,
        align_corners=True)
    # ---- softmax and norms ----
    row("softmax", torch.softmax, cube, 1)
    row("log_softmax", torch.log_softmax, cube, axis=-1)
    shown = np.arange(5) % 3 == np.arange(3)[:, None]  # of what is hidden as a whole PyTorch makes NaN
    each("masked_softmax", masked_softmax, [normal(3, 5), mask(3, 5) | shown], {"scale": 0.5}, {"axis": 0})
    row("masked_softmax", masked_softmax, normal(3, 5), normal(5))
    running = fixed(normal(4)), fixed(positive(4))

    def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        y = F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)
        return y, mean, var
    for shape in ((5, 4), (3, 4, 2, 2)):
        each("batch_norm", batch_norm, [normal(*shape), *running], {"weight": normal(4)}, {"bias": normal(4)},
             {"training": True},
             {"training": True, "momentum": 0.3}, {"eps": 0.1})

    def instance_norm(x, running_mean=None, running_var=None, **more):
        y = F.instance_norm(x, running_mean, running_var, **more)
        return (y,) if running_mean is None else (y, running_mean, running_var)
    each("instance_norm", instance_norm, [normal(3, 4, 5)], {"weight": normal(4)}, {"bias": normal(4)}, {"eps": 0.1},
         {"running_mean": running[0], "running_var": running[1], "momentum": 0.3},
         {"running_mean": running[0], "running_var": running[1], "use_input_stats": False})
    each("group_norm", lambda x, groups, weight=None, bias=None, eps=1e-5: F.group_norm(  # with one alone PyTorch 2.11 fails
        x, groups, torch.ones(4, dtype=x.dtype) if weight is None else weight, bias, eps), [normal(3, 4, 5), 2], {"weight": normal(4)}, {"bias": normal(4)}, {"eps": 0.1})
    each("layer_norm", lambda x, weight=None, bias=None, eps=1e-5: F.layer_norm(x, (5,), weight, bias, eps),
         [normal(3, 5)],
         {"weight": normal(5)}, {"bias": normal(5)}, {"eps": 0.1})
    row("layer_norm", lambda x, w, b: F.layer_norm(x, (4, 5), w, b), normal(3, 4, 5), normal(4, 5), normal(4, 5))
    each("rms_norm", lambda x, weight=None, eps=1e-6: F.rms_norm(x, (5,), weight, eps), [normal(3, 5) / 100],
         {"weight": normal(5)}, {"eps": 0.1})
    each("add_layer_norm", lambda x, r, weight=None, bias=None, eps=1e-5,
         use=None: (F.layer_norm(x + r, (5,), weight, bias, eps), x + r),
         [normal(3, 5), normal(3, 5)], {"weight": normal(5)}, {"bias": normal(5)}, {"eps": 0.1}, {"use": "stream"})
    each("add_rms_norm", lambda x, r, weight=None, eps=1e-6, use=None: (F.rms_norm(x + r, (5,), weight, eps), x + r),
         [normal(3, 5), normal(3, 5)], {"weight": normal(5)}, {"eps": 0.1}, {"use": "stream"})
    for name, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        def f(x, h0, *rest, name=name, **more):
            c0, weights = (rest[0], rest[1]) if name == "lstm" else (None, rest[0])
            return recurrent(name.upper(), x, h0, [w for w in weights if w is not None], c0, **more)
        weights = [normal(gates * 3, 4), normal(gates * 3, 3), normal(gates * 3), normal(gates * 3)]
        states = [normal(2, 3)] * (2 if name == "lstm" else 1)
        states = [s + 0 for s in states]
        each(name, f, [normal(5, 2, 4), *states, weights], {"lengths": np.array([3, 5])}, {"reverse": True})
        row(name, f, normal(5, 2, 4), *[s + 0 for s in states], weights[:2])
    row("rnn", lambda x, h, w, relu: recurrent("RNN", x, h, w, relu=True), normal(5, 2, 4), normal(2, 3),
        [normal(3, 4), normal(3, 3), normal(3), normal(3)], relu=True)
    # ---- losses ----
    a, b, p, t = normal(3, 5), normal(3, 5), unit(3, 5), unit(3, 5)
    ways = {"reduction": "none"}, {"reduction": "sum"}
    each("l1_loss", F.l1_loss, [a, b], *ways)
    each("mse_loss", F.mse_loss, [a, b], *ways)
    each("huber_loss", F.huber_loss, [a, b], *ways, {"delta": 0.3})
    each("smooth_l1_loss", F.smooth_l1_loss, [a, b], *ways, {"beta": 0.3})
    each("bce_with_logits", F.binary_cross_entropy_with_logits, [a, t], *ways, {"weight": fixed(positive(3, 5))},
         {"pos_weight": fixed(positive(5))})
    each("binary_cross_entropy", F.binary_cross_entropy, [p, fixed(t)], *ways, {"weight": fixed(positive(3, 5))})
    each("kl_div", lambda x, t, reduction="mean", batch_mean=False, log_target=False: F.kl_div(
        x, t, reduction="batchmean" if batch_mean else reduction, log_target=log_target), [a, t], *ways,
        {"batch_mean": True},
         {"log_target": True})
    each("gaussian_nll_loss", F.gaussian_nll_loss, [a, b, positive(3, 5)], *ways, {"full": True})
    row("gaussian_nll_loss", F.gaussian_nll_loss, a, b, positive(3, 1))
    row("gaussian_nll_loss", F.gaussian_nll_loss, a, b, positive(3, 5) / 100, eps=0.5)
    each("cosine_similarity", lambda a, b, dim=1,
         eps=1e-8: (a * b).sum(dim) / (a.norm(dim=dim).clamp(eps) * b.norm(dim=dim).clamp(eps)),
         [a, b], {"axis": 0}, {"eps": 3.0})  # PyTorch's own gradient is another one below eps
    sign = np.array([1, -1, 1])
    each("cosine_embedding_loss", F.cosine_embedding_loss, [a, b, sign], *ways, {"margin": -0.9})
    each("pairwise_distance", F.pairwise_distance, [a, b], {"p": 1.0}, {"eps": 0.1}, {"keepdim": True})
    each("triplet_margin_loss", F.triplet_margin_loss, [a, b, normal(3, 5)], *ways, {"margin": 4.0}, {"p": 1.0},
         {"eps": 0.1})
    row("triplet_margin_loss", F.triplet_margin_loss, a, b, b + np.float32(0.3), margin=4.0, swap=True)
    labels, weight = np.array([1, 4, 0]), fixed(positive(5))
    each("cross_entropy", F.cross_entropy, [a, labels], *ways, {"weight": weight}, {"ignore_index": 4},
         {"label_smoothing": 0.2})
    row("cross_entropy", F.cross_entropy, a, fixed(np.abs(b)), weight=weight)
    row("cross_entropy", F.cross_entropy, normal(2, 5, 3), whole(2, 3, high=5))
    each("nll_loss", F.nll_loss, [a, labels], *ways, {"weight": weight}, {"ignore_index": 4})

    def head(x, w, t, chunk_rows=0, recompute=False, **more):
        return F.cross_entropy(x @ w.T, t, **more)
    each("linear_cross_entropy", head, [normal(3, 4), normal(5, 4), labels], {"reduction": "sum"}, {"ignore_index": 4},
         {"label_smoothing": 0.2}, {"chunk_rows": 2}, {"recompute": True})
    row("linear_cross_entropy", lambda x, w, t, reduction: F.cross_entropy(x @ w.T, t, reduction=reduction),
        normal(3, 4), normal(5, 4),
        labels, reduction="none")
    # ---- reductions into places: behind all others, whose draws stay what they are ----
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        each("scatter_reduce", torch.scatter_reduce, [normal(5, 7), 1, whole(5, 6, high=7), normal(5, 6), kind],
             {"include_self": False})
        if kind != "sum":  # which PyTorch's has not
            each("index_reduce", torch.index_reduce, [normal(5, 7), 1, np.array([4, 0, 4, 2]), normal(5, 4), kind],
                 {"include_self": False})
    return rows


def test_each_function_has_a_row():
    pytest.importorskip("torch")
    missing = set(PUBLISHED) - set(table()) - set(ELSEWHERE)
    assert not missing and not set(table()) - set(PUBLISHED)


def names_given(function, args, options):
    """The parameters that a call gives a value."""
    names = list(inspect.signature(function).parameters)
    return {*names[:len(args)], *options}


@pytest.mark.parametrize("name", [n for n in PUBLISHED if n not in ELSEWHERE])
def test_each_argument_is_in_a_row(name):
    pytest.importorskip("torch")
    function = getattr(ct, name)
    given = set().union(*(names_given(function, args, options) for _, args, options in table()[name]))
    assert set(inspect.signature(function).parameters) - OPTIONS <= given
    required = {p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty}
    if name != "interpolate":  # of two optional ones it wants one
        assert any(names_given(function, args, options) == required for _, args,
                   options in table()[name]) or name in TWO_FORMS


TWO_FORMS = {"clamp", "split", "where", "take_along_dim", "scatter", "slice", "repeat_interleave", "flip", "roll",
             "tensordot"}
# Options that change only speed or memory, or nothing on these inputs.
WITHOUT_EFFECT = {"stable", "sorted", "chunk_rows", "recompute", "use"}


def without_effect(name, key, value):
    return key in WITHOUT_EFFECT or value is None or isinstance(value,
        str) and value == "valid" or name == "instance_norm" and (
        key.startswith("running_") or key == "momentum")  # seen in the running statistics alone


def call(function, value):
    """A result and the arguments after it, or the error's class: what two calls are told apart by."""
    try:
        return [np.asarray(y.detach().numpy()) if isinstance(y, ct.Tensor) else y for y in leaves(
            function(*value[0], **value[1]), value[0])]
    except (ct.Error, TypeError) as error:
        return [type(error)]


def same(a, b):
    return len(a) == len(b) and all(type(x) is type(y) and (
        x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        if isinstance(x, np.ndarray) else x == y) for x, y in zip(a, b))


def run(name, theirs_function, args, options, dtype):
    args, options = in_dtype(args, dtype), in_dtype(options, dtype)
    mine = [ours(mapped(np.copy, args)), ours(mapped(np.copy, options))]
    other = [theirs(args), theirs({RENAMED.get(key, key): value for key, value in options.items()})]
    result, wanted = getattr(ct, name)(*mine[0], **mine[1]), theirs_function(*other[0], **other[1])
    if name in ("batch_norm",):
        result = (result, *mine[0][1:3])
    if name == "instance_norm" and "running_mean" in options:
        result = (result, mine[1]["running_mean"], mine[1]["running_var"])
    return compare(result, wanted, mine, other, dtype, (name, options))


@pytest.mark.parametrize("name", [n for n in PUBLISHED if n not in ELSEWHERE])
def test_values_and_gradients_are_pytorchs(name):
    pytest.importorskip("torch")
    for function, args, options in table()[name]:
        for dtype in (np.float32, np.float64):
            assert run(name, function, args, options, dtype) > 0
        method = getattr(ct.Tensor, name, None)
        tensors, named = ours(mapped(np.copy, args), False), ours(mapped(np.copy, options), False)
        if method is not None and isinstance(tensors[0], ct.Tensor) and name != "where":
            again = ours(mapped(np.copy, args), False), ours(mapped(np.copy, options), False)
            assert same(call(getattr(ct, name), (tensors, named)), call(method, again)), (name, options)
        for key, value in options.items():
            if not without_effect(name, key, value):
                rest = {k: v for k, v in ours(mapped(np.copy, options), False).items() if k != key}
                results = [call(getattr(ct, name), (ours(mapped(np.copy, args), False), more)) for more in
                           (rest, {**rest, key: ours(mapped(np.copy, value), False)})]
                assert not same(*results) or name == "embedding", (name, key, "changes nothing")


def test_a_tensor_is_the_methods_first_and_the_condition_the_functions():
    x, y, m = ct.tensor([1.0, 2.0]), ct.tensor([3.0, 4.0]), ct.tensor([True, False])
    assert x.where(m, y).tolist() == ct.where(m, x, y).tolist() == [1, 4] and x.where(m, 7).tolist() == [1, 7]


# ---- beside NumPy, which is always there ---------------------------------------------------------------------------

NUMPY = {name: getattr(np, {"neg": "negative"}.get(name, name)) for name in UNARY + POSITIVE if name not in (
    "relu", "sigmoid", "erf", "erfc", "rsqrt")} | {
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc)}
NUMPY_OF_TWO = {name: getattr(np, {"sub": "subtract", "mul": "multiply", "div": "divide", "atan2": "arctan2",
                                   "pow": "power",
                                   "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
                                   "eq": "equal",
                                   "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                                   "ge": "greater_equal"}.get(name, name))
                for name in BINARY + BITS + COMPARISONS if name != "xlogy"}
NUMPY_OF_TWO["remainder"] = np.mod


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_values_of_one_are_numpys(name):
    x = np.abs(np.random.default_rng(3).normal(size=(3, 5))) + 0.5
    np.testing.assert_allclose(np.asarray(getattr(ct, name)(ct.tensor(x))), NUMPY[name](x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(NUMPY_OF_TWO))
def test_values_of_two_are_numpys_with_numbers_on_either_side(name):
    rng = np.random.default_rng(3)
    a, b = rng.integers(1, 9, (3, 5)), rng.integers(1, 4, 5)
    function, wanted = getattr(ct, name), NUMPY_OF_TWO[name]
    for x, y in ((a, b), (a, 3), (3, b)):
        if not (name in COMPARISONS and isinstance(x, int)):  # which have no such form, as in PyTorch
            result = function(*(ct.tensor(v) if isinstance(v, np.ndarray) else v for v in (x, y)))
            np.testing.assert_allclose(np.asarray(result), wanted(x, y), rtol=1e-6)
            assert result.dtype in (ct.i64, ct.f32, ct.boolean)


@pytest.mark.parametrize("name", BINARY)
def test_numbers_of_each_kind_are_pythons(name):
    function = getattr(ct, name)
    for dtype in (np.float64, np.float32, np.int64):
        x = ct.tensor(np.arange(1, 5).astype(dtype))
        numbers = [(np.float64(0.1), 0.1), (np.float32(0.5), 0.5), (np.bool_(True), True)]
        for given, plain in numbers + [(kind(3), 3) for kind in (np.int64, np.int32, np.uint8, np.int8)]:
            for a, b in ((x, given), (given, x)):
                wanted = function(*(plain if one is given else one for one in (a, b)))
                result = function(a, b)
                assert result.dtype == wanted.dtype and result.tolist() == wanted.tolist(), (name, dtype, given)
    x = np.array([1.0, 2.0])
    if name in NUMPY_OF_TWO:  # 0.1 is no number of f32
        np.testing.assert_allclose(np.asarray(function(ct.tensor(x), 0.1)), NUMPY_OF_TWO[name](x, 0.1), rtol=1e-14)
    assert function(ct.tensor([16777217]), 1).dtype in (ct.i64, ct.f32)


def test_numbers_beside_tensors_keep_their_digits():
    m, x = ct.tensor([True, False]), ct.tensor([1.0, 2.0], dtype=ct.f64)
    assert ct.where(m, x, 0.1).tolist() == [1, 0.1] and ct.where(m, 1e300, x).tolist() == [1e300, 2]
    assert ct.masked_fill(x, m, 0.1).tolist() == [0.1, 2] and ct.lerp(x, x + 1, 0.1).tolist() == [1.1, 2.1]
    assert ct.full_like(x, 0.1).tolist() == [0.1, 0.1] and ct.scalar(0.1, dtype=ct.f64).item() == 0.1
    i = ct.tensor([16777217])
    for one in (1, np.int64(1), np.int32(1)):
        assert ct.mul(i, one).tolist() == ct.maximum(one, i).tolist() == ct.maximum(i, one).tolist() == [16777217]
    assert ct.addcmul(x, x, x, value=0.1).tolist() == [1.1, 2.4] and ct.clamp(x, 1.1).tolist() == [1.1, 2]


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "any", "all", "var", "std", "cumsum",
                                  "cumprod", "argmax",
                                  "argmin", "sort", "argsort", "median"])
def test_values_along_axes_are_numpys(name):
    x = np.random.default_rng(3).normal(size=(3, 5, 7))
    more = {"ddof": 1} if name in ("var", "std") else {}
    for axis in (0, 1, 2, -1):
        result = getattr(ct, name)(ct.tensor(x), axis)
        np.testing.assert_allclose(np.asarray(result[0] if isinstance(result, tuple) else result),
                                   getattr(np, name)(x, axis=axis, **more), rtol=1e-12)


# ---- in place ------------------------------------------------------------------------------------------------------

X = np.linspace(0.25, 0.75, 12, dtype=np.float32).reshape(3, 4)
CENTRED = {"abs_", "relu_", "neg_", "tanh_", "sigmoid_", "square_", "exp_", "clamp_"}
CHANGES = {name: ((), {}) for name in IN_PLACE if name in ("neg_", "abs_", "exp_", "log_", "sqrt_", "rsqrt_", "square_",
                                                           "reciprocal_",
                                                         "tanh_", "sigmoid_", "relu_")} | {
    "clamp_": ((-0.1, 0.1), {}), "index_add_": ((1, np.array([3, 0]), X[:, :2]), {"alpha": 0.5}),
    "index_copy_": ((1, np.array([3, 0]), X[:, :2]), {}), "scatter_add_": ((1, np.array([[1], [2], [2]]), X[:, :1]),
                                                                           {}),
    "scatter_reduce_": ((1, np.array([[1], [2], [2]]), X[:, :1], "mean"), {"include_self": False}),
    "index_reduce_": ((1, np.array([3, 0]), X[:, :2], "prod"), {}),
    "scatter_": ((1, np.array([[1], [2], [2]]), X[:, :1]), {}), "masked_fill_": ((X > 0.5, 0.5), {}),
    "masked_scatter_": ((X > 0.5, X[::-1].copy()), {})}
METHODS_IN_PLACE = {"add_": ((X,), {}), "sub_": ((X[0],), {}), "mul_": ((2.5,), {}), "div_": ((X,), {}),
                    "fill_": ((1.5,), {}),
                    "zero_": ((), {}), "copy_": ((X[::-1].copy(),), {})}


def test_each_function_in_place_is_tested():
    assert set(IN_PLACE) == set(CHANGES) | {"uniform_", "normal_", "exponential_"}


@pytest.mark.parametrize("name", [*CHANGES, *METHODS_IN_PLACE])
def test_in_place_changes_the_object_and_its_base_and_has_the_gradient(name):
    torch = pytest.importorskip("torch")
    args, options = {**CHANGES, **METHODS_IN_PLACE}[name]
    start = X - np.float32(0.5) if name in CENTRED else X
    their_function = getattr(torch.Tensor, name) if name != "square_" else lambda x: x.pow_(2)
    for function in [getattr(ct.Tensor, name)] + ([getattr(ct, name)] if name in CHANGES else []):
        leaf, other_leaf, mine, yours = ours(start), theirs(start), ours(args), theirs(args)
        x, other = leaf * 1, other_leaf * 1
        assert function(x, *mine, **options) is x
        their_function(other, *yours, **options)
        assert compare(x, other, [leaf, *mine], [other_leaf, *yours], what=name) >= 2
        base = ct.tensor(np.stack([start, start]))
        row = base[1]
        assert function(row, *ours(args, False), **options) is row and row.tolist() == base[1].tolist() == x.tolist()
        assert base[0].tolist() == start.tolist() != row.tolist()
    with pytest.raises(ct.AutogradError, match="requires"):
        function(ours(start), *ours(args), **options)
    with pytest.raises(TypeError, match=name):  # an array is no tensor to write into
        function(start, *ours(args, False), **options)


@pytest.mark.parametrize("name, args, low, high", [("uniform_", (2.0, 3.0), 2.0, 3.0),
                                                   ("normal_", (5.0, 0.1), 4.0, 6.0),
                                                   ("exponential_", (), 0.0, 30.0)])
def test_draws_in_place(name, args, low, high):
    x = ct.zeros(2, 500)
    row = x[1]
    assert list(inspect.signature(getattr(ct, name)).parameters)[1:-1] == {"uniform_": ["low", "high"],
                                                                           "normal_": ["mean", "std"]}.get(
        name, ["rate"])
    ct.manual_seed(3)
    assert getattr(ct, name)(row, *args) is row and x[0].tolist() == [0] * 500
    assert low <= row.min().item() < row.max().item() < high and row.tolist() == x[1].tolist()
    again = ct.zeros(500)
    ct.manual_seed(3)
    assert getattr(again, name)(*args).tolist() == row.tolist()
    assert getattr(again, name)(*args).tolist() != row.tolist()
    if name == "exponential_":
        assert 0.15 < ct.zeros(2000).exponential_(rate=5.0).mean().item() < 0.25
    if hasattr(ct, "Generator"):
        drawn = [getattr(ct.zeros(500), name)(*args, generator=ct.Generator(seed)).tolist() for seed in (7, 7, 8)]
        assert drawn[0] == drawn[1] != drawn[2]


# ---- tensors that are made -----------------------------------------------------------------------------------------

def made():
    """name -> (arguments, the array)"""
    yield "zeros", ((2, 3),), np.zeros((2, 3), np.float32)
    yield "zeros", (2, 3), np.zeros((2, 3), np.float32)
    yield "zeros", ([2, 3],), np.zeros((2, 3), np.float32)
    yield "zeros", (4,), np.zeros(4, np.float32)
    yield "zeros", ((),), np.zeros((), np.float32)
    yield "ones", (2, 3), np.ones((2, 3), np.float32)
    yield "full", ((2, 3), 1.5), np.full((2, 3), 1.5, np.float32)
    yield "full", (3, 2), np.full(3, 2)
    yield "full", ((2,), True), np.full(2, True)
    yield "scalar", (1.5,), np.asarray(1.5, np.float32)
    yield "scalar", (2 ** 62 + 1,), np.asarray(2 ** 62 + 1)
    yield "eye", (3,), np.eye(3, dtype=np.float32)
    yield "eye", (2, 4), np.eye(2, 4, dtype=np.float32)
    yield "arange", (5,), np.arange(5)
    yield "arange", (2, 5), np.arange(2, 5)
    yield "arange", (8, 2, -2), np.arange(8, 2, -2)
    yield "arange", (0.0, 1.0, 0.25), np.arange(0, 1, 0.25, np.float32)
    yield "arange", (1.5,), np.arange(1.5, dtype=np.float32)
    yield "linspace", (-1.0, 1.0, 5), np.linspace(-1, 1, 5, dtype=np.float32)
    yield "linspace", (0, 1, 1), np.linspace(0, 1, 1, dtype=np.float32)


@pytest.mark.parametrize("name, args, wanted", list(made()))
def test_made_tensors_have_values_dtype_and_options(name, args, wanted):
    function = getattr(ct, name)
    x = function(*args)
    assert np.asarray(x).dtype == wanted.dtype and x.shape == wanted.shape and not x.requires_grad and x.device == "cpu"
    np.testing.assert_allclose(np.asarray(x), wanted, rtol=1e-6)
    options = dict(dtype=ct.f64, device="cpu", requires_grad=True)
    y = function(*args, **options)
    assert y.dtype == ct.f64 and y.requires_grad and y.is_leaf
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-6)
    assert function(*args, dtype=None).dtype == x.dtype and function(*args, dtype=ct.f32).dtype == ct.f32
    with pytest.raises(ct.DTypeError):
        function(*args, dtype=ct.i64, requires_grad=True)
    with pytest.raises(ct.Error):
        function(*args, device="cuda:99")


def test_made_without_values_and_like_others():
    assert ct.empty(2, 3).shape == (2, 3) and ct.empty((4,), dtype=ct.u8, device="cpu").dtype == ct.u8
    assert ct.empty(2, requires_grad=True).requires_grad
    like = ct.ones(2, 3, dtype=ct.f64, requires_grad=True)
    for name in ("empty_like", "zeros_like", "ones_like", "rand_like", "randn_like"):
        x = getattr(ct, name)(like)
        assert x.shape == (2, 3) and x.dtype == ct.f64 and not x.requires_grad and x.device == "cpu"


# ---- draws ---------------------------------------------------------------------------------------------------------

P = np.full(2000, 0.3, np.float32)
DRAWS = [  # the call, the mean and the variance of what it gives
    ("rand", (2000,), {}, 1 / 2, 1 / 12), ("rand", (20, 100), {"dtype": ct.f64}, 1 / 2, 1 / 12),
    ("randn", ((20, 100),), {}, 0, 1), ("rand_like", (ct.zeros(2000),), {}, 1 / 2, 1 / 12),
    ("randn_like", (ct.zeros(2000),), {}, 0, 1), ("randint", (2, 6, 2000), {}, 3.5, 1.25),
    ("randint", (0, 2, (2, 1000)), {"dtype": ct.f32}, 0.5, 0.25), ("randperm", (2000,), {}, 999.5, 333333.25),
    ("randperm", (100,), {"dtype": ct.i32}, 49.5, 833.25), ("bernoulli", (P,), {}, 0.3, 0.21),
    ("normal", (P, P), {}, 0.3, 0.09),
    ("dropout", (P, 0.5), {}, 0.3, 0.09), ("multinomial", (np.array([1, 0, 3], np.float32), 2000),
                                           {"replacement": True}, 1.5, 0.75),
    ("multinomial", (np.ones(2000, np.float32), 2000), {}, 999.5, 333333.25),
    ("sample_logits", (np.zeros((2000, 4), np.float32),), {}, 1.5, 1.25),
    ("sample_logits", (np.tile(np.array([0, 0, 1, 9], np.float32), (500, 1)),), {"temperature": 0.0}, 3, 0),
    ("sample_logits", (np.tile(np.array([0, 1, 1, -9], np.float32), (2000, 1)),), {"top_k": 2}, 1.5, 0.25),
    ("sample_logits", (np.tile(np.array([0, 9, 9, -9], np.float32), (2000, 1)),), {"top_p": 0.9}, 1.5, 0.25)]


@pytest.mark.parametrize("name, args, options, mean, variance", DRAWS)
def test_draws_have_their_moments_and_come_again_from_a_seed(name, args, options, mean, variance):
    def draw(**more):
        return getattr(ct, name)(*(ct.tensor(a) if isinstance(a, np.ndarray) else a for a in args), **options, **more)

    ct.manual_seed(5)
    first, second = draw(), draw()
    ct.manual_seed(5)
    assert draw().tolist() == first.tolist() and (variance == 0 or first.tolist() != second.tolist())
    both = np.asarray(first).ravel().astype(float), np.asarray(second).ravel().astype(float)
    x = np.concatenate(both)
    assert abs(x.mean() - mean) <= 4 * math.sqrt(variance / len(x)) and abs(x.var() - variance) <= 0.15 * variance
    assert first.dtype == options.get("dtype", first.dtype)
    if hasattr(ct, "Generator"):
        drawn = [draw(generator=g).tolist() for g in (ct.Generator(7), ct.Generator(7), ct.Generator(8), None)]
        assert drawn[0] == drawn[1] and (variance == 0 or drawn[0] != drawn[2] and drawn[0] != drawn[3])


def test_draws_have_gradients_where_they_depend():
    mean, std = ct.zeros(3, requires_grad=True), ct.ones(3, requires_grad=True)
    y = ct.normal(mean, std)
    y.sum().backward()
    assert mean.grad.tolist() == [1, 1, 1] and np.allclose(std.grad.numpy(), y.detach().numpy())
    x = ct.ones(400, requires_grad=True)
    y = ct.dropout(x, 0.25)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist() and set(y.tolist()) == {0.0, np.float32(1 / 0.75)}
    assert ct.dropout(x, 0.25, training=False).tolist() == ct.dropout(x, 0.0).tolist() == [1] * 400
    assert ct.dropout(x, 1.0).tolist() == [0] * 400
    with pytest.raises(ct.ValueError, match=r"\[dropout\]"):
        ct.dropout(x, 1.5)


# ---- views ---------------------------------------------------------------------------------------------------------

VIEWS = {"reshape": (6, 4), "view": (6, 4), "flatten": (), "transpose": (0, 1), "permute": ((2, 1, 0),),
         "unsqueeze": (0,),
         "movedim": (0, 2), "narrow": (1, 1, 2), "slice": (1, 1), "select": (0, 1), "swapaxes": (0, 1), "diagonal": (),
         "unfold": (2, 2, 2), "unflatten": (2, (2, 2)), "squeeze": (), "view_as": (ct.zeros(4, 6),),
         "reshape_as": (ct.zeros(4, 6),),
         "split": (1,), "chunk": (2,), "unbind": (), "contiguous": (), "expand": (2, 3, 4),
         "expand_as": (ct.zeros(2, 3, 4),)}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name):
    base = ct.zeros(2, 3, 4)
    made = getattr(ct, name)(base, *VIEWS[name])
    (made[0] if isinstance(made, tuple) else made).fill_(1)
    assert base.sum().item() == (made[0] if isinstance(made, tuple) else made).sum().item() > 0


def test_views_of_matrices_share_memory_and_copies_do_not():
    base = ct.zeros(3, 3)
    ct.diag(base).fill_(1)
    ct.t(base)[0].fill_(2)
    assert base.tolist() == [[2, 0, 0], [2, 1, 0], [2, 0, 1]]
    ct.clone(base).fill_(5)
    assert base.sum().item() == 8
