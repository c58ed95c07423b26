"""Modules, optimizers, loaders and files, beside PyTorch's."""
import numpy as np
import pytest

import cotangent as ct
from cotangent import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(16, 3)
        self.scale = nn.Parameter(ct.ones(3))
        self.steps = nn.Buffer(ct.zeros(()))

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


def test_a_module_of_ones_own():
    net = Net()
    names = ["body.0.bias", "body.0.weight", "head.bias", "head.weight", "scale"]
    assert sorted(dict(net.named_parameters())) == names and sorted(net.state_dict()) == sorted([*names, "steps"])
    assert net(ct.randn(2, 1, 4, 4)).shape == (2, 3)
    assert "head" in repr(net) and repr(net).startswith("Net")
    net.head = nn.Linear(16, 5)
    assert net.get("head.weight").shape == (5, 16) and len(net.parameters()) == 5
    net.eval()
    assert not net.body.training and net.num_parameters() == 4 * 9 + 4 + 16 * 5 + 5 + 3
    with pytest.raises(NotImplementedError):
        nn.Module()(ct.ones(1))


def theirs_of(net):
    import torch

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            t = torch.nn
            self.body = t.Sequential(t.Conv2d(1, 4, 3, padding=1), t.ReLU(), t.MaxPool2d(2), t.Flatten())
            self.head = t.Linear(16, 3)
            self.scale = t.Parameter(torch.ones(3))
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            return self.head(self.body(x)) * self.scale

    same = Same()
    same.load_state_dict({k: torch.from_dlpack(v).clone() for k, v in net.state_dict().items()})
    return same


@pytest.mark.parametrize("name, options, theirs", [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, None),
    ("Adam", {"lr": 0.01}, None),
    ("AdamW", {"lr": 0.01, "beta2": 0.99}, {"lr": 0.01, "betas": (0.9, 0.99)}),
    ("RMSprop", {"lr": 0.01}, None),
    ("Adagrad", {"lr": 0.01}, None),
])
def test_ten_steps_are_pytorchs(name, options, theirs):
    torch = pytest.importorskip("torch")
    net = Net()
    same = theirs_of(net)
    ours = getattr(optim, name)(net.parameters(), **options)
    other = getattr(torch.optim, name)(same.parameters(), **(theirs or options))
    rng = np.random.default_rng(0)
    for _ in range(10):
        x, t = rng.normal(size=(8, 1, 4, 4)).astype(np.float32), rng.integers(0, 3, 8)
        ours.zero_grad()
        loss = nn.CrossEntropyLoss()(net(ct.tensor(x)), ct.tensor(t))
        loss.backward()
        ours.step()
        other.zero_grad()
        expected = torch.nn.functional.cross_entropy(same(torch.tensor(x)), torch.tensor(t))
        expected.backward()
        other.step()
        assert abs(loss.item() - expected.item()) < 1e-4
    for key, value in same.state_dict().items():
        assert np.allclose(net.state_dict()[key].numpy(), value.numpy(), atol=1e-4), key


def test_schedules():
    adam = optim.Adam([ct.ones(2, requires_grad=True)], lr=1.0)
    schedule = optim.StepLR(adam, step_size=2, gamma=0.1)
    rates = []
    for _ in range(4):
        rates.append(round(adam.lr, 6))
        schedule.step()
    assert rates == [1, 1, 0.1, 0.1] and schedule.time == 4
    assert optim.LambdaLR(optim.SGD([ct.ones(2, requires_grad=True)], lr=2.0), lambda t: 1 / (1 + t)).lr_at(3) == 0.5
    with pytest.raises(TypeError, match="missing a required argument: 'steps'"):
        optim.CosineAnnealingLR(adam)


def test_autocast_and_hooks():
    x = ct.randn(4, 4, requires_grad=True)
    with ct.autocast(ct.bf16):
        y = ct.matmul(x, x)
    assert y.dtype == ct.bf16 and ct.matmul(x, x).dtype == ct.f32
    seen = []
    number = x.register_hook(lambda g: seen.append(g.shape))
    x.sum().backward()
    x.remove_hook(number)
    x.register_hook(lambda g: g * 2)
    x.grad = None
    x.sum().backward()
    assert seen == [(4, 4)] and x.grad.tolist() == [[2] * 4] * 4
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        x.sum().backward()


@pytest.mark.parametrize("make, theirs, shape", [
    (lambda: nn.LayerNorm(6), lambda t: t.LayerNorm(6), (2, 5, 6)),
    (lambda: nn.BatchNorm2d(3), lambda t: t.BatchNorm2d(3), (2, 3, 4, 4)),
    (lambda: nn.Conv1d(3, 6, 3, stride=2, groups=3), lambda t: t.Conv1d(3, 6, 3, stride=2, groups=3), (2, 3, 9)),
    (lambda: nn.ConvTranspose2d(3, 2, 3, stride=2), lambda t: t.ConvTranspose2d(3, 2, 3, stride=2), (2, 3, 4, 4)),
    (lambda: nn.RNN(6, 4, nonlinearity="relu"), lambda t: t.RNN(6, 4, nonlinearity="relu"), (5, 2, 6)),
    (lambda: nn.GRU(6, 4, num_layers=2), lambda t: t.GRU(6, 4, num_layers=2), (5, 2, 6)),
    (lambda: nn.LSTM(6, 4, batch_first=True), lambda t: t.LSTM(6, 4, batch_first=True), (5, 2, 6)),
    (lambda: nn.GRUCell(6, 4), lambda t: t.GRUCell(6, 4), (2, 6)),
    (lambda: nn.LSTMCell(6, 4), lambda t: t.LSTMCell(6, 4), (2, 6)),
    (lambda: nn.GELU("tanh"), lambda t: t.GELU("tanh"), (3, 4)),
    (lambda: nn.GroupNorm(3, 6), lambda t: t.GroupNorm(3, 6), (2, 6, 5)),
    (lambda: nn.InstanceNorm2d(3, affine=True), lambda t: t.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    (lambda: nn.MaxPool1d(2, padding=1), lambda t: t.MaxPool1d(2, padding=1), (2, 3, 9)),
    (lambda: nn.AvgPool1d(3, stride=2), lambda t: t.AvgPool1d(3, stride=2), (2, 3, 9)),
    (lambda: nn.RMSNorm(6), lambda t: t.RMSNorm(6), (3, 6)),
])
def test_layers_are_pytorchs(make, theirs, shape):
    torch = pytest.importorskip("torch")
    ours, other = make(), theirs(torch.nn)
    if ours.state_dict():
        ours.load_state_dict({name: ct.from_dlpack(value) for name, value in other.state_dict().items()})
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    same(ours(ct.tensor(x)), other(torch.tensor(x)))


def same(ours, theirs):
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
    else:
        assert np.allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("name, options", [("L1Loss", {}), ("SmoothL1Loss", {"beta": 0.5}), ("HuberLoss", {"delta": 0.5}),
                                           ("BCEWithLogitsLoss", {"reduction": "sum"}), ("KLDivLoss", {}),
                                           ("NLLLoss", {"ignore_index": 2}), ("MSELoss", {}), ("CrossEntropyLoss", {})])
def test_losses(name, options):
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 5).log_softmax(1)
    t = torch.tensor([0, 2, 4, 1]) if name in ("NLLLoss", "CrossEntropyLoss") else torch.rand(4, 5)
    same(getattr(nn, name)(**options)(ct.from_dlpack(x), ct.from_dlpack(t)), getattr(torch.nn, name)(**options)(x, t))


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_states_go_from_call_to_call(kind):
    torch = pytest.importorskip("torch")
    theirs, ours = getattr(torch.nn, kind)(3, 4), getattr(nn, kind)(3, 4)
    ours.load_state_dict({name: ct.from_dlpack(value) for name, value in theirs.state_dict().items()})
    x = torch.randn(6, 2, 3)
    mine = ct.from_dlpack(x)
    first, state = ours(mine[:4])
    same(ours(mine[4:], state), theirs(x[4:], theirs(x[:4])[1]))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 2]))
    same(ours(mine, lengths=ct.tensor([6, 2]))[1], theirs(packed)[1])
    with pytest.raises(ct.ShapeError):
        ours(mine, lengths=ct.tensor([6, 2, 1]))
    with pytest.raises(TypeError):
        ours(mine, "state")


def test_masks_of_attention():
    torch = pytest.importorskip("torch")
    theirs, ours = torch.nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)
    ours.load_state_dict({name: ct.from_dlpack(value) for name, value in theirs.state_dict().items()})
    x, masks = torch.randn(5, 3, 8), {"key_padding_mask": torch.zeros(3, 5, dtype=torch.bool),
                                      "attn_mask": torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)}
    masks["key_padding_mask"][1, 3:] = True
    mine = ct.from_dlpack(x)
    output, weights = theirs(x, x, x, **masks)
    same(ours(mine, mine, mine, **masks), (output, weights))
    alone, nothing = ours(mine, mine, mine, need_weights=False, **masks)
    same(alone, output)
    assert nothing is None
    same(ours(mine, mine, mine, is_causal=True)[0], theirs(x, x, x, attn_mask=masks["attn_mask"])[0])
    with pytest.raises(TypeError, match="mask"):
        ours(mine, mine, mine, mask=masks["attn_mask"])
    with pytest.raises(ct.DTypeError):
        ours(mine, mine, mine, attn_mask=ct.ones(5, 5, dtype=ct.i64))


def test_lbfgs():
    torch = pytest.importorskip("torch")
    start = np.array([-1.2, 1.0])
    theirs, ours = torch.tensor(start, requires_grad=True), ct.tensor(start, dtype=ct.f64, requires_grad=True)
    other = torch.optim.LBFGS([theirs], line_search_fn="strong_wolfe")
    lbfgs = optim.LBFGS([ours], line_search="strong_wolfe")

    def closure(optimizer, p):
        def run():
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
            return loss
        return run

    other.step(closure(other, theirs))
    assert lbfgs.step(closure(lbfgs, ours)).item() == pytest.approx(24.2)
    assert np.allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-6) and lbfgs.evaluations >= 20
    with pytest.raises(ZeroDivisionError):
        lbfgs.step(lambda: 1 / 0)
    with pytest.raises(ct.ValueError, match="strong_wolfe"):
        optim.LBFGS([ours], line_search="wolfe")
    again = optim.LBFGS([ours])
    again.load_state_dict(lbfgs.state_dict())
    assert again.iterations == lbfgs.iterations


def test_the_network_of_the_readme_learns():
    x = ct.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = ct.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    adam = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(300):
        adam.zero_grad()
        nn.MSELoss()(model(x), y).backward()
        adam.step()
    assert (model(x) > 0.5).tolist() == [[False], [True], [True], [False]]


def test_loader():
    x, y = np.arange(10, dtype=np.float32), np.arange(10)
    batches = ct.data.DataLoader(x, y, batch_size=4, shuffle=True, workers=1)
    assert len(batches) == 3
    first, second = [[b.tolist() for b, _ in batches] for _ in range(2)]
    assert sorted(sum(first, [])) == list(range(10)) and first != second
    for a, b in batches:
        assert a.tolist() == b.tolist()
        break
    assert len(list(batches)) == 3
    with pytest.raises(ct.ShapeError):
        ct.data.DataLoader(x, y[:3])
    with pytest.raises(ct.ValueError):
        ct.data.DataLoader(x, batch_size=0)


def test_files(tmp_path):
    net = Net()
    ct.io.save(str(tmp_path / "net.safetensors"), net.state_dict() | {"step": 3})
    state = ct.io.load(str(tmp_path / "net.safetensors"))
    assert state.pop("step") == 3
    other = Net()
    assert other.load_state_dict(state) == ([], [])
    assert np.array_equal(other.get("head.weight").detach().numpy(), net.get("head.weight").detach().numpy())
    ct.io.save_npy(str(tmp_path / "a.npy"), ct.ones(3))
    assert np.load(tmp_path / "a.npy").tolist() == ct.io.load_npy(str(tmp_path / "a.npy")).tolist() == [1, 1, 1]
    with pytest.raises(OSError):
        ct.io.load(str(tmp_path / "none"))
    with pytest.raises(ct.ValueError, match="missing"):
        other.load_state_dict({})
    adam = optim.Adam(net.parameters())
    net(ct.randn(2, 1, 4, 4)).sum().backward()
    adam.step()
    again = optim.Adam(net.parameters())
    again.load_state_dict(adam.state_dict())
    assert again.state_dict().keys() == adam.state_dict().keys()


@pytest.mark.parametrize("call, error", [
    (lambda: nn.Linear(3), TypeError),
    (lambda: nn.Linear(3, "4"), TypeError),
    (lambda: nn.Linear(3, -4), ct.ShapeError),
    (lambda: nn.Linear(3, 4, bais=False), TypeError),
    (lambda: nn.Linear(3, 4)("x"), TypeError),
    (lambda: nn.Linear(3, 4)(ct.ones(2, 5)), ct.ShapeError),
    (lambda: nn.Conv2d(3, 4, 3, padding="equal"), ct.ValueError),
    (lambda: nn.Sequential(3), TypeError),
    (lambda: optim.SGD([], lr=0.1), ct.ValueError),
    (lambda: optim.SGD([ct.ones(2, requires_grad=True)], lr=-1.0), ct.ValueError),
    (lambda: optim.SGD([ct.ones(2, requires_grad=True)], speed=1.0), TypeError),
    (lambda: optim.SGD(3), TypeError),
])
def test_bad_arguments(call, error):
    with pytest.raises(error):
        call()
    assert nn.Linear(2, 1)(ct.ones(1, 2)).shape == (1, 1)
