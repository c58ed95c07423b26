"""Captured steps end in the bits of plain ones; what a replay can't do is refused."""
import threading

import pytest

import cotangent as ct
from cotangent import nn


class Net:
    def __init__(self):
        ct.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
        self.adam = ct.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.schedule = ct.optim.lr_scheduler.StepLR(self.adam, step_size=3, gamma=0.5)

    def step(self, x, y):
        self.adam.zero_grad()
        loss = ct.cross_entropy(self.net(x), y)
        loss.backward()
        self.adam.step()
        self.schedule.step()
        return loss

    def state(self):
        return [p.tolist() for p in self.net.parameters()] + [p.grad.tolist() for p in self.net.parameters()]


def batches(n):
    ct.manual_seed(1)
    return [(ct.randn(5, 6), ct.randint(0, 4, (5,))) for _ in range(n)]


def test_a_captured_step_ends_in_the_bits_of_the_step():
    plain, net, data = Net(), Net(), batches(9)
    ct.manual_seed(5)
    losses = [plain.step(x, y).item() for x, y in data]
    ct.manual_seed(5)
    step = ct.capture(net.step)
    assert [step(x, y).item() for x, y in data] == losses
    assert net.state() == plain.state() and net.adam.param_groups[0]["lr"] == plain.adam.param_groups[0]["lr"]
    assert step.captured() and step.replays() == 6 and step.recordings() == 2 and step.memory() > 0
    assert "linear'" in step.kernels() and "->" in step.dot()


def test_formulas_of_a_step_are_fused_and_explained():
    x, results = ct.randn(128, 128), []
    for fuse in (True, False):
        step = ct.capture(lambda a: ct.tanh(a * 2 + 1) - a, fuse=fuse)
        results.append([step(x).tolist() for _ in range(5)])
        assert step.kernels() == (["fused(mul_scalar, add_scalar, tanh, sub)"] if fuse else ["mul_scalar", "add_scalar", "tanh", "sub"])
        assert ("one pass over f32 [128, 128]" if fuse else "fusion is off") in step.explain_fusion()
    assert results[0] == results[1]


def test_arguments_and_results_of_every_form():
    @ct.capture
    def f(pair, scale=1.0, *, kind="add"):
        a, b = pair["a"], pair["b"]
        return {"sum": (a + b) * scale if kind == "add" else a * b * scale, "both": [a, (b, None)]}

    for _ in range(5):
        for scale, kind in ((2.0, "add"), (0.5, "multiply")):
            a, b = ct.randn(3), ct.randn(3)
            out = f({"a": a, "b": b}, scale, kind=kind)
            right = (a + b) * scale if kind == "add" else a * b * scale
            assert out["sum"].tolist() == right.tolist()
            assert out["both"][0].tolist() == a.tolist() and out["both"][1][1] is None
    assert f.recordings() == 4
    f.reset()
    assert not f.captured()


def refused(function, says):
    step = ct.capture(function)
    with pytest.raises(ct.CaptureError, match=says):
        for _ in range(8):
            step(ct.randn(4))


def test_what_a_replay_cannot_do_is_refused():
    state, count = [ct.zeros(4)], [0]

    def carried(x):
        state[0] = state[0] * 0.5 + x
        return state[0]

    def counted(x):
        count[0] += 1
        return x * count[0]

    refused(lambda x: x * x.sum().item(), "item")
    refused(carried, "copy_")
    refused(counted, "step before")
    refused(lambda x: x.mul_(2), "argument 0")
    with pytest.raises(TypeError, match="returns a float"):
        ct.capture(lambda x: 1.0)(ct.ones(2))
    with pytest.raises(TypeError, match="an argument is a set"):
        ct.capture(lambda x: x)({1})
    with pytest.raises(ValueError, match="warmup"):
        ct.capture(lambda x: x, warmup=0)
    assert ct.randn(4).sum().item() != 0


def test_exceptions_pass_and_the_next_calls_work():
    calls = [0]

    @ct.capture
    def f(x):
        calls[0] += 1
        if calls[0] in (2, 4):
            raise KeyError("of the user")
        return x + 1

    for i in range(8):
        if i in (1, 3):
            with pytest.raises(KeyError):
                f(ct.ones(2))
        else:
            assert f(ct.ones(2)).tolist() == [2, 2]
    assert f.replays() == 3


def test_host_effects_and_plain_steps():
    counted = [0]

    def f(x):
        ct.at_replay(lambda: counted.__setitem__(0, counted[0] + 1))
        return x * 2

    step, plain = ct.capture(f), ct.capture(f, enabled=False)
    for i in range(6):
        step(ct.ones(2))
        assert counted[0] == i + 1
    for _ in range(5):
        plain(ct.ones(2))
    assert counted[0] == 11 and not plain.captured()


def test_forms_of_a_call_are_recorded_one_by_one():
    @ct.capture
    def f(first, second):
        return first / second

    for i in range(5):
        a, b = ct.randn(3), ct.randn(3) + 4
        assert f(a, b).tolist() == f(first=a, second=b).tolist() == f(second=b, first=a).tolist() == (a / b).tolist()
        assert f(a, [b][0]).tolist() == (a / b).tolist()

    class Model:
        def __init__(self, scale):
            self.scale = ct.tensor([scale])
            self.step = ct.capture(self.forward)

        def forward(self, x):
            return x * self.scale

    two, three = Model(2.0), Model(3.0)
    for _ in range(5):
        assert two.step(ct.ones(1)).item() == 2 and three.step(ct.ones(1)).item() == 3
    with pytest.raises(TypeError, match="an argument is a Model"):
        ct.capture(Model.forward)(two, ct.ones(1))


def test_captured_functions_share_a_pool_on_several_threads(tmp_path):
    pool, wrong = ct.CapturePool(), []

    def work(x):
        with ct.no_grad():
            return ((x * 2).exp() + 1).log().sum()

    def use(value):
        x = ct.full((64, 1024), value)
        right, f = work(x).item(), ct.capture(work, pool=pool)
        wrong.extend(i for i in range(40) if f(x).item() != right)
        assert f.memory() > 0
        f.write_dot(tmp_path / f"{value}.dot")
        assert (tmp_path / f"{value}.dot").read_text() == f.dot()

    threads = [threading.Thread(target=use, args=(0.1 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with pytest.raises(ct.IoError):
        ct.capture(work).write_dot(tmp_path / "none" / "step.dot")


def test_hooks_of_modules_and_parameters_count():
    net, x = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), ct.randn(5, 3)
    step = ct.capture(lambda a: net(a).detach())
    plain = lambda: net(x).tolist()
    for i in range(12):
        if i == 5:
            handle = net[1].register_forward_hook(lambda module, given, y: y * 0.5)
        if i == 9:
            handle.remove()
        assert step(x).tolist() == plain()
