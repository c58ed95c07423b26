"""Writes state_dicts.safetensors: modules of PyTorch as they are saved, and what they compute, for
nn/state_dict_golden_test.cpp.

    python3 make_state_dicts.py [state_dicts.safetensors]

Made with PyTorch 2.11.0 and safetensors on the CPU, in f32. For each CASE:

    CASE.state.KEY        module.state_dict()
    CASE.in.N, CASE.out   inputs and result; CASE.mask.WHAT: masks
    CASE.grad.KEY         gradients of a weighted sum of the result: element i counts i^2 mod 7 - 3 times
"""

import sys

import torch
from safetensors.torch import save_file
from torch import nn

E, H, B, TQ, TK = 12, 3, 2, 5, 7
OUT = {}


def case(name, module, inputs, masks={}, call=None):
    with torch.no_grad():  # norms other than 1 and 0
        for p in module.parameters():
            p += 0.1 * torch.randn_like(p)
    module.train()
    y = call(module) if call else module(*inputs)
    factors = (torch.arange(y.numel()) ** 2 % 7 - 3.0).reshape(y.shape)
    (y * factors).sum().backward()
    OUT.update({f"{name}.state.{key}": t.detach().clone() for key, t in module.state_dict().items()})
    OUT.update({f"{name}.in.{n}": t.clone() for n, t in enumerate(inputs)})
    OUT.update({f"{name}.mask.{what}": t.clone() for what, t in masks.items()})
    OUT[f"{name}.out"] = y.detach().contiguous()
    OUT.update({f"{name}.grad.{key}": p.grad for key, p in module.named_parameters()})


def main():
    torch.manual_seed(3)
    case("embedding", nn.Embedding(11, 6, padding_idx=3), [torch.tensor([[3, 0, 10], [7, 3, 7]])])
    x = torch.randn(4, 3, 7)
    case("layer_norm", nn.LayerNorm(7, eps=1e-3), [x])
    case("layer_norm_axes", nn.LayerNorm((3, 7)), [x])
    case("layer_norm_bare", nn.LayerNorm(7, bias=False), [x])
    case("rms_norm", nn.RMSNorm(7), [x])
    case("rms_norm_eps", nn.RMSNorm(7, eps=1e-2), [x])

    padding = torch.zeros(B, TK, dtype=torch.bool)
    padding[0, 5:] = padding[1, :2] = True
    tgt_padding = torch.zeros(B, TQ, dtype=torch.bool)
    tgt_padding[1, 3:] = True
    hide = torch.zeros(TQ, TK, dtype=torch.bool)
    hide[1, 3] = hide[4, 6] = hide[0, 4] = True
    future = torch.triu(torch.ones(TQ, TQ, dtype=torch.bool), 1)

    q, k, v = torch.randn(TQ, B, E), torch.randn(TK, B, E), torch.randn(TK, B, E)
    case("attention", nn.MultiheadAttention(E, H), [q, k, v], call=lambda m: m(q, k, v)[0])
    a, b, c = torch.randn(B, TQ, E), torch.randn(B, TK, 8), torch.randn(B, TK, 5)
    masks = {"key_padding": padding, "attn": hide}
    case(
        "attention_widths",
        nn.MultiheadAttention(E, H, kdim=8, vdim=5, bias=False, batch_first=True),
        [a, b, c],
        masks,
        lambda m: m(a, b, c, key_padding_mask=padding, attn_mask=hide)[0],
    )
    options = {"dim_feedforward": 11, "dropout": 0.0}
    s = torch.randn(B, TK, E)
    for first in (False, True):
        order = "pre" if first else "post"
        for activation in ("relu", "gelu"):
            layer = nn.TransformerEncoderLayer(
                E, H, activation=activation, batch_first=True, norm_first=first, bias=activation == "relu", **options
            )
            case(
                f"encoder_layer.{order}.{activation}",
                layer,
                [s],
                {"key_padding": padding},
                lambda m: m(s, src_key_padding_mask=padding),
            )
            layer = nn.TransformerDecoderLayer(
                E, H, activation=activation, norm_first=first, bias=activation == "relu", layer_norm_eps=1e-4, **options
            )
            masks = {"tgt": future, "tgt_padding": tgt_padding, "memory": hide, "memory_padding": padding}
            case(
                f"decoder_layer.{order}.{activation}",
                layer,
                [q, k],
                masks,
                lambda m: m(
                    q,
                    k,
                    tgt_mask=future,
                    memory_mask=hide,
                    tgt_key_padding_mask=tgt_padding,
                    memory_key_padding_mask=padding,
                ),
            )
    layer = nn.TransformerEncoderLayer(E, H, batch_first=True, norm_first=True, **options)
    case("encoder", nn.TransformerEncoder(layer, 2, nn.LayerNorm(E), enable_nested_tensor=False), [s])
    layer = nn.TransformerEncoderLayer(E, H, **options)
    case("encoder_bare", nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), [k])
    save_file(OUT, sys.argv[1] if len(sys.argv) > 1 else "state_dicts.safetensors")


main()
