"""Parts around optimizers, beside PyTorch's: groups, schedules, clipping, loss scaling, averages."""
import copy
import gc
import math
import pickle

import numpy as np
import pytest

import cotangent as ct
from beside import late_groups
from cotangent import nn, optim


def leaves(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=3).astype(np.float32)]


def ours_of(arrays):
    return [ct.tensor(a, requires_grad=True) for a in arrays]


def theirs_of(arrays):
    import torch
    return [torch.tensor(a, requires_grad=True) for a in arrays]


def loss_of(params):
    w, b = params
    return ((w * w).sum() + (w.sum() * b).sum() ** 2).sum()


def agree(ours, theirs, atol=1e-5):
    for a, b in zip(ours, theirs):
        assert np.allclose(a.detach().numpy(), b.detach().numpy(), atol=atol)


# ---- Groups ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, first, options", [
    ("SGD", {"lr": 0.01}, {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.05}, {"lr": 1e-3, "betas": (0.8, 0.99)}),
    ("AdamW", {"weight_decay": 0.0}, {"lr": 0.02, "weight_decay": 0.5}), ("RMSprop", {"alpha": 0.9}, {"lr": 0.02}),
    ("Adagrad", {"lr": 0.5}, {"lr": 0.1, "lr_decay": 0.1})])
def test_groups_are_pytorchs(name, first, options):
    torch = pytest.importorskip("torch")
    if not late_groups(name):
        pytest.skip("PyTorch's Adagrad forgets it")
    made = []
    for maker, params in ((optim, ours_of(leaves())), (torch.optim, theirs_of(leaves()))):
        optimizer = getattr(maker, name)([{"params": params[0], **first}], **options)
        optimizer.add_param_group({"params": [params[1]]})
        for step in range(6):
            optimizer.zero_grad(set_to_none=True)
            (loss_of(params) * 0.01).backward()
            optimizer.step()
            if step == 2:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.5
        made.append((optimizer, params))
    (ours, mine), (theirs, others) = made
    agree(mine, others)
    for mine, other in zip(ours.param_groups, theirs.param_groups):
        assert len(mine["params"]) == len(other["params"]) == 1
        for key in {"lr", "betas", "momentum", "weight_decay", "alpha", "lr_decay", "eps"} & set(other):
            assert mine[key] == pytest.approx(other[key]), key
    assert ours.lr == ours.param_groups[0]["lr"] and len(ours.param_groups) == 2
    assert ours.defaults["lr"] == options["lr"]


@pytest.mark.parametrize("form", [
    lambda p: p, tuple, iter, lambda p: ((f"n{i}", one) for i, one in enumerate(p)), lambda p: dict(zip("ab", p)),
    lambda p: [{"params": p}], lambda p: [{"params": p[:1]}, {"params": (one for one in p[1:]), "lr": 0.1}]])
def test_forms_of_parameters(form):
    params = ours_of(leaves())
    optimizer = optim.SGD(form(params), lr=0.1)
    loss_of(params).backward()
    expected = [p.detach().numpy() - 0.1 * p.grad.numpy() for p in params]
    optimizer.step()
    for p, e in zip(params, expected):
        assert np.allclose(p.detach().numpy(), e)


def test_a_state_goes_on():
    def run(steps, state=None, params=None):
        params = params or ours_of(leaves())
        optimizer = optim.Adam([{"params": params[:1]}, {"params": params[1:], "lr": 0.1}], lr=0.01)
        if state:
            optimizer.load_state_dict(state)
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(params).backward()
            optimizer.step()
        return params, optimizer
    whole, _ = run(6)
    params, optimizer = run(3)
    optimizer.param_groups[1]["lr"] = 0.1
    rest, again = run(3, optimizer.state_dict(), params)
    assert [p.tolist() for p in rest] == [p.tolist() for p in whole] and again.param_groups[1]["lr"] == 0.1


@pytest.mark.parametrize("call, error, match", [
    (lambda x: optim.SGD(x, lr=0.1), TypeError, "params is a Tensor"),
    (lambda x: optim.SGD([[x]]), TypeError, "one of params is a list"),
    (lambda x: optim.SGD([{"lr": 0.1}]), TypeError, "'params'"),
    (lambda x: optim.SGD([{"params": [x], "speed": 1}]), TypeError, "speed"),
    (lambda x: optim.SGD([x], momentum=True), TypeError, "momentum is a bool"),
    (lambda x: optim.Adam([x], betas=0.9), TypeError, "betas"),
    (lambda x: optim.Adam([x], betas=(0.9, 0.9), beta1=0.8), TypeError, "twice"),
    (lambda x: optim.Adam([x], betas=(0.9, 1.0)), ct.ValueError, "beta"),
    (lambda x: optim.SGD([x], 0.1, 0.9, 0.0, 0.0, False, True, 1), TypeError, "by position"),
    (lambda x: optim.SGD([x]).add_param_group({"params": [x]}), ct.ValueError, "twice|already"),
    (lambda x: optim.SGD([x]).param_groups[0].__setitem__("momentum", 0.9), TypeError, "state_dict"),
    (lambda x: optim.SGD([x]).param_groups[0].__setitem__("lr", -1), ct.ValueError, "lr"),
    (lambda x: optim.SGD([x]).param_groups[0]["betas"], KeyError, "betas"),
    (lambda x: pickle.dumps(optim.SGD([x])), TypeError, "state_dict"),
    (lambda x: copy.deepcopy(optim.Adam([x])), TypeError, "state_dict"),
    (lambda x: optim.StepLR(optim.SGD([x]), T_mid=3), TypeError, "T_mid"),
    (lambda x: optim.ReduceLROnPlateau(optim.SGD([x]), "best"), ct.ValueError, "min max"),
    (lambda x: optim.LambdaLR(optim.SGD([x])), TypeError, "lr_lambda"),
    (lambda x: optim.LambdaLR(optim.SGD([x]), lambda t: "x"), TypeError, "factor"),
    (lambda x: optim.LambdaLR(optim.SGD([x]), [len, len]), ct.ValueError, "2 functions"),
    (lambda x: optim.clip_grad_norm_(3, 1.0), TypeError, "iterable"),
    (lambda x: optim.GradScaler(growth_factor=1.0), ct.ValueError, "growth_factor"),
    (lambda x: optim.Ema([x], decay=1.0), ct.ValueError, "decay"),
    (lambda x: optim.Ema(x), TypeError, "Tensor"),
])
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call(ct.ones(2, requires_grad=True))


def test_decay_groups():
    net = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    groups = optim.AdamW(optim.decay_groups(net, weight_decay=0.1), lr=0.01).param_groups
    assert [g["weight_decay"] for g in groups] == [0.1, 0.0] and [len(g["params"]) for g in groups] == [1, 3]


@pytest.mark.parametrize("name", ["SGD", "LBFGS"])
def test_closures_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    results = []
    for maker, params in ((optim, ours_of(leaves())), (torch.optim, theirs_of(leaves()))):
        optimizer = getattr(maker, name)(params, lr=0.01)

        def closure():
            optimizer.zero_grad()
            loss = loss_of(params)
            loss.backward()
            return loss
        with (ct if maker is optim else torch).no_grad():
            losses = [optimizer.step(closure).item() for _ in range(3)]
        results.append((losses, params))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-3)
    agree(results[0][1], results[1][1], atol=1e-3)
    assert optim.SGD(ours_of(leaves())).step() is None


# ---- Schedules -------------------------------------------------------------------------------------------------------

def both(make, steps=25, rates=(1.0, 0.5)):
    """The rates of both groups over some steps, of ours and of PyTorch's schedule."""
    import torch
    result = []
    for maker, schedules, params in ((optim, optim, ours_of(leaves())),
                                     (torch.optim, torch.optim.lr_scheduler, theirs_of(leaves()))):
        optimizer = maker.SGD([{"params": [p], "lr": rate} for p, rate in zip(params, rates)], lr=0.1)
        schedule = make(schedules, optimizer)
        seen = []
        for _ in range(steps):
            seen.append([group["lr"] for group in optimizer.param_groups])
            assert schedule.get_last_lr() == seen[-1]
            optimizer.step()
            schedule.step()
        result.append(seen)
    return result


@pytest.mark.parametrize("make", [
    lambda s, o: s.StepLR(o, 5, 0.5), lambda s, o: s.StepLR(o, step_size=3),
    lambda s, o: s.MultiStepLR(o, milestones=[4, 9, 9], gamma=0.3), lambda s, o: s.MultiStepLR(o, [4, 2]),
    lambda s, o: s.ExponentialLR(o, 0.9), lambda s, o: s.CosineAnnealingLR(o, T_max=10, eta_min=0.1),
    lambda s, o: s.CosineAnnealingLR(o, 7),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2, eta_min=0.01),
    lambda s, o: s.LinearLR(o, start_factor=0.1, total_iters=6), lambda s, o: s.LinearLR(o, 0.5, 0.8, 6),
    lambda s, o: s.PolynomialLR(o, total_iters=8, power=2.0), lambda s, o: s.LambdaLR(o, lambda t: 0.9 ** t),
    lambda s, o: s.LambdaLR(o, lr_lambda=[lambda t: 1 / (1 + t), lambda t: np.float64(0.5)]),
    lambda s, o: s.OneCycleLR(o, max_lr=2.0, total_steps=26, cycle_momentum=False) if s is not optim
    else s.OneCycleLR(o, max_lr=2.0, total_steps=26),
    lambda s, o: s.OneCycleLR(o, 2.0, epochs=13, steps_per_epoch=2, anneal_strategy="linear", **(
        {} if s is optim else {"cycle_momentum": False})),
    lambda s, o: s.SequentialLR(o, schedulers=[s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, T_max=20)],
                                milestones=[5]),
], ids=range(16))
@pytest.mark.filterwarnings("ignore")
def test_schedules_are_pytorchs(make):
    pytest.importorskip("torch")
    ours, theirs = both(make)
    assert np.allclose(ours, theirs, atol=1e-12) and len({tuple(one) for one in ours}) > 2


@pytest.mark.parametrize("options", [
    {"mode": "min", "patience": 1}, {"mode": "max", "factor": 0.5, "patience": 0},
    {"patience": 2, "threshold": 0.5, "threshold_mode": "abs", "cooldown": 2, "min_lr": 0.01}])
def test_plateaus_are_pytorchs(options):
    torch = pytest.importorskip("torch")
    values = [3, 2, 2.1, 2.2, 2, 1, 1.1, 1.2, 1.3, math.nan, 1.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    mine, theirs = optim.SGD(ours_of(leaves()), lr=1.0), torch.optim.SGD(theirs_of(leaves()), lr=1.0)
    ours = optim.ReduceLROnPlateau(mine, **options)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for value in values:
        reduced = mine.lr
        assert ours.step(ct.tensor(value)) or mine.lr == reduced
        other.step(value)
        assert mine.lr == pytest.approx(theirs.param_groups[0]["lr"])
    assert mine.lr < 1 and ours.best == pytest.approx(other.best)
    again = optim.ReduceLROnPlateau(mine, "max" if options.get("mode") == "max" else "min")
    again.load_state_dict(ours.state_dict())
    assert again.best == ours.best


@pytest.mark.parametrize("make", [lambda o: optim.StepLR(o, 1), lambda o: optim.StepLR(optimizer=o, step_size=1),
                                  optim.ReduceLROnPlateau, lambda o: optim.LambdaLR(o, lambda t: 0.5)])
def test_a_schedule_keeps_its_optimizer(make):
    schedule = make(optim.SGD([ct.ones(1, requires_grad=True)], lr=1.0))
    if not isinstance(schedule, optim.LambdaLR):  # whose functions are there
        vars(schedule).clear()
    gc.collect()
    schedule.step(*[1.0] * isinstance(schedule, optim.ReduceLROnPlateau))
    assert schedule.state_dict()


# ---- Clipping, scaling, averages -------------------------------------------------------------------------------------

@pytest.mark.parametrize("norm", [2, 1, 3.0, "inf", math.inf])
@pytest.mark.parametrize("single", [False, True])
def test_clipping_is_pytorchs(norm, single):
    torch = pytest.importorskip("torch")
    ours, theirs = ours_of(leaves()), theirs_of(leaves())
    loss_of(ours).backward()
    loss_of(theirs).backward()
    mine, other = (ours[0], theirs[0]) if single else (iter(ours), theirs)
    clip = torch.nn.utils.clip_grad_norm_(other, 0.5, norm_type=norm)
    assert optim.clip_grad_norm_(mine, max_norm=0.5, norm_type=norm).item() == pytest.approx(clip.item(), rel=1e-5)
    agree([p.grad for p in ours], [p.grad for p in theirs])
    optim.clip_grad_value_(ours[1] if single else ours, 0.01)
    torch.nn.utils.clip_grad_value_(theirs[1] if single else theirs, 0.01)
    agree([p.grad for p in ours], [p.grad for p in theirs])


def test_a_norm_that_is_none():
    (x,) = ours = ours_of(leaves()[:1])
    x.grad = ct.full((3, 2), math.inf)
    with pytest.raises(ct.ValueError, match="inf"):
        optim.clip_grad_norm_(ours, 1.0, error_if_nonfinite=True)
    assert x.grad.tolist() == [[math.inf] * 2] * 3 and math.isinf(optim.clip_grad_norm_(ours, 1.0).item())


def test_the_scaler_is_pytorchs():
    torch = pytest.importorskip("torch")
    options = {"init_scale": 1024.0, "growth_interval": 2}
    ours, theirs = ours_of(leaves()), theirs_of(leaves())
    mine, other = optim.SGD(ours, lr=0.01), torch.optim.SGD(theirs, lr=0.01)
    scaler, expected = optim.GradScaler(**options), torch.amp.GradScaler("cpu", **options)
    scales = []
    for factor in (1.0, 1.0, math.inf, 1.0, 1.0, 1.0):
        before = [p.tolist() for p in ours]
        for s, o, params in ((scaler, mine, ours), (expected, other, theirs)):
            o.zero_grad()
            s.scale(loss_of(params) * factor).backward()
            s.unscale_(o)
            s.step(o)
            s.update()
        assert (before == [p.tolist() for p in ours]) == math.isinf(factor)
        agree(ours, theirs)
        scales.append(scaler.get_scale())
        assert scales[-1] == expected.get_scale()
    assert scales == [1024, 2048, 1024, 1024, 2048, 2048] and scaler.is_enabled()
    again = optim.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == 2048
    again.update(8.0)
    assert again.get_scale() == 8 and optim.GradScaler(enabled=False).scale(ct.ones(())).item() == 1


@pytest.mark.parametrize("whole", [False, True])
def test_averages(whole):
    net = nn.Linear(2, 1)
    ema = optim.Ema(net if whole else net.parameters(), decay=0.9)
    expected = [p.detach().numpy().copy() for p in ema.averages]
    sgd = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        sgd.zero_grad()
        net(ct.ones(4, 2)).square().mean().backward()
        sgd.step()
        ema.update()
        now = [p.detach().numpy() for p in sgd.param_groups[0]["params"]]
        expected = [e + 0.1 * (p - e) for e, p in zip(expected, now)]
    trained = [p.detach().numpy().copy() for p in sgd.param_groups[0]["params"]]
    agree(ema.averages, [ct.tensor(e) for e in expected])
    with pytest.raises(ZeroDivisionError), ema.scope():
        agree(sgd.param_groups[0]["params"], ema.averages)
        assert ema.applied
        with pytest.raises(ct.ValueError):
            ema.update()
        1 / 0
    agree(sgd.param_groups[0]["params"], [ct.tensor(t) for t in trained])
    assert not ema.applied and ema.updates == 3
    again = optim.Ema(net if whole else net.parameters())
    again.load_state_dict(ema.state_dict())
    assert again.updates == 3
    agree(again.averages, ema.averages)
