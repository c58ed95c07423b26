"""Ops: that each is there, and computes what PyTorch's does, with its gradient."""
import inspect

import numpy as np
import pytest

import cotangent as ct


def test_each_op_of_the_registry_is_a_function_with_a_text():
    for op in ct.registry():
        function = getattr(ct.ops, op.name)
        assert function.__doc__.startswith(op.formula)
        names = list(inspect.signature(function).parameters)
        assert names[:len(op.inputs)] == [record["name"] for record in op.inputs]
        assert hasattr(ct, op.name)


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def positive(*shape):
    return np.abs(normal(*shape)) + 0.5


def cases():
    import torch
    from torch.nn import functional as F
    unary = ("exp", "sin", "cos", "tan", "tanh", "sigmoid", "relu", "abs", "erf", "erfc", "expm1", "square", "neg",
             "atan", "sinh", "cosh", "asinh", "floor", "ceil", "trunc", "sign", "exp2")
    for name in unary:
        yield name, getattr(ct, name), getattr(torch, name), [normal(3, 5)]
    for name in ("silu", "mish", "selu", "hardswish", "hardsigmoid", "softsign", "logsigmoid", "elu", "gelu"):
        yield name, getattr(ct, name) if name != "elu" else lambda x: ct.elu(x, p=1.0), getattr(F, name), [normal(3, 5)]
    for name in ("log", "sqrt", "rsqrt", "log2", "log10", "log1p", "reciprocal"):
        yield name, getattr(ct, name), getattr(torch, name), [positive(3, 5)]
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot", "fmod"):
        yield name, getattr(ct, name), getattr(torch, name), [normal(3, 5), positive(5)]
    yield "pow", ct.pow, torch.pow, [positive(3, 5), normal(5)]
    yield "operators", *[lambda a, b: 2 - a * b / 3 + a ** 2 - -b] * 2, [normal(4), normal(4)]
    yield "numbers", lambda a: ct.mul(a, 0.5) + ct.sub(2, a), lambda a: a * 0.5 + (2 - a), [normal(4)]
    yield "matmul", lambda a, b: a @ b, torch.matmul, [normal(2, 3, 4), normal(4, 5)]
    yield "linear", ct.linear, F.linear, [normal(3, 4), normal(5, 4), normal(5)]
    yield "softmax", lambda x: ct.softmax(x, axis=1), lambda x: torch.softmax(x, 1), [normal(3, 5)]
    yield "log_softmax", lambda x: x.log_softmax(-1), lambda x: torch.log_softmax(x, -1), [normal(3, 5)]
    for name in ("sum", "mean", "amax", "logsumexp", "var", "std"):
        f, g = getattr(ct, name), getattr(torch, name)
        yield name, lambda x, f=f: f(x, axes=1), lambda x, g=g: g(x, dim=1), [normal(3, 5)]
    yield "cumsum", lambda x: ct.cumsum(x, axis=1), lambda x: torch.cumsum(x, 1), [normal(3, 5)]
    yield "layer_norm", ct.layer_norm, lambda x, w, b: F.layer_norm(x, (5,), w, b), [normal(3, 5), normal(5), normal(5)]
    yield "rms_norm", ct.ops.rms_norm, lambda x, w: F.rms_norm(x, (5,), w, eps=1e-6), [normal(3, 5) / 1000, normal(5)]
    yield "diagonal", ct.diagonal, lambda x: torch.diagonal(x, 0, -2, -1), [normal(3, 4, 5)]
    yield "conv2d", lambda x, w, b: ct.conv2d(x, w, b, stride=(1, 2), padding=1), \
        lambda x, w, b: F.conv2d(x, w, b, stride=(1, 2), padding=1), [normal(2, 3, 7, 8), normal(4, 3, 3, 3), normal(4)]
    yield "max_pool2d", lambda x: ct.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2), [normal(2, 3, 6, 6)]
    yield "avg_pool2d", lambda x: ct.avg_pool2d(x, 3, stride=2, padding=1), \
        lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), [normal(2, 3, 6, 6)]
    yield "attention", lambda q, k, v: ct.scaled_dot_product_attention(q, k, v, causal=True), \
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), \
        [normal(2, 2, 5, 8), normal(2, 2, 5, 8) + 1, normal(2, 2, 5, 8)]
    yield "mse_loss", ct.mse_loss, F.mse_loss, [normal(3, 5), positive(3, 5)]
    yield "where", lambda a, b: ct.where(a > 0, a, b), lambda a, b: torch.where(a > 0, a, b), [normal(9), positive(9)]
    yield "cat", lambda a, b: ct.cat([a, b], axis=1), lambda a, b: torch.cat([a, b], 1), [normal(2, 3), normal(2, 2)]
    yield "index", lambda x: x[1:, ..., None, 0], lambda x: x[1:, ..., None, 0], [normal(3, 4, 5)]
    yield "clamp", lambda x: ct.clamp(x, -0.5), lambda x: torch.clamp(x, -0.5), [normal(9)]
    labels = np.array([1, 4, 0])
    yield "cross_entropy", lambda x: ct.cross_entropy(x, ct.tensor(labels), label_smoothing=0.1), \
        lambda x: F.cross_entropy(x, torch.tensor(labels), label_smoothing=0.1), [normal(3, 5)]


def test_ops_and_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    checked = 0
    for name, ours, theirs, arrays in cases():
        a = [ct.tensor(x, requires_grad=True) for x in arrays]
        b = [torch.tensor(x, requires_grad=True) for x in arrays]
        y, z = ours(*a), theirs(*b)
        assert np.allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-4, atol=1e-5), name
        weight = normal(*z.shape)
        (y * ct.tensor(weight)).sum().backward()
        (z * torch.tensor(weight)).sum().backward()
        for i, (g, h) in enumerate(zip(a, b)):
            assert np.allclose(g.grad.numpy(), h.grad.numpy(), rtol=1e-3, atol=1e-5), (name, i)
        checked += 1
    assert checked > 60


def test_gradients_of_gradients():
    x = ct.tensor([2.0], requires_grad=True)
    (first,) = ct.grad([x ** 3], [x], create_graph=True)
    (second,) = ct.grad([first], [x])
    assert first.item() == 12 and second.item() == 12


def test_arrays_and_names_stand_for_inputs():
    a = np.ones((2, 3), np.float32)
    assert ct.add(a, b=a).tolist() == [[2] * 3] * 2
    assert ct.ops.sum(x=a, axes=[0], keepdim=True).shape == (1, 3) and ct.ops.sum(a, axes=[0]).shape == (3,)
    assert ct.tensor([0.5], dtype=ct.f64).add(0.1).item() == 0.6


def test_draws_are_seeded():
    ct.manual_seed(3)
    a = ct.dropout(ct.ones(100)).tolist()
    b = ct.dropout(ct.ones(100)).tolist()
    ct.manual_seed(3)
    assert ct.dropout(ct.ones(100)).tolist() == a != b


BAD = [
    (lambda: ct.add(ct.ones(2), "text"), TypeError, r"\[add\] b is a str"),
    (lambda: ct.add(ct.ones(2)), TypeError, r"\[add\] missing a required argument: 'b'"),
    (lambda: ct.add(ct.ones(2), ct.ones(2), ct.ones(2), 1, 2), TypeError, "too many"),
    (lambda: ct.add(ct.ones(2), ct.ones(3)), ct.ShapeError, r"\[add\]"),
    (lambda: ct.matmul(ct.ones(2, 3), ct.ones(2, 3)), ct.ShapeError, "inner dimensions"),
    (lambda: ct.softmax(ct.ones(2)), TypeError, "axis"),
    (lambda: ct.softmax(ct.ones(2), axis="0"), TypeError, "axis is a str; an int is wanted"),
    (lambda: ct.softmax(ct.ones(2), axis=5), ct.ShapeError, "axis"),
    (lambda: ct.softmax(ct.ones(2), axis=2 ** 70), ct.ValueError, "64 bits"),
    (lambda: ct.ops.softmax(ct.ones(2), axis=0, wrong=1), TypeError, "wrong"),
    (lambda: ct.exp(ct.ones(2, dtype=ct.i32), 3, 4, 5), TypeError, "too many"),
    (lambda: ct.mse_loss(ct.ones(2), ct.ones(2), reduction="most"), ct.ValueError, "none mean sum"),
    (lambda: ct.conv2d(ct.ones(1, 1, 3, 3), ct.ones(1, 1, 3, 3), stride=(1, 2, 3)), ct.ValueError, "pair"),
    (lambda: ct.exp(None), ct.Error, "undefined"),
    (lambda: ct.ones(2)[5], IndexError, "out of range"),
    (lambda: ct.ones(2)["a"], TypeError, "index"),
    (lambda: ct.ones(2)[::-1], ct.Error, "step"),
    (lambda: ct.ones(2) + object(), TypeError, "unsupported operand"),
    (lambda: ct.zeros("x"), TypeError, "shape"),
    (lambda: ct.zeros(2, dtype="f32"), TypeError, "dtype"),
    (lambda: ct.zeros(2, colour="red"), TypeError, "colour"),
    (lambda: ct.zeros(-1), ct.ShapeError, "-1"),
    (lambda: ct.ones(2).backward(), ct.AutogradError, "require"),
    (lambda: ct.registry()[0]([], {}), ct.ValueError, "missing|inputs"),
    (lambda: ct.load_library("/nowhere/op.so"), OSError, "load_library"),
]


@pytest.mark.parametrize("call, error, words", BAD)
def test_bad_calls_say_what_is_wanted_and_the_next_one_works(call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert ct.add(ct.ones(2), 1).tolist() == [2, 2]
