"""Writes gpt2/ and llama/: two tiny models as `transformers` saves them (config.json, model.safetensors), and what
PyTorch makes of them (expected.npz), for nn/models/models_golden_test.cpp.

    python3 make_models.py [folder]

Made with PyTorch 2.11.0 and transformers 5.23.0 on the CPU, in f32. In expected.npz:

    tokens, targets    i64 [2, B, T]: two batches; the targets have some that do not count (-100)
    logits             [B, T, V] of the first batch
    loss, grad.NAME    of the first batch, by the parameters' names
    losses             ten steps of AdamW, the batches in turn
"""

import os
import sys

import numpy as np
import torch
import transformers

B, T = 3, 17


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=53,
        n_positions=19,
        n_embd=20,
        n_layer=2,
        n_head=4,
        n_inner=44,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=51,
        eos_token_id=52,
    )
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=59,
        hidden_size=24,
        intermediate_size=42,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=33,
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 100.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 3.0,
            "original_max_position_embeddings": 24,
        },
        bos_token_id=1,
        eos_token_id=[2, 3],
    )
    return transformers.LlamaForCausalLM(config)


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def write(model, folder):
    torch.manual_seed(7)
    with torch.no_grad():  # away from what initialisation gives: attention that looks at something
        for p in model.parameters():
            p += (0.1 if p.dim() == 1 else 0.2) * torch.randn_like(p)
    model.config._attn_implementation = "eager"
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    text = torch.randint(0, model.config.vocab_size, (2, B, T + 1))
    tokens, targets = text[:, :, :-1], text[:, :, 1:].clone()
    targets[0, 1, :4] = targets[1, 2, -3:] = -100

    model.train()  # without dropout
    out = {"tokens": tokens.numpy(), "targets": targets.numpy()}
    logits, loss = loss_of(model, tokens[0], targets[0])
    loss.backward()
    out["logits"], out["loss"] = logits.detach().numpy(), loss.detach().numpy()
    for name, p in model.named_parameters():
        out[f"grad.{name}"] = p.grad.numpy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for step in range(10):
        _, loss = loss_of(model, tokens[step % 2], targets[step % 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    out["losses"] = np.array(losses)
    np.savez_compressed(os.path.join(folder, "expected.npz"), **out)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    torch.manual_seed(1)
    write(gpt2(), os.path.join(folder, "gpt2"))
    write(llama(), os.path.join(folder, "llama"))


main()
