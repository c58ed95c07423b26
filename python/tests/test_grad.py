"""Gradients of tensors and functions, modes of a thread, generators, beside PyTorch's."""
import json
import math
import pickle
import threading

import numpy as np
import pytest

import cotangent as ct
from cotangent import nn


def arrays():
    rng = np.random.default_rng(0)
    return rng.normal(size=3), rng.normal(size=3)


def f(x, y):
    return (x * x * y).sum() + (x * y).sum() ** 2


# ---- Gradients -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call", [
    lambda m, x, y: m.grad(f(x, y), x), lambda m, x, y: m.grad([f(x, y)], [x, y]),
    lambda m, x, y: m.grad(f(x, y), (y, x)),
    lambda m, x, y: m.grad(x * y, x, y.detach()), lambda m, x, y: m.grad([x * y, x.sum()], [x], [y.detach(), None]),
    lambda m, x, y: m.grad(m.grad(f(x, y), x, create_graph=True)[0].sum(), [x, y]),
    lambda m, x, y: m.grad(x.sum(), [x, y], allow_unused=True)], ids=range(7))
def test_grad_is_pytorchs(call):
    torch = pytest.importorskip("torch")
    ours = call(ct, *(ct.tensor(a, requires_grad=True) for a in arrays()))
    theirs = call(torch.autograd, *(torch.tensor(a, requires_grad=True) for a in arrays()))
    assert isinstance(ours, tuple) and len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        assert one is other is None or np.allclose(one.detach().numpy(), other.detach().numpy())


def test_a_graph_is_kept_where_it_is_asked_for():
    x = ct.ones(3, requires_grad=True)
    loss = (x * x).sum()
    ct.grad(loss, x, retain_graph=True)
    ct.grad(loss, x)
    with pytest.raises(ct.AutogradError):
        ct.grad(loss, x)
    assert x.grad is None
    for wrong in (3, "x", [3], {}):
        with pytest.raises(TypeError, match="inputs is a"):
            ct.grad((x * x).sum(), wrong)
    with pytest.raises(ct.AutogradError):
        ct.grad(x.sum(), ct.ones(1, requires_grad=True))


def test_functions_are_pytorchs():
    torch = pytest.importorskip("torch")
    theirs = torch.autograd.functional
    (x, y), (a, b) = map(ct.tensor, arrays()), map(torch.tensor, arrays())

    def g(x, y):
        return x * x * y + y.sum()
    value, (dx, dy) = ct.value_and_grad(f)(x, y)
    expected = theirs.vjp(f, (a, b), torch.tensor(1.0, dtype=torch.float64))
    same((value, (dx, dy)), expected)
    same(ct.value_and_grad(lambda x: (x ** 3).sum())(x)[1], 3 * a * a)
    same(ct.vjp(g, (x, y), y), theirs.vjp(g, (a, b), b))
    same(ct.vjp(lambda x: x * x, x, y), theirs.vjp(lambda x: x * x, a, b))
    same(ct.jvp(g, (x, y), (y, x)), theirs.jvp(g, (a, b), (b, a)))
    same(ct.jvp(lambda x: x ** 3, x, y), theirs.jvp(lambda x: x ** 3, a, b))
    same(ct.jacobian(g, (x, y)), theirs.jacobian(g, (a, b)))
    same(ct.jacobian(lambda x: x * x.sum(), x), theirs.jacobian(lambda x: x * x.sum(), a))
    same(ct.hessian(f, (x, y)), theirs.hessian(f, (a, b)))
    same(ct.hessian(lambda x: (x ** 3).sum(), x), theirs.hessian(lambda x: (x ** 3).sum(), a))
    assert x.grad is None and not x.requires_grad


def same(ours, theirs):
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
    else:
        assert np.allclose(ours.detach().numpy(), theirs.detach().numpy()) and ours.shape == tuple(theirs.shape)


@pytest.mark.parametrize("call, error, match", [
    (lambda x: ct.value_and_grad(lambda x: 3)(x), TypeError, "is a int"),
    (lambda x: ct.value_and_grad(lambda x: None)(x), TypeError, "NoneType"),
    (lambda x: ct.value_and_grad(lambda x: x)(x), ct.ShapeError, "one"),
    (lambda x: ct.value_and_grad(lambda x: 1 / 0)(x), ZeroDivisionError, "zero"),
    (lambda x: ct.value_and_grad(lambda x: x.sum())(3.0), TypeError, "inputs"),
    (lambda x: ct.jvp(lambda x: x, x, (x, x)), ct.ValueError, "direction"),
    (lambda x: ct.hessian(lambda x: x, x), ct.ShapeError, "one"),
    (lambda x: ct.jacobian(lambda x: x, ct.ones(2, dtype=ct.i64)), ct.DTypeError, "float"),
    (lambda x: ct.recompute(lambda x: 3, x), TypeError, "int"),
])
def test_bad_functions(call, error, match):
    with pytest.raises(error, match=match):
        call(ct.ones(2, dtype=ct.f64))


def test_recompute_has_the_same_bits():
    block = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4))
    runs, calls = [], []

    def plain(x, scale, *, shift=0.0):
        calls.append(1)
        return block(x) * scale + shift, x * 2

    @ct.recompute
    def decorated(x, scale, *, shift=0.0):
        return plain(x, scale, shift=shift)
    for form in (plain, decorated, lambda *a, **k: ct.checkpoint(plain, *a, use_reentrant=False, **k)):
        ct.manual_seed(3)
        x = ct.ones(2, 4, requires_grad=True)
        for p in block.parameters():
            p.grad = None
        y, z = form(x, 3.0, shift=1.0)
        (y.sum() + z.sum()).backward()
        runs.append([y.tolist(), x.grad.tolist(), *(p.grad.tolist() for p in block.parameters())])
    assert runs[0] == runs[1] == runs[2] and len(calls) == 5
    assert ct.recompute(lambda x: x * 2, ct.ones(1)).tolist() == [2]


def test_anomalies_are_found():
    x = ct.zeros(2, requires_grad=True)
    with ct.detect_anomaly(), pytest.raises(ct.AutogradError, match="log"):
        ct.log(x)
    with ct.detect_anomaly(False):
        assert not ct.anomaly_enabled() and ct.log(x)[0].item() == -math.inf
    ct.set_anomaly(True)
    try:
        with pytest.raises(ct.AutogradError):
            ct.log(x)
    finally:
        ct.set_anomaly(False)
    assert not ct.anomaly_enabled()


def test_explanations(tmp_path):
    net = nn.Linear(3, 2)
    loss = ct.relu(net(ct.ones(4, 3))).square().sum()
    found = ct.explain(loss, names=net, grads=True)
    text = str(found)
    assert "linear" in text and "weight" in text and repr(found) == text and found.ops[0] == "linear"
    assert found.bytes > 0 and found.peak_bytes >= found.bytes
    found.save(tmp_path / "tape.html")
    found.save(str(tmp_path / "tape.dot"))
    found.save(tmp_path / "tape.txt")
    assert (tmp_path / "tape.html").read_text().lstrip().lower().startswith("<!doctype html")
    assert (tmp_path / "tape.dot").read_text().startswith("digraph") and (tmp_path / "tape.txt").read_text() == text
    page = found._repr_html_()
    assert page.startswith("<iframe") and page.count("<iframe") == 1 and "&lt;!doctype" in page.lower()
    loss.backward()
    with pytest.raises(ct.AutogradError):
        ct.explain(loss)
    with pytest.raises(ct.AutogradError):
        ct.explain(ct.ones(1))


def test_profiles(tmp_path):
    net, x = nn.Linear(30, 20), ct.randn(10, 30)
    found = ct.profile(lambda: [ct.relu(net(x)).sum().backward() for _ in range(3)], memory=True)
    rows = {(row["op"], row["backward"]): row for row in found.rows()}
    assert rows["linear", False]["calls"] == rows["linear", True]["calls"] == 3
    assert rows["linear", False]["flops"] == 3 * 2 * 10 * 20 * 30 and rows["linear", False]["device"] == "cpu"
    assert 0 < sum(row["self_us"] for row in rows.values()) <= 1e6 * found.seconds and found.waits == 0
    assert str(found) == found.table() and "memory of cpu" in found.table()
    found.trace(tmp_path / "step.json")
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    assert any(event["name"] == "linear backward" for event in events)
    with pytest.raises(ZeroDivisionError):
        ct.profile(lambda: 1 / 0, memory=True)
    assert not ct.profile(lambda: None, memory=True).rows()
    small, large = ct.randn(8, 8), ct.randn(256, 256)
    assert 0 < ct.time_of(lambda: small @ small, flush=False) < ct.time_of(lambda: large @ large, runs=5)
    with pytest.raises(ValueError):
        ct.time_of(lambda: None, runs=0)


# ---- Modes -----------------------------------------------------------------------------------------------------------

def cast():
    return ct.matmul(ct.ones(2, 2), ct.ones(2, 2)).dtype


def recording():
    return ct.is_grad_enabled()


def checking():
    return ct.anomaly_enabled()


MODES = {  # what makes it, what is seen, inside and outside
    "no_grad": (lambda: ct.no_grad(), recording, False, True),
    "enable_grad": (lambda: ct.enable_grad(), recording, True, True),
    "set_grad_enabled": (lambda: ct.set_grad_enabled(False), recording, False, True),
    "autocast": (lambda: ct.autocast(ct.bf16), cast, ct.bf16, ct.f32),
    "autocast off": (lambda: ct.autocast(enabled=False), cast, ct.f32, ct.f32),
    "anomaly": (lambda: ct.detect_anomaly(), checking, True, False),
}


@pytest.mark.parametrize("name", MODES)
def test_modes_nest_and_serve_again(name):
    make, seen, inside, outside = MODES[name]
    mode = make()
    for _ in range(2):
        with mode:
            assert seen() == inside
            with mode, make():
                assert seen() == inside
            assert seen() == inside
            with pytest.raises(KeyError), mode:
                raise KeyError
            assert seen() == inside
        assert seen() == outside


@pytest.mark.parametrize("name", MODES)
def test_modes_are_decorators(name):
    make, seen, inside, outside = MODES[name]

    @make()
    def down(depth, *, more=0):
        """Goes down."""
        assert seen() == inside
        if depth == 0:
            raise KeyError(more)
        down(depth - 1, more=more)
    assert down.__name__ == "down" and down.__doc__ == "Goes down." and seen() == outside
    with pytest.raises(KeyError):
        down(2, more=5)
    assert seen() == outside
    with pytest.raises(TypeError, match="with"):
        @make()
        def steps():
            yield 1
    assert seen() == outside


@pytest.mark.parametrize("name", set(MODES) - {"enable_grad", "autocast off"})
def test_modes_belong_to_threads(name):
    make, seen, inside, outside = MODES[name]
    mode, found, entered, go = make(), [], threading.Event(), threading.Event()
    mode.__enter__()
    mode.__exit__(None, None, None)

    def other():
        try:
            mode.__exit__(None, None, None)
        except ct.Error as error:
            found.append(str(error))
        found.append(seen())
        with mode:
            found.append(seen())
            entered.set()
            go.wait(10)
        found.append(seen())
    with mode:
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
        assert seen() == inside
    assert seen() == outside
    go.set()
    thread.join()
    assert "thread that has not entered" in found[0] and found[1:] == [outside, inside, outside]
    with pytest.raises(ct.Error, match="thread"):
        mode.__exit__(None, None, None)


def test_set_grad_enabled_as_a_call():
    ct.set_grad_enabled(False)
    assert not ct.is_grad_enabled()
    with ct.enable_grad():
        assert ct.is_grad_enabled()
    assert not ct.is_grad_enabled()
    with ct.set_grad_enabled(True):
        assert ct.is_grad_enabled()
    assert not ct.is_grad_enabled()
    ct.set_grad_enabled(mode=True)
    assert ct.is_grad_enabled()

    @ct.no_grad
    def bare():
        return ct.is_grad_enabled()
    assert not bare() and ct.is_grad_enabled()
    with pytest.raises(ct.DTypeError):
        ct.autocast(ct.i64)


# ---- Draws -----------------------------------------------------------------------------------------------------------

def test_generators():
    state = ct.get_rng_state()
    first = ct.rand(3).tolist()
    assert ct.get_rng_state() != state and ct.rand(3).tolist() != first
    ct.set_rng_state(state)
    assert ct.rand(3).tolist() == first
    assert ct.seed() == ct.initial_seed() != ct.seed()
    ct.manual_seed(5)
    assert ct.initial_seed() == ct.default_generator.initial_seed() == 5 and "seed=5" in repr(ct.default_generator)
    one = ct.Generator().manual_seed(9)
    assert one.get_state() == (9, 0) and one.initial_seed() == 9
    one.set_state((9, 4))
    assert pickle.loads(pickle.dumps(one)).get_state() == (9, 4)
