"""Writes second_order.npz: first derivatives, Hessian-vector products and third derivatives of every op by PyTorch in
f64, for tests/second_order_golden_test.cpp.

    python3 make_second_order.py [second_order.npz]

Made with PyTorch 2.11.0 on the CPU. Inputs are ratios of small integers by a formula that the test repeats; only results
are stored, as CASE.gI, CASE.hI and CASE.tI for input I: with y the op's results, w, v and u fixed numbers,

    L = sum(w (y + y^2 / 2)),   g = dL/dx,   h = d(sum v g)/dx,   t = d(sum u h)/dx
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def numbers(shape, seed):
    n = int(np.prod(shape))
    values = [((i * 7919 + seed * 104729 + 13) % 2003 - 1001) / 512 for i in range(n)]
    return torch.tensor(values).reshape(shape)


results = {}


def case(name, function, *shapes, positive=False):
    xs = [numbers(s, 11 + i) for i, s in enumerate(shapes)]
    if positive:
        xs = [x / 4 + 1.5 for x in xs]
    for x in xs:
        x.requires_grad_()
    ys = function(*xs)
    ys = ys if isinstance(ys, (tuple, list)) else [ys]
    loss = sum((numbers(y.shape, 31 + k) * (y + y * y / 2)).sum() for k, y in enumerate(ys))

    def derivatives(of, weights_seed, letter, create):
        if of is None or not of.requires_grad:
            grads = [None] * len(xs)
        else:
            grads = torch.autograd.grad(of, xs, create_graph=create, allow_unused=True)
        grads = [torch.zeros_like(x) if g is None else g for x, g in zip(xs, grads)]
        for i, g in enumerate(grads):
            results[f"{name}.{letter}{i}"] = g.detach().contiguous().numpy(force=True)
        return sum((numbers(x.shape, weights_seed + i) * g).sum() for i, (x, g) in enumerate(zip(xs, grads)))

    of = derivatives(loss, 51, "g", True)
    of = derivatives(of, 71, "h", True)
    derivatives(of, 91, "t", False)


m = (3, 4)
case("neg", lambda x: -x, m)
case("abs", torch.abs, m)
case("sign", torch.sign, m)
case("exp", torch.exp, m)
case("log", torch.log, m, positive=True)
case("sqrt", torch.sqrt, m, positive=True)
case("rsqrt", torch.rsqrt, m, positive=True)
case("square", torch.square, m)
case("cube", lambda x: x**3, m)
case("reciprocal", torch.reciprocal, m, positive=True)
case("sin", torch.sin, m)
case("cos", torch.cos, m)
case("tanh", torch.tanh, m)
case("sigmoid", torch.sigmoid, m)
case("relu", torch.relu, m)
case("leaky_relu", lambda x: F.leaky_relu(x, 0.1), m)
case("gelu", F.gelu, m)
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), m)
case("silu", F.silu, m)
case("softplus", lambda x: F.softplus(x, 1.5, 20), m)
case("erf", torch.erf, m)
case("clamp", lambda x: x.clamp(-0.5, 0.75), m)

case("add", lambda a, b: a + b, m, (4,))
case("add_scaled", lambda a, b: torch.add(a, b, alpha=2.5), m, (3, 1))
case("sub", lambda a, b: a - b, m, (4,))
case("mul", lambda a, b: a * b, m, (4,))
case("div", lambda a, b: a / b, m, (4,), positive=True)
case("pow", torch.pow, m, (4,), positive=True)
case("maximum", torch.maximum, m, (4,))
case("minimum", torch.minimum, m, (4,))
case("add_scalar", lambda x: x + 2.5, m)
case("rsub_scalar", lambda x: 2.5 - x, m)
case("mul_scalar", lambda x: x * 2.5, m)
case("div_scalar", lambda x: x / 2.5, m)
case("rdiv_scalar", lambda x: 2.5 / x, m, positive=True)
case("pow_scalar", lambda x: x**2.5, m, positive=True)
case("rpow_scalar", lambda x: 2.5**x, m)
case("maximum_scalar", lambda x: x.clamp(min=0.25), m)
case("minimum_scalar", lambda x: x.clamp(max=0.25), m)
case("where", lambda a, b: torch.where(a > b, a * a, b), m, (4,))
case("where_scalar", lambda a: torch.where(a > 0, a * a, 0.5), m)

case("view", lambda x: x.view(2, 6), m)
case("permute", lambda x: x.permute(2, 0, 1), (2, 3, 4))
case("slice", lambda x: x[:, 1:8:3], (2, 9))
case("select", lambda x: x.select(1, 2), (2, 3, 4))
case("unbind", lambda x: torch.unbind(x, 1), (4, 3))
case("expand", lambda x: x.expand(3, 4), (3, 1))
case("squeeze", lambda x: x.squeeze(1), (3, 1, 2))
case("unsqueeze", lambda x: x.unsqueeze(1), m)
case("copy", lambda x: x.clone(), m)
case("assign", lambda x, z: (x * 2).copy_(z), m, m)
case("fill", lambda x: (x * 2).fill_(0.5) + x, m)
case("concat", lambda a, b: torch.cat([a, b], 1), (2, 3), (2, 2))
case("stack", lambda a, b: torch.stack([a, b], 1), m, m)

case("sum", lambda x: x.sum((0, 2)), (2, 3, 4))
case("mean", lambda x: x.mean(1, keepdim=True), m)
case("prod", lambda x: x.prod(1), m)


def prod_zeros(x):
    mask = torch.ones_like(x)
    mask[0, 1] = mask[1, 0] = mask[1, 2] = 0
    return (x * mask).prod(1)


case("prod_zeros", prod_zeros, m)
case("amax", lambda x: x.amax(1), m)
case("amin", lambda x: x.amin((0, 1)), m)
case("max", lambda x: x.max(1).values, m)
case("min", lambda x: x.min(0).values, m)
case("var", lambda x: x.var(1), m)
case("std", lambda x: x.std(1), m)
case("norm1", lambda x: torch.linalg.vector_norm(x, 1, dim=1), m)
case("norm2", lambda x: torch.linalg.vector_norm(x, 2, dim=1), m)
case("norm3", lambda x: torch.linalg.vector_norm(x, 3, dim=1), m)
case("norminf", lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1), m)
case("logsumexp", lambda x: x.logsumexp(1), m)

case("matmul", torch.matmul, (3, 4), (4, 2))
case("matmul_vectors", torch.matmul, (4,), (4,))
case("matmul_row", torch.matmul, (4,), (2, 4, 3))
case("matmul_column", torch.matmul, (2, 3, 4), (4,))
case("matmul_stacks", torch.matmul, (2, 1, 3, 4), (3, 4, 2))
case("linear", F.linear, (2, 3, 4), (5, 4), (5,))
index = torch.tensor([[0, 2, 1], [2, 2, 4]])
case("embedding", lambda w: F.embedding(index, w), (5, 3))
case("embedding_padding", lambda w: F.embedding(index, w, padding_idx=2), (5, 3))
case("softmax", lambda x: x.softmax(1), (2, 3, 4))
case("log_softmax", lambda x: x.log_softmax(-1), m)
mask = torch.tensor([[True, False, True, True], [True, True, True, False], [False, True, True, True]])
case("masked_softmax", lambda x: (x * 0.5).masked_fill(~mask, -float("inf")).softmax(-1), m)
case("masked_softmax_additive", lambda x, z: (x * 0.5 + z).softmax(-1), m, (4,))


def layer_norm(x, w, b):
    # By its parts: F.layer_norm takes its statistics for constants from the third derivative on.
    d = x - x.mean(-1, keepdim=True)
    return d * ((d * d).mean(-1, keepdim=True) + 1e-3).rsqrt() * w + b


case("layer_norm", layer_norm, m, (4,), (4,))
case("rms_norm", lambda x, w: F.rms_norm(x, (4,), w, 1e-3), m, (4,))


def add_layer_norm(x, r, w, b):
    s = x + r
    return layer_norm(s, w, b), s


def add_rms_norm(x, r, w):
    s = x + r
    return F.rms_norm(s, (4,), w, 1e-3), s


case("add_layer_norm", add_layer_norm, m, m, (4,), (4,))
case("add_rms_norm", add_rms_norm, m, m, (4,))
case("swiglu", lambda a, b: F.silu(a) * b, m, m)
case("geglu", lambda a, b: F.gelu(a) * b, m, m)
case("geglu_tanh", lambda a, b: F.gelu(a, approximate="tanh") * b, m, m)


def rotary(x):  # neighbours are pairs
    length, dim = x.shape[-2:]
    t = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2) / dim)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()], -1).flatten(-2)


case("rotary_embedding", rotary, (2, 3, 4))


def attention(q, k, v, z):
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    s = q @ k.transpose(-1, -2) * 0.5 + z
    s = s.masked_fill(torch.arange(4) > torch.arange(3)[:, None] + 1, -float("inf"))
    return s.softmax(-1) @ v


case("attention", attention, (1, 2, 3, 2), (1, 1, 4, 2), (1, 1, 4, 3), (3, 4))
case("topk", lambda x: x.topk(2, 1).values, (3, 5))

labels = torch.tensor([2, 0, 3])
some = torch.tensor([2, -100, 3])
weight = torch.tensor([0.5, 1.0, 2.0, 0.25])
for reduction in ("none", "mean", "sum"):
    case(f"mse_{reduction}", lambda x, t: F.mse_loss(x, t, reduction=reduction), m, m)
    case(
        f"bce_{reduction}",
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, weight, reduction=reduction, pos_weight=2 * weight),
        m,
        m,
    )
    case(f"nll_{reduction}", lambda x: F.nll_loss(x, some, weight, reduction=reduction), m)
    case(
        f"cross_entropy_{reduction}",
        lambda x: F.cross_entropy(x, some, weight, reduction=reduction, label_smoothing=0.1),
        m,
    )
    case(
        f"cross_entropy_soft_{reduction}",
        lambda x, t: F.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=0.1),
        m,
        m,
    )
    case(
        f"linear_cross_entropy_{reduction}",
        lambda x, w: F.cross_entropy(x @ w.t(), some, reduction=reduction, label_smoothing=0.1),
        (3, 2),
        (4, 2),
    )

np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "second_order.npz", **results)
print(len(results), "arrays")
