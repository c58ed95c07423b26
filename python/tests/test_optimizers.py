"""Every optimizer and schedule beside torch.optim: required arguments alone, each option, groups with their own."""
import inspect
import math

import numpy as np
import pytest

import cotangent as ct
from beside import late_groups
from cotangent import nn, optim

STEPS = 10
GENERATED = [name for name in optim.__all__ if isinstance(getattr(optim, name), type)]
# name -> (PyTorch's class, or None and a formula; options, each of which is tried alone)
OPTIMIZERS = {
    "SGD": ("SGD", [{"lr": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5}, {"weight_decay": 0.1},
                    {"momentum": 0.9, "nesterov": True}]),
    "Adam": ("Adam", [{"lr": 0.1}, {"betas": (0.5, 0.9)}, {"eps": 0.1}, {"weight_decay": 0.1},
                      {"amsgrad": True, "lr": 0.1}]),
    "AdamW": ("AdamW", [{"lr": 0.1}, {"betas": [0.5, 0.9]}, {"eps": 0.1}, {"weight_decay": 0.5},
                        {"amsgrad": True, "lr": 0.1}]),
    "RMSprop": ("RMSprop", [{"lr": 0.1}, {"alpha": 0.5}, {"eps": 0.1}, {"weight_decay": 0.1}, {"momentum": 0.9},
                            {"centered": True}]),
    "Adagrad": ("Adagrad", [{"lr": 0.1}, {"lr_decay": 0.5}, {"weight_decay": 0.1}, {"initial_accumulator_value": 0.5},
                            {"eps": 0.1}]),
    "Muon": ("Muon", [{"lr": 0.01}, {"weight_decay": 0.5}, {"momentum": 0.5}, {"nesterov": False},
                      {"ns_coefficients": (3.0, -4.0, 2.0)},
                      {"eps": 100.0}, {"ns_steps": 3}, {"adjust_lr": "match_rms_adamw"}]),
    "Lion": (None, [{"lr": 0.1}, {"lr": 0.1, "betas": (0.1, 0.2)}, {"weight_decay": 0.1}]),
    "LBFGS": ("LBFGS", [{"lr": 0.1}, {"max_iter": 3}, {"max_iter": 4, "max_eval": 2}, {"max_eval": None},
                        {"tolerance_grad": 1.0},
                        {"tolerance_change": 1.0}, {"history_size": 1}, {"lr": 3.0, "line_search": "strong_wolfe"}]),
}
# Where a parameter's own default is asked for by another name, or PyTorch has none.
BETAS = {"beta1", "beta2"}
ELSEWHERE = {"master_weights", "ns_dtype"}  # test_options_without_a_counterpart


class Lion:
    """Chen et al. 2023."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        import torch
        self.params, self.lr, self.betas, self.decay = list(params), lr, betas, weight_decay
        self.m = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        import torch
        with torch.no_grad():
            for p, m in zip(self.params, self.m):
                update = (self.betas[0] * m + (1 - self.betas[0]) * p.grad).sign()
                p.mul_(1 - self.lr * self.decay).sub_(self.lr * update)
                m.mul_(self.betas[1]).add_((1 - self.betas[1]) * p.grad)


def start(matrices=False):
    rng = np.random.default_rng(5)
    return [rng.normal(size=s) for s in ((4, 3), (3, 2) if matrices else (3,))]


def loss(a, b):
    """Neither convex nor with a gradient that vanishes."""
    return (a.exp().sum(0) * 0.1).sum() + ((a.sum() - 1.5) ** 2) * 0.2 + (b * b).sum() + b.sum() * 0.3


def descend(optimizer, params, steps=STEPS):
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(*params)
        value.backward()
        optimizer.step()
    return params


def close(a, b, what, tolerance=1e-7):
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=tolerance, atol=tolerance / 5,
                                   err_msg=str(what))


def both(name, options, steps=STEPS):
    import torch
    theirs = OPTIMIZERS[name][0]
    arrays = start(name == "Muon")
    mine = [ct.tensor(a, requires_grad=True) for a in arrays]
    yours = [torch.tensor(a, requires_grad=True) for a in arrays]
    named = {{"line_search": "line_search_fn", "adjust_lr": "adjust_lr_fn"}.get(k, k): v for k, v in options.items()}
    first = getattr(optim, name)(mine, **options)
    second = getattr(torch.optim, theirs)(yours, **named) if theirs else Lion(yours, **named)
    if name == "LBFGS":
        def closure():
            second.zero_grad()
            value = loss(*yours)
            value.backward()
            return value

        def ours():
            first.zero_grad()
            value = loss(*mine)
            value.backward()
            return value
        for _ in range(2):  # each of 20 iterations, which double what the last bits differ by
            first.step(ours)
            second.step(closure)
    else:
        descend(first, mine, steps)
        descend(second, yours, steps)
    return mine, yours


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    if OPTIMIZERS[name][0] and not hasattr(torch.optim, OPTIMIZERS[name][0]):
        pytest.skip("this PyTorch has no " + name)
    usual, small = both(name, {})[0], both(name, {"lr": 0.1})[0]
    for options in [{}, *OPTIMIZERS[name][1]]:
        mine, yours = both(name, options)
        close(mine, yours, (name, options), 2e-2 if name == "Muon" else 1e-7)  # whose products are in bf16
        assert any(p.tolist() != a.tolist() for p, a in zip(mine, start(name == "Muon"))) or "tolerance_grad" in options
        if options and options != {"max_eval": None}:
            beside = small if "lr" in options and len(options) > 1 else usual
            assert [p.tolist() for p in mine] != [p.tolist() for p in beside], (name, options, "changes nothing")
    given = set().union(*OPTIMIZERS[name][1]) | (BETAS if name in ("Adam", "AdamW", "Lion") else set())
    if "__signature__" in vars(getattr(optim, name)):
        assert set(inspect.signature(getattr(optim, name)).parameters) - {"params"} - ELSEWHERE <= given


def test_each_optimizer_and_schedule_is_tested():
    known = {*OPTIMIZERS, *SCHEDULES, "ReduceLROnPlateau", "Optimizer", "LRScheduler", "LambdaLR", "SequentialLR",
             "GradScaler", "Ema", "ParamGroup"}
    assert set(GENERATED) <= known and {*OPTIMIZERS, *SCHEDULES} <= set(GENERATED)


def test_betas_have_names_of_their_own_and_options_positions():
    for name in ("Adam", "AdamW", "Lion"):
        results = []
        for options in ({"betas": (0.5, 0.8)}, {"beta1": 0.5, "beta2": 0.8}):
            params = [ct.tensor(a, requires_grad=True) for a in start()]
            results.append([p.tolist() for p in descend(getattr(optim, name)(params, 0.1, **options), params)])
        assert results[0] == results[1]


def test_pytorchs_names_of_options_are_ours():
    p = ct.ones(2, 2, requires_grad=True)
    assert optim.Muon([p], adjust_lr_fn="match_rms_adamw").defaults["adjust_lr"] == "match_rms_adamw"
    assert optim.LBFGS([{"params": p}], line_search_fn="strong_wolfe").defaults["line_search"] == "strong_wolfe"
    with pytest.raises(TypeError, match="several values were given for 'steps'"):
        optim.LinearLR(optim.SGD([p]), total_iters=3, steps=4)


def test_options_without_a_counterpart():
    for on in (True, False):
        p = ct.ones(3, dtype=ct.bf16, requires_grad=True)
        sgd = optim.SGD([p], lr=1e-3, master_weights=on)
        for _ in range(8):
            sgd.zero_grad()
            p.sum().backward()
            sgd.step()
        assert (p.tolist() == [1, 1, 1]) is not on  # a step is less than half of what bf16 tells apart below 1
    made = {}
    for dtype in (ct.f32, ct.bf16):
        p = ct.tensor(start()[0], requires_grad=True)
        muon = optim.Muon([p], ns_dtype=dtype)
        p.exp().sum().backward()
        muon.step()
        made[dtype] = p.tolist()
    assert made[ct.f32] != made[ct.bf16] and np.allclose(made[ct.f32], made[ct.bf16], atol=1e-4)


def test_parameters_are_tensors_pairs_generators_or_groups():
    torch = pytest.importorskip("torch")
    results = []
    for wrap in (list, tuple, iter, lambda p: ((str(i), one) for i, one in enumerate(p)), lambda p: [{"params": p}],
                 lambda p: [{"params": [p[0]]}, {"params": p[1]}]):
        params = [ct.tensor(a, requires_grad=True) for a in start()]
        results.append([p.tolist() for p in descend(optim.Adam(wrap(params), lr=0.1), params)])
    assert all(r == results[0] for r in results)
    for name in filter(late_groups, ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")):
        mine, yours = [ct.tensor(a, requires_grad=True) for a in start()], [torch.tensor(a, requires_grad=True)
                                                                            for a in start()]
        for kind, params in ((getattr(optim, name), mine), (getattr(torch.optim, name), yours)):
            optimizer = kind([{"params": [params[0]], "lr": 0.2, "weight_decay": 0.1}], lr=0.01)
            optimizer.add_param_group({"params": params[1]})
            descend(optimizer, params)
        close(mine, yours, name)


def test_groups_have_betas():
    torch = pytest.importorskip("torch")
    mine, yours = [ct.tensor(a, requires_grad=True) for a in start()], [torch.tensor(a, requires_grad=True)
                                                                        for a in start()]
    for kind, params in ((optim.Adam, mine), (torch.optim.Adam, yours)):
        descend(kind([{"params": [params[0]], "betas": (0.5, 0.8)}, {"params": [params[1]], "lr": 0.2}], lr=0.1),
                params)
    close(mine, yours, "betas")


# name -> (arguments, options, how PyTorch's are called)
SCHEDULES = {
    "StepLR": ((3,), [{"gamma": 0.5}]), "MultiStepLR": (([2, 5],), [{"gamma": 0.5}]), "ExponentialLR": ((0.9,), []),
    "CosineAnnealingLR": ((6,), [{"min_lr": 0.25}]), "CosineAnnealingWarmRestarts": ((3,),
        [{"multiplier": 2}, {"min_lr": 0.25}]),
    "OneCycleLR": ((2.0, 12), [{"pct_start": 0.5}, {"linear": True}, {"div_factor": 5.0}, {"final_div_factor": 10.0},
                               {"three_phase": True, "pct_start": 0.4}]),
    "PolynomialLR": ((), [{"steps": 8}, {"power": 2.0}]), "LinearLR": ((),
        [{"start_factor": 0.5}, {"end_factor": 0.5}, {"steps": 8}])}
TORCHS = {"CosineAnnealingLR": {"min_lr": "eta_min"}, "CosineAnnealingWarmRestarts": {"multiplier": "T_mult",
                                                                                      "min_lr": "eta_min"},
          "PolynomialLR": {"steps": "total_iters"}, "LinearLR": {"steps": "total_iters"}}


def rates(make, steps=11):
    """The rates of two groups before each step."""
    groups = [{"params": [ct.zeros(1, requires_grad=True)]}, {"params": [ct.zeros(1, requires_grad=True)], "lr": 0.5}]
    optimizer = optim.SGD(groups, lr=1.0)
    schedule, found = make(optimizer), []
    for _ in range(steps):
        found.append(list(schedule.last_lr))
        optimizer.step()
        schedule.step()
    return found


def torchs_rates(make, steps=11):
    import torch
    groups = [{"params": [torch.zeros(1, requires_grad=True)]},
              {"params": [torch.zeros(1, requires_grad=True)], "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    schedule, found = make(optimizer), []
    for _ in range(steps):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    args, options = SCHEDULES[name]
    required = [p.name for p in list(inspect.signature(getattr(optim, name)).parameters.values())[1:]
                if p.default is p.empty]
    usual = rates(lambda o: getattr(optim, name)(o, *args))
    assert usual == rates(lambda o: getattr(optim, name)(optimizer=o, **dict(zip(required, args))))
    for one in [{}, *options]:
        named = {TORCHS.get(name, {}).get(key, key): value for key, value in one.items()}
        mine = rates(lambda o: getattr(optim, name)(o, *args, **one))
        if "linear" in named:
            named = {"anneal_strategy": "linear"}
        if name == "OneCycleLR":
            named["cycle_momentum"] = False
        np.testing.assert_allclose(mine, torchs_rates(lambda o: getattr(torch.optim.lr_scheduler, name)(o, *args,
            **named)), rtol=1e-6)
        assert mine != usual or not one, (name, one, "changes nothing")
        if name in TORCHS:
            assert mine == rates(lambda o: getattr(optim, name)(o, *args, **named))
    assert set(inspect.signature(getattr(optim, name)).parameters) - {"optimizer", *required} == set().union(*options)


def test_a_function_is_a_schedule():
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(rates(lambda o: optim.LambdaLR(o, lambda t: 0.9 ** t)),
                               torchs_rates(lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda t: 0.9 ** t)))


PLATEAU = [{}, {"factor": 0.5}, {"patience": 1}, {"threshold": 0.5, "patience": 1}, {"cooldown": 3, "patience": 1},
           {"min_lr": 0.4, "patience": 0}, {"eps": 0.95, "patience": 0}, {"maximize": True, "patience": 1},
           {"absolute": True, "threshold": 0.05, "patience": 1}]


@pytest.mark.skipif(not hasattr(optim, "ReduceLROnPlateau"), reason="it is bound in another part")
def test_a_plateau_is_pytorchs():
    torch = pytest.importorskip("torch")
    values = [1.0, 0.9, 0.89, 0.88, 0.9, 0.9, 0.7, 0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 0.6, math.nan] + [0.65] * 10
    for options in PLATEAU:
        named = dict(options)
        if named.pop("maximize", False):
            named["mode"] = "max"
        if named.pop("absolute", False):
            named["threshold_mode"] = "abs"
        mine, yours = optim.SGD([ct.zeros(1, requires_grad=True)],
                                lr=1.0), torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        first, second = optim.ReduceLROnPlateau(mine, **options), torch.optim.lr_scheduler.ReduceLROnPlateau(yours,
                                                                                                             **named)
        for value in values:
            first.step(value)
            second.step(value)
            rate = mine.param_groups[0]["lr"] if hasattr(mine, "param_groups") else mine.lr
            assert math.isclose(rate, yours.param_groups[0]["lr"], rel_tol=1e-9), (options, value)


BAD = [
    (lambda: optim.SGD(), TypeError, "params"),
    (lambda: optim.SGD(None), TypeError, r"\[SGD\]"),
    (lambda: optim.SGD(ct.zeros(3, requires_grad=True)), TypeError, r"\[SGD\]"),
    (lambda: optim.SGD([1.0]), TypeError, r"\[SGD\] .* is a float"),
    (lambda: optim.SGD([np.ones(2)]), TypeError, r"\[SGD\] .* is a ndarray"),
    (lambda: optim.SGD(params(), lr="1"), TypeError, r"\[SGD\] lr is a str; a number is wanted"),
    (lambda: optim.SGD(params(), lr=None), TypeError, r"\[SGD\] lr is a NoneType"),
    (lambda: optim.SGD(params(), lr=math.nan), ValueError, r"\[SGD\]"),
    (lambda: optim.SGD(params(), nesterov=1), TypeError, r"\[SGD\] nesterov is a int; True or False"),
    (lambda: optim.SGD(params(), learning_rate=1), TypeError,
     r"\[SGD\] there is no argument 'learning_rate'; it is SGD\(params, lr="),
    (lambda: optim.SGD(params(), 0.1, lr=1.0), TypeError, r"\[SGD\] several values were given for 'lr'"),
    (lambda: optim.SGD(params(), *[0.0] * 9), TypeError, r"\[SGD\] takes 6 arguments by position, and got 9"),
    (lambda: optim.SGD([{"lr": 1.0}]), TypeError, r"\[SGD\] a group has no 'params'"),
    (lambda: optim.SGD([{"params": params(), "rate": 1.0}]), TypeError, r"\[SGD\] there is no argument 'rate'"),
    (lambda: optim.Adam(params(), betas=0.9), TypeError, r"\[Adam\] betas is a float; a pair of numbers is wanted"),
    (lambda: optim.Adam(params(), betas=(0.9, "1")), TypeError, r"\[Adam\] beta2 is a str"),
    (lambda: optim.Adam(params(), betas=(0.9, 1.5)), ValueError, r"\[Adam\]"),
    (lambda: optim.StepLR(None, 3), TypeError, r"\[StepLR\] optimizer is a NoneType; a cotangent.Optimizer is wanted"),
    (lambda: optim.StepLR(sgd(), 2.0), TypeError, r"\[StepLR\] step_size is a float; an int is wanted"),
    (lambda: optim.StepLR(sgd(), 0), ValueError, r"\[StepLR\]"),
    (lambda: optim.MultiStepLR(sgd(), 3), TypeError, r"\[MultiStepLR\] milestones is a int; a sequence of ints"),
    (lambda: optim.CosineAnnealingLR(sgd(), 2, T_max=2), TypeError, r"\[CosineAnnealingLR\] several values were given for 'T_max'"),
]


def params():
    return list(dict(nn.Linear(2, 3).named_parameters()).values())


def sgd():
    return optim.SGD(params(), lr=0.1)


@pytest.mark.parametrize("call, error, words", BAD)
def test_bad_calls_say_what_is_wanted_and_the_next_one_works(call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert optim.StepLR(sgd(), 3).last_lr == [0.1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_a_schedule_needs_is_asked_for(name):
    args = SCHEDULES[name][0]
    if args:
        with pytest.raises(TypeError, match=rf"\[{name}\] missing a required argument"):
            getattr(optim, name)(sgd())
    assert getattr(optim, name)(sgd(), *args).last_lr
