"""Writes losses.npz: PyTorch's losses and distributions in f64, with all gradients, for
tests/losses_golden_test.cpp.

    python3 make_losses.py [losses.npz]

Made with PyTorch 2.11.0 on the CPU. Inputs are ratios of small integers by a formula that the test repeats; only results
are stored: CASE.y, and CASE.d0, CASE.d1, ... of the inputs in order, for the cotangent numbers(y.shape, 99).
"""

import sys

import numpy as np
import torch
import torch.distributions as D
import torch.nn.functional as F


def numbers(shape, seed):
    n = int(np.prod(shape))
    values = [((i * 7919 + seed * 104729 + 13) % 2003 - 1001) / 512 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


results = {}


def case(name, f, *inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = f(*leaves)
    y.backward(numbers(tuple(y.shape), 99))
    results[f"{name}.y"] = y.detach().numpy()
    for k, x in enumerate(leaves):
        results[f"{name}.d{k}"] = x.grad.numpy()


x, t = numbers((6, 5), 1), numbers((6, 5), 2)
x.reshape(-1)[7] = t.reshape(-1)[7]
p, q = 0.5 + numbers((6, 5), 3) / 8, 0.5 + numbers((6, 5), 4) / 8
w = numbers((5,), 5).abs()
var = numbers((6, 5), 6).abs() + 0.25
log_p = F.log_softmax(numbers((6, 5), 7), -1)
a, b, c = numbers((6, 4), 8), numbers((6, 4), 9), numbers((6, 4), 10)
sign = torch.tensor([1.0, -1, 1, -1, -1, 1], dtype=torch.float64)
classes = torch.tensor([0, 4, 2, -100, 1, 3])

for r in ("mean", "sum", "none"):
    case(f"l1.{r}", lambda x, t: F.l1_loss(x, t, reduction=r), x, t)
    case(f"mse.{r}", lambda x, t: F.mse_loss(x, t, reduction=r), x, t)
    case(f"huber.{r}", lambda x, t: F.huber_loss(x, t, reduction=r, delta=0.75), x, t)
    case(f"smooth_l1.{r}", lambda x, t: F.smooth_l1_loss(x, t, reduction=r, beta=0.5), x, t)
    case(f"bce.{r}", lambda p: F.binary_cross_entropy(p, q, weight=w, reduction=r), p)
    case(f"bce_with_logits.{r}", lambda x: F.binary_cross_entropy_with_logits(x, q, weight=w, pos_weight=w + 1, reduction=r), x)
    case(f"kl_div.{r}", lambda l, q: F.kl_div(l, q, reduction=r), log_p, q)
    case(f"gaussian_nll.{r}", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, reduction=r), x, t, var)
    case(f"cosine_embedding.{r}", lambda a, b: F.cosine_embedding_loss(a, b, sign, margin=0.25, reduction=r), a, b)
    case(f"triplet.{r}", lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=2, reduction=r), a, b, c)
    case(f"triplet_swap.{r}", lambda a, b, c: F.triplet_margin_loss(a, b, c, p=1, swap=True, reduction=r), a, b, c)
    case(f"nll.{r}", lambda l: F.nll_loss(l, classes, weight=w, reduction=r), log_p)
    case(f"cross_entropy.{r}", lambda x: F.cross_entropy(x, classes, weight=w, reduction=r, label_smoothing=0.125), x)
    case(f"cross_entropy_probs.{r}", lambda x, q: F.cross_entropy(x, q, weight=w, reduction=r), x, q)
case("kl_div.batchmean", lambda l, q: F.kl_div(l, q, reduction="batchmean"), log_p, q)
case("kl_div.log_target", lambda l, m: F.kl_div(l, m, log_target=True, reduction="sum"), log_p, numbers((6, 5), 11))
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=0), a, b)
case("pairwise_distance", lambda a, b: F.pairwise_distance(a, b, p=3, keepdim=True), a, b)

index = torch.tensor([0, 4, 2, 2, 1, 3])
bits = (t > 0).double()
case("categorical.log_prob", lambda x: D.Categorical(logits=x).log_prob(index), x)
case("categorical.entropy", lambda x: D.Categorical(logits=x).entropy(), x)
case("categorical.kl", lambda x, t: D.kl_divergence(D.Categorical(logits=x), D.Categorical(logits=t)), x, t)
case("bernoulli.log_prob", lambda x: D.Bernoulli(logits=x).log_prob(bits), x)
case("bernoulli.entropy", lambda x: D.Bernoulli(logits=x).entropy(), x)
case("normal.log_prob", lambda t, x, v: D.Normal(x, v).log_prob(t), t, x, var)
case("normal.entropy", lambda v: D.Normal(torch.zeros_like(v), v).entropy(), var)
case("normal.kl", lambda x, v, t, s: D.kl_divergence(D.Normal(x, v), D.Normal(t, s)), x, var, t, var + 0.5)

np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "losses.npz", **results)
