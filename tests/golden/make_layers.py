"""Writes layers.npz: results of PyTorch's attention and transformer layers, for nn/layers_golden_test.cpp.

    python3 make_layers.py [layers.npz]

Made with PyTorch 2.11.0 on the CPU, in f64. Parameters and inputs are ratios of small integers by a formula that the
test repeats; only results are stored: CASE.out, CASE.weights where they are asked for, and CASE.grad: the gradients of
a weighted sum of the output, of the inputs and then of all parameters, one after the other.
"""

import sys

import numpy as np
import torch
from torch import nn

E, H, B, TQ, TK = 12, 3, 2, 5, 7


def values(shape, k, unit):
    n = int(np.prod(shape))
    v = [((i * 271 + k * 97 + 13) % 401 - 200) / unit for i in range(n)]
    return torch.tensor(v, dtype=torch.float64).reshape(shape)


def fill(module):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(values(p.shape, k, 512))
    return module.double()


def inputs(*shapes):
    return [values(s, 50 + k, 128).requires_grad_() for k, s in enumerate(shapes)]


def result(out, name, module, xs, y, weights=None):
    (y * values(y.shape, 90, 128)).sum().backward()
    out[f"{name}.out"] = y.detach().numpy()
    if weights is not None:
        out[f"{name}.weights"] = weights.detach().numpy()
    grads = [x.grad for x in xs] + [p.grad for p in module.parameters()]
    out[f"{name}.grad"] = torch.cat([g.flatten() for g in grads]).numpy().astype(np.float32)


def main():
    out = {}
    padding = torch.zeros(B, TK, dtype=torch.bool)
    padding[0, 5:] = padding[1, :2] = True
    hide = torch.zeros(TQ, TK, dtype=torch.bool)
    hide[1, 3] = hide[4, 6] = hide[0, 4] = True
    added = values((B * H, TQ, TK), 70, 64)
    future = torch.triu(torch.ones(TQ, TQ, dtype=torch.bool), 1)

    def mha(name, xs, arguments=lambda xs: xs, forward={}, **options):
        m = fill(nn.MultiheadAttention(E, H, **options)).eval()
        y, w = m(*arguments(xs), **forward)
        result(out, name, m, xs, y, w)

    one = lambda xs: xs * 3
    mha("self", inputs((TK, B, E)), one, {"key_padding_mask": padding})
    mha("first", inputs((B, TQ, E), (B, TK, E)), lambda x: (x[0], x[1], x[1]), {"attn_mask": hide}, batch_first=True)
    mha("added", inputs((B, TQ, E), (B, TK, E), (B, TK, E)), forward={"attn_mask": added}, batch_first=True)
    mha(
        "both",
        inputs((B, TQ, E), (B, TK, E), (B, TK, E)),
        forward={"attn_mask": hide, "key_padding_mask": padding},
        batch_first=True,
        bias=False,
    )
    mha("widths", inputs((TQ, B, E), (TK, B, 7), (TK, B, 5)), kdim=7, vdim=5)
    mha("unbatched", inputs((TK, E)), one)
    mha("causal", inputs((TQ, B, E)), one, {"attn_mask": future, "is_causal": True})

    for first in (False, True):
        for activation in ("relu", "gelu"):
            name = f"encoder.{'pre' if first else 'post'}.{activation}"
            options = {"norm_first": first, "activation": activation, "batch_first": True, "dropout": 0.1}
            m = fill(nn.TransformerEncoderLayer(E, H, 11, **options)).train()
            for d in m.modules():  # in training mode, which takes no shortcuts
                if hasattr(d, "p"):
                    d.p = 0.0
            m.self_attn.dropout = 0.0
            xs = inputs((B, TK, E))
            result(out, name, m, xs, m(xs[0], src_key_padding_mask=padding))
            if activation == "gelu":
                continue
            name = f"decoder.{'pre' if first else 'post'}"
            m = fill(nn.TransformerDecoderLayer(E, H, 11, norm_first=first, dropout=0.0))
            xs = inputs((TQ, B, E), (TK, B, E))
            y = m(*xs, tgt_mask=future, memory_key_padding_mask=padding)
            result(out, name, m, xs, y)
    layer = nn.TransformerEncoderLayer(E, H, 11, batch_first=True, dropout=0.0, norm_first=True)
    m = fill(nn.TransformerEncoder(layer, 2, nn.LayerNorm(E), enable_nested_tensor=False)).train()
    xs = inputs((B, TQ, E))
    result(out, "encoder", m, xs, m(xs[0], mask=future))
    np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "layers.npz", **out)


main()
