"""Writes optim.npz: steps of PyTorch's optimizers, schedulers and clipping, for nn/optim/optim_golden_test.cpp.

    python3 make_optim.py [optim.npz]

Made with PyTorch 2.11.0 on the CPU, but for lbfgs_wolfe, which is 1.13's: in 2.11 that run stands still from its 13th
step on, at a loss of 8.195; why, is not known. Both agree on the other two of LBFGS, to 1e-9. Parameters and gradients
are ratios of small integers, exact in f32, by formulas that the test repeats; only results are stored. Names:

    RUN.DTYPE.steps   all parameters, one after the other, after each of the steps KEPT. "muon" has matrices for
                      parameters; "muon_exact" computes Newton and Schulz's steps in DTYPE, not in bf16
    lbfgs_KIND.steps, .trace, .evals   the parameters, the loss and the calls of the closure after those steps, in f64
    RUN.DTYPE.trace   a weighted sum of them after every step
    lr.SCHEDULE       learning rates [steps + 1, groups], the first row before any step; for those that wait for a
                      plateau [steps, groups], after each
    mlp.DTYPE         the losses of a hundred steps of a small network
    clip.KIND.DTYPE   the norm (but for "value"), then all gradients after clipping
"""

import sys

import numpy as np
import torch
from torch.optim import lr_scheduler as schedules

SIZES = [(37,), (3, 1), (1,), (7,)]
MATRICES = [(12, 4), (4, 9), (8, 3)]
STEPS = 100
KEPT = [1, 2, 3, 8, 32, 100]
DTYPES = {"f32": torch.float32, "f64": torch.float64}


def initial(k, dtype, sizes=SIZES):
    n = int(np.prod(sizes[k]))
    values = [((i * 271 + k * 97 + 13) % 401 - 200) / 128 for i in range(n)]
    return torch.tensor(values, dtype=dtype).reshape(sizes[k])


def gradient(k, t, dtype, sizes=SIZES):
    """The gradient of parameter k in step t; None where the parameter took no part."""
    if k == 2 and t % 3 == 1 or k == 3 and 40 <= t < 60:
        return None
    n = int(np.prod(sizes[k]))
    bend = 31 if sizes is MATRICES else 0  # without it rows are all but multiples of each other
    values = [((i * i * bend + i * 7919 + t * 104729 + k * 1299709) % 2003 - 901) / 1024 for i in range(n)]
    return torch.tensor(values, dtype=dtype).reshape(sizes[k])


def sgd(**options):
    return lambda p: torch.optim.SGD(p, lr=0.02, **options)


def adam(kind=torch.optim.Adam, **options):
    return lambda p: kind(p, lr=0.01, **options)


class Lion(torch.optim.Optimizer):
    """Lion as in the paper; PyTorch has none."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                first, second = group["betas"]
                direction = (m * first + p.grad * (1 - first)).sign()
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction * group["lr"])
                m.mul_(second).add_(p.grad * (1 - second))


def two_groups(p):
    return torch.optim.AdamW(
        [
            {"params": p[:2], "weight_decay": 0.1, "betas": (0.8, 0.95)},
            {"params": p[2:], "lr": 0.003, "weight_decay": 0.0, "eps": 1e-3},
        ],
        lr=0.01,
    )


RUNS = {
    "sgd": sgd(),
    "sgd_momentum": sgd(momentum=0.9),
    "sgd_dampening": sgd(momentum=0.8, dampening=0.3),
    "sgd_nesterov": sgd(momentum=0.9, nesterov=True),
    "sgd_decay": sgd(momentum=0.9, weight_decay=0.05),
    "adam": adam(),
    "adam_decay": adam(weight_decay=0.05),
    "adam_amsgrad": adam(amsgrad=True, betas=(0.3, 0.9)),
    "adamw": adam(torch.optim.AdamW, weight_decay=0.05),
    "two_groups": two_groups,
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "rmsprop_momentum": lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.8),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(
        p, lr=0.01, alpha=0.95, eps=1e-3, weight_decay=0.05, momentum=0.5, centered=True
    ),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "adagrad_decay": lambda p: torch.optim.Adagrad(
        p, lr=0.05, lr_decay=0.01, weight_decay=0.05, initial_accumulator_value=0.25, eps=1e-3
    ),
    "lion": lambda p: Lion(p, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1),
    "clipped": adam(),
}


def newton_schulz(grad, coefficients, steps, eps):
    """Newton-Schulz iteration of torch.optim.Muon, in the gradient's dtype instead of bf16."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if grad.size(0) > grad.size(1) else x


def muon(exact):
    def make(p):
        if exact:
            torch.optim._muon._zeropower_via_newtonschulz = newton_schulz
        return torch.optim.Muon(
            [{"params": p[:1]}, {"params": p[1:], "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}],
            lr=0.02, weight_decay=0.1, momentum=0.9,
        )

    return make


MUON_RUNS = {"muon": muon(False), "muon_exact": muon(True)}  # in this order


def rosenbrock(x, steep=100):
    return (steep * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bowl(x):
    i = torch.arange(1, len(x) + 1, dtype=x.dtype)
    return (i * (x - 1) ** 2 + (x - 1) ** 4).sum() / 2 + x.sum() ** 2 / 4


def lbfgs(loss_of, **options):
    """A hundred steps of two parameters that are one vector."""
    sizes = [(6,), (2, 2)]
    params = [torch.nn.Parameter(initial(k, torch.float64, sizes)) for k in range(2)]
    optimizer = torch.optim.LBFGS(params, **options)
    kept, trace, evals = [], [], []

    def closure():
        optimizer.zero_grad()
        loss = loss_of(torch.cat([p.flatten() for p in params]))
        loss.backward()
        return loss

    for t in range(1, STEPS + 1):
        trace.append(float(optimizer.step(closure)))
        evals.append(optimizer.state[params[0]]["func_evals"])
        if t in KEPT:
            kept.append(torch.cat([p.detach().flatten() for p in params]).numpy())
    return {"steps": np.stack(kept), "trace": np.array(trace), "evals": np.array(evals)}


LBFGS_RUNS = {
    "lbfgs_wolfe": lambda: lbfgs(lambda x: rosenbrock(x, 10), max_iter=1, line_search_fn="strong_wolfe"),
    "lbfgs_short": lambda: lbfgs(
        rosenbrock, lr=0.5, max_iter=2, max_eval=100, history_size=3, line_search_fn="strong_wolfe"
    ),
    "lbfgs_plain": lambda: lbfgs(bowl, lr=0.25, max_iter=2, max_eval=100, tolerance_change=0, tolerance_grad=0),
}


def train(run, make, dtype, sizes=SIZES):
    params = [torch.nn.Parameter(initial(k, dtype, sizes)) for k in range(len(sizes))]
    optimizer = make(params)
    kept, trace = [], []
    for t in range(1, STEPS + 1):
        for k, p in enumerate(params):
            p.grad = gradient(k, t, dtype, sizes)
        if run == "clipped":
            torch.nn.utils.clip_grad_norm_(params, 1.5)
        optimizer.step()
        flat = torch.cat([p.detach().flatten() for p in params])
        trace.append(float((flat.double() * torch.arange(1, len(flat) + 1)).sum() / len(flat)))
        if t in KEPT:
            kept.append(flat.numpy())
    return {"steps": np.stack(kept), "trace": np.array(trace)}


def warmup_cosine(o):
    return schedules.SequentialLR(
        o,
        [
            schedules.LinearLR(o, start_factor=0.1, total_iters=5),
            schedules.CosineAnnealingLR(o, T_max=20, eta_min=0.001),
            schedules.ExponentialLR(o, gamma=0.5),
        ],
        milestones=[5, 22],
    )


SCHEDULES = {
    "step": lambda o: schedules.StepLR(o, step_size=4, gamma=0.3),
    "multi_step": lambda o: schedules.MultiStepLR(o, milestones=[7, 3, 11, 3], gamma=0.5),
    "exponential": lambda o: schedules.ExponentialLR(o, gamma=0.9),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, T_max=10, eta_min=0.002),
    "linear": lambda o: schedules.LinearLR(o, start_factor=0.25, end_factor=0.9, total_iters=6),
    "lambda": lambda o: schedules.LambdaLR(o, [lambda t: 0.95**t, lambda t: 1 / (t + 1)]),
    "warmup_cosine": warmup_cosine,
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2, eta_min=0.001),
    "restarts_even": lambda o: schedules.CosineAnnealingWarmRestarts(o, T_0=7),
    "one_cycle": lambda o: schedules.OneCycleLR(o, max_lr=0.5, total_steps=31, cycle_momentum=False),
    "one_cycle_phases": lambda o: schedules.OneCycleLR(
        o,
        max_lr=0.3,
        total_steps=34,
        pct_start=0.25,
        anneal_strategy="linear",
        cycle_momentum=False,
        div_factor=10,
        final_div_factor=100,
        three_phase=True,
    ),
    "polynomial": lambda o: schedules.PolynomialLR(o, total_iters=20, power=1.7),
}
PLATEAUS = {
    "plateau": {"factor": 0.5, "patience": 2, "threshold": 0.05, "cooldown": 1},
    "plateau_max": {"mode": "max", "factor": 0.3, "patience": 1, "threshold_mode": "abs", "min_lr": 0.005},
}


def plateau(options):
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": params[:1], "lr": 0.1}, {"params": params[1:], "lr": 0.04}])
    schedule = schedules.ReduceLROnPlateau(optimizer, **options)
    rows = []
    for t in range(30):
        schedule.step((t * 37 % 11 - t) / 8)
        rows.append([g["lr"] for g in optimizer.param_groups])
    return np.array(rows)


def rates(make):
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": params[:1], "lr": 0.1}, {"params": params[1:], "lr": 0.04}])
    schedule = make(optimizer)
    rows = [[g["lr"] for g in optimizer.param_groups]]
    for _ in range(30):
        optimizer.step()
        schedule.step()
        rows.append([g["lr"] for g in optimizer.param_groups])
    return np.array(rows)


def clip(kind, dtype):
    params = [torch.nn.Parameter(initial(k, dtype)) for k in range(len(SIZES))]
    for k, p in enumerate(params):
        p.grad = gradient(k, 1, dtype)
    parts = []
    if kind == "value":
        torch.nn.utils.clip_grad_value_(params, 0.4)
    else:
        order, limit = kind
        parts.append(torch.nn.utils.clip_grad_norm_(params, limit, norm_type=order).reshape(1))
    parts += [p.grad.flatten() for p in params if p.grad is not None]
    return torch.cat(parts).numpy()


def mlp(dtype):
    """20-16-5, ReLU, cross-entropy, four batches in turn, clipping, AdamW, warm-up and cosine."""

    def values(n, k, unit):
        return torch.tensor([((i * 271 + k * 97 + 13) % 401 - 200) / unit for i in range(n)], dtype=dtype)

    shapes = [(16, 20), (16,), (5, 16), (5,)]
    params = [torch.nn.Parameter(values(int(np.prod(s)), k, 512).reshape(s)) for k, s in enumerate(shapes)]
    x = values(64 * 20, 9, 128).reshape(4, 16, 20)
    y = torch.tensor([i * i % 7 % 5 for i in range(64)]).reshape(4, 16)
    optimizer = torch.optim.AdamW(params, lr=0.02)
    schedule = schedules.SequentialLR(
        optimizer,
        [
            schedules.LinearLR(optimizer, start_factor=0.1, total_iters=10),
            schedules.CosineAnnealingLR(optimizer, T_max=90),
        ],
        milestones=[10],
    )
    losses = []
    for t in range(STEPS):
        hidden = torch.relu(torch.nn.functional.linear(x[t % 4], params[0], params[1]))
        loss = torch.nn.functional.cross_entropy(
            torch.nn.functional.linear(hidden, params[2], params[3]), y[t % 4]
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 0.5)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return np.array(losses)


CLIPS = {
    "2": (2.0, 1.25),
    "1": (1.0, 5.0),
    "inf": (float("inf"), 0.5),
    "3": (3.0, 0.75),
    "below": (2.0, 1000.0),
    "value": "value",
}


def main():
    out = {}
    for name, dtype in DTYPES.items():
        for run, make in RUNS.items():
            out |= {f"{run}.{name}.{key}": v for key, v in train(run, make, dtype).items()}
        out[f"mlp.{name}"] = mlp(dtype)
        for kind, setting in CLIPS.items():
            out[f"clip.{kind}.{name}"] = clip(setting, dtype)
    for run, make in MUON_RUNS.items():
        for name, dtype in DTYPES.items():
            out |= {f"{run}.{name}.{key}": v for key, v in train(run, make, dtype, MATRICES).items()}
    for run, make in LBFGS_RUNS.items():
        out |= {f"{run}.{key}": v for key, v in make().items()}
    for name, make in SCHEDULES.items():
        out[f"lr.{name}"] = rates(make)
    for name, options in PLATEAUS.items():
        out[f"lr.{name}"] = plateau(options)
    np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "optim.npz", **out)


main()
