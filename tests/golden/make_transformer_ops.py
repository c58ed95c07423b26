"""Writes transformer_ops.npz: PyTorch's embedding, norms and gated activations, and the rotary embedding of
transformers' Llama, for tests/transformer_ops_golden_test.cpp.

    python3 make_transformer_ops.py [transformer_ops.npz]

Made with PyTorch 2.11.0 and transformers on the CPU. Inputs are ratios of small integers, exact in f32, by a formula
that the test repeats; only results are stored, as CASE.RESULT.
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb


def numbers(shape, seed):
    n = int(np.prod(shape))
    values = [((i * 7919 + seed * 104729 + 13) % 2003 - 1001) / 512 for i in range(n)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def leaf(shape, seed):
    return numbers(shape, seed).requires_grad_()


results = {}


def keep(case, **tensors):
    for name, t in tensors.items():
        results[f"{case}.{name}"] = t.detach().contiguous().numpy()


def embedding():
    index = torch.tensor([(i * 37 + 5) % 11 for i in range(60)]).reshape(4, 15)
    for case, padding in (("embedding", None), ("embedding_padding", 3)):
        w = leaf((11, 20), 1)
        y = F.embedding(index, w, padding_idx=padding)
        y.backward(numbers(y.shape, 2))
        keep(case, y=y, dw=w.grad)


def norms():
    for case, shape, row in (("layer_norm", (6, 40), (40,)), ("layer_norm_axes", (5, 3, 7), (3, 7))):
        x, w, b = leaf(shape, 3), leaf(row, 4), leaf(row, 5)
        y = F.layer_norm(x, row, w, b, 1e-5)
        y.backward(numbers(shape, 6))
        keep(case, y=y, dx=x.grad, dw=w.grad, db=b.grad)
    x, w = leaf((6, 40), 3), leaf((40,), 4)
    y = F.rms_norm(x, (40,), w, 1e-6)
    y.backward(numbers((6, 40), 6))
    keep("rms_norm", y=y, dx=x.grad, dw=w.grad)


def gated():
    for case, f in (
        ("swiglu", F.silu),
        ("geglu", F.gelu),
        ("geglu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    ):
        a, b = leaf((7, 33), 7), leaf((7, 33), 8)
        y = f(a) * b
        y.backward(numbers((7, 33), 9))
        keep(case, y=y, da=a.grad, db=b.grad)


def rotary():
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    for case, theta, extra in (("rotary", 10000.0, {"rope_type": "default"}), ("rotary_llama3", 500000.0, scaling)):
        config = LlamaConfig(
            hidden_size=128,
            num_attention_heads=2,
            max_position_embeddings=131072,
            rope_parameters={"rope_theta": theta, **extra},
        )
        embed = LlamaRotaryEmbedding(config)
        x = leaf((2, 2, 5, 64), 10)
        positions = torch.tensor([[0, 1, 7, 100, 1023], [3, 500, 2047, 4095, 8191]])
        cos, sin = embed(x, positions)
        y, _ = apply_rotary_pos_emb(x, x, cos, sin)
        y.backward(numbers(x.shape, 11))
        keep(case, y=y, dx=x.grad)


embedding()
norms()
gated()
rotary()
np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "transformer_ops.npz", **results)
