#!/usr/bin/env python3
"""Models of `transformers` go through this library and back.

usage: tests/peers/transformers_peer.py build/cpu/ct_tests [--gpt build/cpu/bin/gpt] [--folder FOLDER] [--random N]
                                        [--seed N]

Needs torch, transformers and numpy; not part of the test suite, which runs without Python. Makes freshly initialised
GPT-2 and Llama models of odd sizes, and N more of sizes drawn at random, lets `ct_tests "[interchange]"` compute their
logits and save them again (nn/models/huggingface_test.cpp), and checks

    f32    logits equal transformers' within 1e-4 of the largest one
    bf16   they are no further from transformers' f32 logits of the same weights than transformers' own bf16
           logits are, by the root of the mean square, with a quarter and a rounding on top (both round, at
           different places)
    saved  `transformers` loads what was saved, without missing or unexpected keys, bit for bit, one file or several;
           the files' tensors are those of the original, and so are the settings that matter
    f16    as bf16
    --gpt  `gpt logits` writes the same bits for these models, and models that `gpt` has trained and exported are
           loaded by `transformers`, which computes the logits that `gpt logits` does and reads their characters
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def gpt2(**settings):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings))


def llama(**settings):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))


def llama3(theta, factor, low, high, length):
    return {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": length,
    }


# name: how it is made, batch, length
MODELS = {
    "gpt2": (lambda: gpt2(vocab_size=97, n_positions=61, n_embd=36, n_layer=3, n_head=3), 3, 53),
    "gpt2-one": (lambda: gpt2(vocab_size=2, n_positions=1, n_embd=1, n_layer=1, n_head=1), 1, 1),
    "gpt2-wide": (
        lambda: gpt2(
            vocab_size=1009,
            n_positions=130,
            n_embd=99,
            n_layer=2,
            n_head=11,
            n_inner=101,
            activation_function="gelu",
            layer_norm_epsilon=1e-3,
            bos_token_id=None,
            eos_token_id=[1, 2],
        ),
        2,
        129,
    ),
    "gpt2-untied": (
        lambda: gpt2(vocab_size=67, n_positions=40, n_embd=70, n_layer=5, n_head=7, tie_word_embeddings=False),
        5,
        7,
    ),
    "llama": (
        lambda: llama(
            vocab_size=101,
            hidden_size=60,
            intermediate_size=83,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=200,
        ),
        2,
        111,
    ),
    "llama-one": (
        lambda: llama(
            vocab_size=3,
            hidden_size=2,
            intermediate_size=1,
            num_hidden_layers=1,
            num_attention_heads=1,
            max_position_embeddings=5,
        ),
        1,
        5,
    ),
    "llama-3": (
        lambda: llama(
            vocab_size=257,
            hidden_size=96,
            intermediate_size=131,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            max_position_embeddings=300,
            rope_parameters=llama3(5000.0, 8.0, 1.0, 4.0, 64),
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            eos_token_id=[5, 6],
        ),
        2,
        257,
    ),
    "llama-biases": (
        lambda: llama(
            vocab_size=53,
            hidden_size=50,
            intermediate_size=77,
            num_hidden_layers=2,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=14,
            attention_bias=True,
            mlp_bias=True,
            max_position_embeddings=64,
            rope_parameters={"rope_type": "default", "rope_theta": 123.0},
        ),
        3,
        31,
    ),
}


# At least 16 wide: the norm of a few elements may divide by next to nothing, and leave nothing but roundings.
def random_gpt2(r):
    heads = r.randint(1, 7)
    return gpt2(
        vocab_size=r.randint(2, 400),
        n_positions=r.randint(3, 150),
        n_embd=heads * r.randint(16 // heads + 1, 40),
        n_layer=r.randint(1, 5),
        n_head=heads,
        n_inner=r.choice([None, r.randint(1, 300)]),
        activation_function=r.choice(["gelu_new", "gelu", "gelu_pytorch_tanh"]),
        layer_norm_epsilon=r.choice([1e-5, 1e-3]),
        tie_word_embeddings=r.random() < 0.5,
    )


def random_llama(r):
    groups, shared = r.randint(1, 4), r.randint(1, 3)
    length = r.randint(3, 150)
    theta = r.choice([10000.0, 500000.0, 37.0])
    scaled = llama3(theta, r.uniform(1.5, 9), 1.0, r.uniform(2, 5), r.randint(2, length))
    return llama(
        vocab_size=r.randint(2, 400),
        hidden_size=groups * shared * 2 * r.randint(8 // (groups * shared) + 1, 16),
        intermediate_size=r.randint(1, 300),
        num_hidden_layers=r.randint(1, 5),
        num_attention_heads=groups * shared,
        num_key_value_heads=groups,
        head_dim=r.choice([None, 2 * r.randint(1, 33)]),
        max_position_embeddings=length,
        rms_norm_eps=r.choice([1e-6, 1e-3]),
        attention_bias=r.random() < 0.3,
        mlp_bias=r.random() < 0.3,
        tie_word_embeddings=r.random() < 0.5,
        rope_parameters=r.choice([{"rope_type": "default", "rope_theta": theta}, scaled]),
    )


def make(folder, model, dtype, batch, length, sharded):
    torch.manual_seed(len(folder))
    with torch.no_grad():  # attention that looks at something, and biases other than 0
        for p in model.parameters():
            p += (0.1 if p.dim() == 1 else min(0.5, 0.7 * min(p.shape) ** -0.5)) * torch.randn_like(p)
    model = model.to(dtype).eval()
    model.save_pretrained(folder, **({"max_shard_size": "30KB"} if sharded else {}))
    if sharded:
        open(os.path.join(folder, "sharded"), "w").close()
    tokens = torch.randint(0, model.config.vocab_size, (batch, length))
    np.save(os.path.join(folder, "tokens.npy"), tokens.numpy())
    with torch.no_grad():
        own = model(tokens).logits.float().numpy()
        exact = model.float()(tokens).logits.numpy()
    return own, exact


def tensors(folder):
    files = [f for f in os.listdir(folder) if f.endswith(".safetensors")]
    out = {}
    for f in files:
        out |= load_file(os.path.join(folder, f))
    return out, len(files)


SETTINGS = [
    "vocab_size n_positions n_embd n_layer n_head activation_function attn_pdrop layer_norm_epsilon",
    "hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_act",
    "max_position_embeddings rms_norm_eps rope_parameters attention_bias mlp_bias tie_word_embeddings",
    "bos_token_id eos_token_id initializer_range architectures model_type dtype",
]


def compare(folder, own, exact, dtype, sharded):
    problems = []
    logits = np.load(os.path.join(folder, "logits.npy"))
    scale = np.abs(exact).max()
    error = np.abs(logits - exact).max() / scale
    allowed = 1e-4
    if dtype != torch.float32:
        error = np.sqrt(np.mean((logits - exact) ** 2)) / scale
        rounding = torch.finfo(dtype).eps / 8
        allowed = 1.25 * np.sqrt(np.mean((own - exact) ** 2)) / scale + rounding
    if logits.shape != exact.shape or not error <= allowed:
        problems.append(f"logits differ by {error:.1e}")

    saved = os.path.join(folder, "saved")
    before, _ = tensors(folder)
    after, files = tensors(saved)
    if (files > 1) != sharded:
        problems.append(f"saved as {files} files")
    if before.keys() != after.keys():
        problems.append(f"names differ: {sorted(before.keys() ^ after.keys())}")
    else:
        for name, t in before.items():
            if t.dtype != after[name].dtype or not torch.equal(t, after[name]):
                problems.append(f"{name} differs")
    options = {"output_loading_info": True, "dtype": "auto"}
    old, _ = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    new, info = transformers.AutoModelForCausalLM.from_pretrained(saved, **options)
    problems += [f"{kind}: {names}" for kind, names in info.items() if names]
    a, b = old.state_dict(), new.state_dict()
    if a.keys() != b.keys() or any(not torch.equal(a[k], b[k]) or a[k].dtype != b[k].dtype for k in a):
        problems.append("transformers reads other weights")
    for key in " ".join(SETTINGS).split():
        before, after = getattr(old.config, key, None), getattr(new.config, key, None)
        if before != after and (before, after) != ("gelu_pytorch_tanh", "gelu_new"):  # two names of one function
            problems.append(f"{key}: {before} became {after}")
    return error, allowed, problems


def same_from_program(program, folder, dtype):
    """Whether `gpt logits` writes what the library computes."""
    out = os.path.join(folder, "program.npy")
    command = [program, "logits", "--model", folder, "--tokens", os.path.join(folder, "tokens.npy"), "--out", out]
    subprocess.run([*command, "--dtype", NAMES[dtype]], check=True, stdout=subprocess.DEVNULL)
    return np.array_equal(np.load(out), np.load(os.path.join(folder, "logits.npy")))


def trained_here(program, root):
    """Models that start here. Yields name, error, problems."""
    text = os.path.join(root, "text")
    letters = "to be, or not to be: that is the question\n"
    with open(text, "w") as f:
        f.write(letters * 100)
    for name, flags in {
        "gpt2": ["--heads", "3", "--embd", "33"],
        "llama": ["--model", "llama", "--heads", "6", "--kv-heads", "2", "--embd", "60"],
    }.items():
        run, model = (os.path.join(root, "trained", name + end) for end in ("", "-exported"))
        train = [program, "--text", text, "--preset", "tiny", "--block", "29", "--layers", "3", "--iters", "20"]
        export = [program, "export", "--checkpoint", run, "--out", model]
        for command in [*train, *flags, "--out", run], export:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(model, output_loading_info=True)
        problems = [f"{kind}: {names}" for kind, names in info.items() if names]
        tokens = torch.randint(0, loaded.config.vocab_size, (3, 23))
        np.save(os.path.join(model, "tokens.npy"), tokens.numpy())
        with torch.no_grad():
            theirs = loaded.eval()(tokens).logits.numpy()
        out = os.path.join(model, "logits.npy")
        tokens_file = os.path.join(model, "tokens.npy")
        command = [program, "logits", "--model", run, "--tokens", tokens_file, "--out", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        error = np.abs(np.load(out) - theirs).max() / np.abs(theirs).max()
        if not error <= 1e-4:
            problems.append(f"logits differ by {error:.1e}")
        line = "to be, or not\n to be"
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        ids = tokenizer(line).input_ids
        if ids != [sorted(set(letters)).index(c) for c in line] or tokenizer.decode(ids) != line:
            problems.append("transformers reads another tokenizer")
        yield name, error, problems


NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    parser.add_argument("--gpt")
    parser.add_argument("--folder")
    parser.add_argument("--random", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    home = os.path.abspath(args.folder or tempfile.mkdtemp())
    root = os.path.join(home, "models")
    wanted = {}

    def add(name, model, dtype, batch, length, sharded):
        folder = os.path.join(root, f"{name}-{NAMES[dtype]}")
        os.makedirs(folder)
        wanted[folder] = (*make(folder, model, dtype, batch, length, sharded), dtype, sharded)

    for name, (build, batch, length) in MODELS.items():
        for dtype in torch.float32, torch.bfloat16:
            torch.manual_seed(1)
            add(name, build(), dtype, batch, length, name in ("gpt2-untied", "llama-3"))
    r = random.Random(args.seed)
    for n in range(args.random):
        torch.manual_seed(n)
        model = r.choice([random_gpt2, random_llama])(r)
        dtype = r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
        length = r.randint(1, model.config.max_position_embeddings)
        add(f"{model.config.model_type}-random{n}", model, dtype, r.randint(1, 4), length, False)

    subprocess.run([args.tests, "[interchange]"], env={**os.environ, "COTANGENT_INTERCHANGE": root}, check=True)
    failed = 0

    def tell(name, error, allowed, problems):
        nonlocal failed
        failed += bool(problems)
        print(f"{name:20} {error:.1e} of {allowed:.1e}  {'; '.join(problems) or 'ok'}")

    for folder, (own, exact, dtype, sharded) in wanted.items():
        error, allowed, problems = compare(folder, own, exact, dtype, sharded)
        if args.gpt and not same_from_program(args.gpt, folder, dtype):
            problems.append("`gpt logits` writes other logits")
        tell(os.path.basename(folder), error, allowed, problems)
    trained = list(trained_here(args.gpt, home)) if args.gpt else []
    for name, error, problems in trained:
        tell(f"{name}, trained here", error, 1e-4, problems)
    print(f"{len(wanted) + len(trained)} models, {failed} with problems")
    sys.exit(failed > 0)


main()
