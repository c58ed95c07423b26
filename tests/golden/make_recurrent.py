"""Writes recurrent.npz: results of PyTorch's recurrent layers, for nn/recurrent_test.cpp.

    python3 make_recurrent.py [recurrent.npz]

Made with PyTorch 2.11.0 on the CPU, in f64. Parameters and inputs are ratios of small integers by a formula that the
test repeats; only results are stored: CASE.out, CASE.h and CASE.c, the states after the last step, and CASE.grad: the
gradients of a weighted sum of these, of the inputs, the states before the first step and then all parameters, one after
the other.
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

I, H, T, B = 5, 4, 6, 3
LENGTHS = [4, 6, 1]


def values(shape, k, unit):
    n = int(np.prod(shape))
    v = [((i * 271 + k * 97 + 13) % 401 - 200) / unit for i in range(n)]
    return torch.tensor(v, dtype=torch.float64).reshape(shape)


def fill(module):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(values(p.shape, k, 256))
    return module.double()


def result(out, name, module, inputs, results):
    sum((y * values(y.shape, 90 + k, 128)).sum() for k, y in enumerate(results)).backward()
    for key, y in zip(("out", "h", "c"), results):
        out[f"{name}.{key}"] = y.detach().numpy()
    grads = [t.grad for t in inputs + list(module.parameters())]
    out[f"{name}.grad"] = torch.cat([g.flatten() for g in grads]).numpy()


def layers(out, name, kind, lengths=None, batched=True, states=True, **options):
    module = fill(getattr(nn, kind)(I, H, **options))
    first = options.get("batch_first", False)
    x = values(((B, T, I) if first else (T, B, I)) if batched else (T, I), 50, 128).requires_grad_()
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional", False) else 1)
    count = (2 if kind == "LSTM" else 1) if states else 0
    given = [values((rows, B, H) if batched else (rows, H), 51 + k, 256).requires_grad_() for k in range(count)]
    state = (tuple(given) if kind == "LSTM" else given[0]) if states else None
    fed = x if lengths is None else pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    y, after = module(fed, state)
    if lengths is not None:
        y, _ = pad_packed_sequence(y, batch_first=first, total_length=T)
    result(out, name, module, [x] + given, [y] + list(after if kind == "LSTM" else [after]))


def cell(out, name, kind, **options):
    module = fill(getattr(nn, kind)(I, H, **options))
    x = values((B, I), 50, 128).requires_grad_()
    given = [values((B, H), 51 + k, 256).requires_grad_() for k in range(2 if kind == "LSTMCell" else 1)]
    after = module(x, tuple(given) if kind == "LSTMCell" else given[0])
    after = list(after) if kind == "LSTMCell" else [after]
    result(out, name, module, [x] + given, [after[0]] + after)


def main():
    out = {}
    for kind in ("RNN", "GRU", "LSTM"):
        layers(out, f"{kind}.deep", kind, num_layers=2, bidirectional=True)
        layers(out, f"{kind}.lengths", kind, LENGTHS, num_layers=2, bidirectional=True, batch_first=True)
        layers(out, f"{kind}.plain", kind, states=False, bias=False)
        layers(out, f"{kind}.unbatched", kind, batched=False, bidirectional=True)
        cell(out, f"{kind}Cell", f"{kind}Cell")
    layers(out, "RNN.relu", "RNN", nonlinearity="relu", num_layers=2)
    cell(out, "RNNCell.relu", "RNNCell", nonlinearity="relu")
    np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "recurrent.npz", **out)


main()
