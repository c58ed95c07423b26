#!/usr/bin/env python3
"""Runs random programs of the library and the same text in PyTorch, f64 both, and compares every value, gradient and
second derivative.

    python3 replay.py build/cpu/bin/ct_random_programs --count 20000 --jobs 16 [--cuda]
"""
import argparse
import collections
import json
import math
import multiprocessing
import os
import subprocess
import sys
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # PyTorch is to compute on the CPU, and not to start a GPU for that
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def spelled_out(name, x, a):
    """Calls of PyTorch that are not torch.NAME(*operands, **attributes)."""
    if name.startswith("used_"):  # two results: one made before the change
        copy = x[0].clone()
        before = copy + x[0]
        return [before, getattr(copy, name[5:])(*x[1:])]
    if name.startswith("einsum "):
        return torch.einsum(name[7:], *x)
    if name == "index_put_":
        return x[0].clone().index_put_((x[1], x[2]), x[3], accumulate=True)
    if name in ("index_select", "gather", "index_add", "index_copy", "scatter_add"):
        return getattr(torch, name)(x[0], a["dim"], *x[1:])
    if name == "index_add_":
        return x[0].clone().index_add_(a["dim"], *x[1:])
    if name.endswith("_"):
        return getattr(x[0].clone(), name)(*x[1:], *a.values())
    if name == "masked_fill":
        return x[0].masked_fill(x[1], a["value"])
    if name in ("expand_as", "unfold"):
        return getattr(x[0], name)(*x[1:], *a.values())
    if name == "slice":
        before = (slice(None),) * (a["dim"] % x[0].dim())
        n = x[0].size(a["dim"])
        start = a["start"] + n if a["start"] < 0 else a["start"]
        stop = a["stop"] + n if a["stop"] < 0 else a["stop"]
        return x[0][before + (slice(start, stop, a["step"]),)]
    if name == "floor_divide":  # a step, of which PyTorch knows no gradient
        return torch.floor_divide(x[0].detach(), a["other"]) + 0 * x[0]
    if name == "embedding":
        return F.embedding(x[1], x[0])
    if name == "addmm":
        return torch.addmm(x[2], x[0], x[1], **a)
    if name == "gaussian_nll_loss":
        return F.gaussian_nll_loss(x[1], x[2], x[0], **a)
    if name == "binary_cross_entropy":
        return F.binary_cross_entropy(x[0], x[1].detach(), **a)
    if name in ("layer_norm", "rms_norm"):
        return getattr(F, name)(x[0], x[0].shape[-1:], *x[1:], **a)
    if name == "group_norm":
        return F.group_norm(x[0], a["num_groups"], *x[1:])
    if name == "batch_norm":
        return F.batch_norm(x[0], None, None, *x[1:], training=True)
    if name == "scaled_dot_product_attention":
        with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivatives
            return F.scaled_dot_product_attention(*x, **a)
    short = {
        # Its own gradient there has 1 / 6 rounded to f32.
        "hardsigmoid": lambda: F.relu6(x[0] + 3) / 6,
        "concat": lambda: torch.cat(x, **a),
        "stack": lambda: torch.stack(x, **a),
        "repeat": lambda: x[0].repeat(a["repeats"]),
        "expand_new": lambda: x[0].expand(a["count"], *x[0].shape),
        "index": lambda: x[0][x[1], x[2]],
        "index_last": lambda: x[0][..., None, x[1]],
        "kl_div": lambda: F.kl_div(*x, reduction=a["reduction"], log_target=True),
    }
    return short[name]() if name in short else None


def call(name, x, a):
    result = spelled_out(name, x, a)
    if result is None:
        x = x + [a.pop(key) for key in ("other", "exponent") if key in a]
        # Both have some of these names; those of torch.nn.functional have the keywords.
        losses = name.endswith("_loss") or "pool" in name or "conv" in name or "entropy" in name
        function = getattr(F, name, None) if losses else getattr(torch, name, None)
        result = (function or getattr(torch, name, None) or getattr(F, name))(*x, **a)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def weights(t, number):
    w = [(((j * 37 + number * 11) % 17) - 8) / 8 for j in range(t.numel())]
    return torch.tensor(w, dtype=torch.float64).view(t.shape)


def differ(got, want, tolerance, scale=1.0):
    """Distance of two lists of numbers, if it is too large."""
    if len(got) != len(want):
        return f"{len(got)} numbers, want {len(want)}"
    scale = max([scale] + [abs(w) for w in want if math.isfinite(w)])
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w and not (math.isnan(g) and math.isnan(w)) and not abs(g - w) <= tolerance * scale:
            return f"[{i}] is {g!r}, want {w!r}"
    return None


def flat(t):
    return (t.detach().to(torch.float64) + 0).reshape(-1).tolist()  # + 0: one that stands for zeros has no elements


def compare(program, counts):
    """The first difference of a program, in words; None if there is none."""
    if "threw" in program:
        return "the library threw"
    values, leaves, number_of = [], [], []
    for line in program["lines"]:
        if line["op"] in ("leaf", "indices"):
            leaf = line["op"] == "leaf"
            t = torch.tensor(line["values"], dtype=torch.float64 if leaf else torch.int64).view(line["shape"])
            if leaf:
                leaves.append(t.requires_grad_())
            number_of.append("leaf" if leaf else "indices")
            values.append(t)
            continue
        counts[line["op"]] += 1
        try:
            out = call(line["op"], [values[i] for i in line["in"]], dict(line["attrs"]))
        except Exception as e:  # whatever PyTorch has to say
            return f"{line['op']} {line['attrs']}: PyTorch says {e}"
        if len(out) != len(line["out"]):
            return f"{line['op']} {line['attrs']}: {len(line['out'])} results, want {len(out)}"
        for t in out:
            k = len(values)
            where = f"{line['op']} {line['attrs']} of {[list(values[i].shape) for i in line['in']]}"
            if list(t.shape) != program["shapes"][k]:
                return f"{where}: shape {program['shapes'][k]}, want {list(t.shape)}"
            if problem := differ(program["values"][k], flat(t), 1e-9):
                return f"{where}: {problem}"
            number_of.append(line["op"])
            values.append(t)
    loss = sum(
        ((v * weights(v, k)).sum() for k, v in enumerate(values)
         if number_of[k] not in ("leaf", "indices") and v.dtype == torch.float64 and v.requires_grad),
        torch.zeros((), dtype=torch.float64))
    if problem := differ([program["loss"]], [loss.item()], 1e-8, 100):
        return f"loss: {problem}"
    names = [line["op"] for line in program["lines"] if line["op"] != "leaf"]
    if not loss.requires_grad:
        return None if not any(program["gradients"]) else "gradients of a constant"

    def numbers(list_of, like):
        return [[0.0] * t.numel() if g is None else g if isinstance(g, list) else flat(g) for g, t in zip(list_of, like)]

    def all_differ(what, got, want, tolerance):
        got, want = numbers(got, leaves), numbers(want, leaves)
        scale = max([1.0] + [abs(v) for g in want for v in g if math.isfinite(v)])
        for k, (g, w) in enumerate(zip(got, want)):
            if problem := differ(g, w, tolerance, scale):
                return f"{what} of leaf {k}: {problem}; {names}"
        return None

    first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    for what in ("gradients", "by_rules"):
        if problem := all_differ(what, program[what], first, 1e-8):
            return problem
    again = sum(((g * weights(g, 1000 + k)).sum() for k, g in enumerate(first) if g is not None and g.requires_grad),
                torch.zeros((), dtype=torch.float64))
    second = [None] * len(leaves)
    if again.requires_grad:
        try:
            second = torch.autograd.grad(again, leaves, allow_unused=True)
        except RuntimeError as e:
            if "not implemented" not in str(e):
                return f"second derivatives: PyTorch says {e}; {names}"
            counts["(without second derivatives in PyTorch)"] += 1
            return None
    return all_differ("second derivatives", program["seconds"], second, 1e-7)


def work(job):
    binary, first, count, more = job
    library = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES" or value}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # on what reduction="mean" means to kl_div
    counts, problems = collections.Counter(), []
    process = subprocess.Popen([binary, str(first), str(count)] + more, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**library, "COTANGENT_NUM_THREADS": "1"})
    for line in process.stdout:
        program = json.loads(line)
        try:
            problem = compare(program, counts)
        except Exception as e:  # whatever PyTorch has to say
            problem = f"PyTorch says {e}; {[line['op'] for line in program['lines']]}"
        counts["(programs)"] += 1
        if problem:
            problems.append((program["seed"], problem))
    return counts, problems, process.stderr.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--cuda", action="store_true")
    o = parser.parse_args()
    piece = max(1, min(250, o.count // o.jobs))
    jobs = [(o.binary, at, min(piece, o.first + o.count - at), ["--cuda"] if o.cuda else [])
            for at in range(o.first, o.first + o.count, piece)]
    counts, problems, refused = collections.Counter(), [], collections.Counter()
    with multiprocessing.get_context("spawn").Pool(o.jobs) as pool:
        for some, found, said in pool.imap_unordered(work, jobs):
            counts += some
            problems += found
            for seed, problem in found:
                print(f"program {seed}: {problem}", flush=True)
            for line in said.splitlines():
                refused[line.split(": ", 1)[-1]] += 1
    for text, times in refused.most_common(40):
        print(f"the library refused ({times}): {text}")
    print("calls:", ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    print(f"{counts['(programs)']} programs, {sum(n for name, n in counts.items() if name[0] != '(')} calls, "
          f"{len(problems)} programs that differ from PyTorch {torch.__version__}")
    sys.exit(1 if problems or counts["(programs)"] != o.count else 0)


if __name__ == "__main__":
    main()
