"""PyTorch's side of the rows of single ops on the CPU: C1, products, and C5, what the memory limits."""
import functools

import torch
import torch.nn.functional as F

aten = torch.ops.aten


@functools.cache
def numbers():
    return torch.randn(1 << 24)


# A call from Python costs 0.9 us before it computes, one from a loop that TorchScript runs 0.4 us (mm of 1 x 1 with out=,
# on an AMD EPYC). So much of the smallest products' times is not the product's; it is a C++ program's cost of a call too.
@torch.jit.script
def products(a, b, y, n: int):
    for _ in range(n):
        torch.mm(a, b, out=y)


@torch.no_grad()
def product(median_of, m, k, n, form):
    a = torch.randn(k, m).t() if form[0] == "T" else torch.randn(m, k)
    b = torch.randn(n, k).t() if form[1] == "T" else torch.randn(k, n)
    y, repeat = torch.empty(m, n), max(1, 10**7 // (m * k * n))
    return median_of(lambda: products(a, b, y, repeat), 1, 0.05, 2) / repeat


ELEMENTWISE = {"exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "erf": torch.erf, "gelu": aten.gelu.out,
               "sigmoid": torch.sigmoid}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@torch.no_grad()
def elementwise(median_of, f, dtype):
    x = numbers().abs().to(dtype)
    y = torch.empty_like(x)
    return median_of(lambda: f(x, out=y), 1, 0.1)


def on_rows(median_of, name, part, dtype):
    x, weight = numbers()[: 4096 * 1024].view(4096, 1024).clone().to(dtype), torch.ones(1024, dtype=dtype)
    labels = torch.randint(0, 1024, (4096,))
    inputs = [x, weight, weight.clone()] if name == "layer_norm" else [x]
    y = torch.empty_like(x)
    forward = {"sum": lambda: torch.sum(x),
               "softmax": lambda: aten._softmax.out(x, -1, False, out=y),
               "layer_norm": lambda: F.layer_norm(x, (1024,), *inputs[1:]),
               "cross_entropy": lambda: F.cross_entropy(x, labels)}[name]
    if part == "fwd":
        with torch.no_grad():
            return median_of(forward, 1, 0.1)
    for t in inputs:
        t.requires_grad_()
    y = torch.softmax(x, -1) if name == "softmax" else forward()
    g = torch.randn_like(y)
    return median_of(lambda: torch.autograd.grad(y, inputs, g, retain_graph=True), 1, 0.1)


def register(row, median_of):
    for m, k, n in ((64, 64, 64), (128, 128, 128), (256, 256, 256), (64, 784, 256), (64, 256, 10), (784, 64, 256),
                    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048)):
        for form in ("NN", "NT", "TN"):
            row(f"C1/{m}x{k}x{n}_{form}")(lambda m=m, k=k, n=n, form=form: product(median_of, m, k, n, form))
    for dtype_name, dtype in DTYPES.items():
        for name, f in ELEMENTWISE.items():
            row(f"C5/{name}_2^24_{dtype_name}")(lambda f=f, dtype=dtype: elementwise(median_of, f, dtype))
        for name in ("sum", "softmax", "layer_norm", "cross_entropy"):
            for part in ("fwd", "bwd"):
                row(f"C5/{name}_{part}_4096x1024_{dtype_name}")(
                    lambda name=name, part=part, dtype=dtype: on_rows(median_of, name, part, dtype))
