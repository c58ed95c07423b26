"""Modules: attributes are what is trained, saved and moved."""
import copy
import copyreg
import gc
import pickle
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import cotangent as ct
from cotangent import nn, optim


def _array_of(tensor):
    return ct.tensor, (tensor.detach().numpy(),)


if "__reduce_ex__" not in vars(ct.Tensor) and "__reduce__" not in vars(ct.Tensor):
    copyreg.pickle(ct.Tensor, _array_of)  # until tensors are pickled by themselves


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(ct.full((2,), 2.0))
        self.n = nn.Buffer(ct.zeros((2,)))
        self.head = nn.Linear(2, 2)
        self.plain = 3

    def forward(self, x):
        return self.head(x * self.w + self.n)


class Scaled(nn.Module):
    """Its result shows which tensors it used: x w + n."""

    def __init__(self, w=2.0):
        super().__init__()
        self.w = nn.Parameter(ct.full((2,), w))
        self.n = nn.Buffer(ct.zeros((2,)))

    def forward(self, x):
        return x * self.w + self.n


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.head = nn.Linear(2, 3, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, i):
        return self.head(self.embedding(i))


def state(module):
    return {name: value.tolist() for name, value in module.state_dict().items()}


def trained(module, x, lr=1.0):
    """The parameters after a step of w - lr g for the sum of the outputs."""
    sgd = optim.SGD(module.parameters(), lr=lr)
    sgd.zero_grad()
    module(x).sum().backward()
    sgd.step()
    return {name: p.tolist() for name, p in module.named_parameters()}


def same(ours, theirs):
    assert np.allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-5)


# ---- Assignment -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[5.0, 5.0], [7.0], 5.0])
def test_a_second_parameter_replaces_the_first(value):
    m = Scaled()
    m.w = nn.Parameter(ct.tensor(value))
    assert m.w.tolist() == value and m.w.requires_grad and isinstance(m.w, nn.Parameter)
    assert state(m) == {"w": value, "n": [0, 0]} and [p.tolist() for p in m.parameters()] == [value]
    assert m(ct.ones(2)).tolist() == (np.ones(2) * np.array(value)).tolist()
    w = trained(m, ct.ones(2))["w"]
    assert np.allclose(w, np.array(value) - 2 / np.size(value)) and m.w.tolist() == w == state(m)["w"]


@pytest.mark.parametrize("name, value, error", [
    ("w", lambda: ct.ones(2), TypeError), ("w", lambda: np.ones(2), TypeError), ("w", lambda: 3.0, TypeError),
    ("w", lambda: nn.Linear(1, 1), TypeError), ("w", lambda: nn.Buffer(ct.ones(2)), TypeError),
    ("n", lambda: 3.0, TypeError), ("n", lambda: np.ones(2), TypeError), ("head", lambda: 3, TypeError),
    ("head", lambda: ct.relu, TypeError), ("head", lambda: ct.ones(2), TypeError),
    ("training", lambda: "yes", TypeError),
    ("train", lambda: nn.Linear(1, 1), ct.ValueError), ("parameters", lambda: nn.Parameter(ct.ones(1)), ct.ValueError),
    ("a.b", lambda: nn.Linear(1, 1), ct.ValueError), ("", lambda: nn.Parameter(ct.ones(1)), ct.ValueError),
])
def test_what_is_no_member_is_refused(name, value, error):
    m = Net()
    before = state(m)
    with pytest.raises(error):
        setattr(m, name, value())
    assert state(m) == before and len(m.parameters()) == 3 and m(ct.ones(1, 2)).shape == (1, 2)


def test_a_tensor_over_a_parameter_says_what_to_do():
    with pytest.raises(TypeError, match=r"nn\.Parameter.*copy_"):
        Scaled().w = ct.ones(2)
    with pytest.raises(TypeError, match="head.*module"):
        Net().head = 3


def test_a_tensor_over_a_buffer_is_the_buffer():
    m = Scaled()
    for i in (1, 2):
        m.n = m.n + 1
        assert m.n.tolist() == [i, i] == state(m)["n"] and m(ct.zeros(2)).tolist() == [i, i]
        assert [b.tolist() for b in m.buffers()] == [[i, i]]
    other = ct.full((3,), 4.0)
    m.n = other
    assert m.n is other and state(m)["n"] == [4, 4, 4]
    m.double()
    assert m.n.dtype == other.dtype == ct.f64 == m.state_dict()["n"].dtype
    assert [name for name, _ in m.named_parameters()] == ["w"]


@pytest.mark.parametrize("how", ["None", "del"])
@pytest.mark.parametrize("name, left", [("w", ["n"]), ("n", ["w"])])
def test_tensors_go(how, name, left):
    m = Scaled()
    if how == "None":
        setattr(m, name, None)
        assert getattr(m, name) is None
    else:
        delattr(m, name)
        assert not hasattr(m, name)
        with pytest.raises(AttributeError):
            delattr(m, name)
    assert list(m.state_dict()) == left and len(m.parameters()) == (name == "n") and len(m.buffers()) == (name == "w")
    setattr(m, name, nn.Parameter(ct.ones(2)))
    assert dict(m.named_parameters())[name].tolist() == [1, 1] and name in state(m)


@pytest.mark.parametrize("how", ["None", "del"])
def test_modules_go(how):
    m = Net()
    if how == "None":
        m.head = None
        assert m.head is None
    else:
        del m.head
        assert not hasattr(m, "head")
    assert list(m.state_dict()) == ["w", "n"] and len(m.parameters()) == 1 and m.children() == []
    m.head = nn.Identity()
    assert m(ct.ones(2)).tolist() == [2, 2] and [name for name, _ in m.named_children()] == ["head"]


@pytest.mark.parametrize("new, names, gives", [
    (lambda: nn.Linear(2, 5, bias=False), ["head.weight"], 5), (lambda: nn.Tanh(), [], 2),
    (lambda: Scaled(), ["head.w"], 2),
    (lambda: nn.Sequential(nn.Linear(2, 1), ct.relu), ["head.0.weight", "head.0.bias"], 1)])
def test_a_module_replaces_another(new, names, gives):
    m = Net()
    m.head = child = new()
    assert m.head is child and m.children() == [child]
    assert [name for name, _ in m.named_parameters()] == ["w", *names] and set(names) <= set(m.state_dict())
    assert m(ct.ones(3, 2)).shape == (3, gives)
    before = [p.tolist() for p in child.parameters()]
    trained(m, ct.ones(3, 2))
    assert all(p.tolist() != old for p, old in zip(child.parameters(), before)) or not names


def test_one_kind_of_member_replaces_another():
    m = Net()
    m.head = nn.Parameter(ct.ones(2))
    assert [name for name, _ in m.named_parameters()] == ["w", "head"] and m.children() == []
    m.n = nn.Linear(1, 1)
    assert m.buffers() == [] and isinstance(m.n, nn.Linear) and "n.weight" in state(m)
    m.plain = nn.Parameter(ct.zeros(1))
    assert "plain" in state(m) and "plain" not in vars(m)
    m.n = nn.Parameter(ct.ones(1))
    assert m.children() == [] and m.n.tolist() == [1] == state(m)["n"]


def test_plain_attributes_stay_plain():
    m = Net()
    m.mask, m.scale, m.items = ct.ones(2), ct.ones(2, requires_grad=True), [nn.Linear(1, 1), nn.Parameter(ct.ones(1))]
    m.plain, m.none = 4, None
    assert sorted(state(m)) == ["head.bias", "head.weight", "n", "w"] and len(m.parameters()) == 3
    assert m.mask.tolist() == [1, 1] and m.plain == 4 and m.none is None
    m.none = nn.Linear(1, 1)
    assert "none.weight" in state(m)
    del m.plain
    assert not hasattr(m, "plain")


def test_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.fine = 3
            self.early = value
            super().__init__()

    for value in (nn.Linear(1, 1), nn.Parameter(ct.ones(1)), nn.Buffer(ct.ones(1))):
        with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
            Early(value)
    assert Early("plain").fine == 3

    class Asks(nn.Module):
        def __init__(self):
            self.nothing

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Asks()

    class Never(nn.Module):
        def __init__(self):
            self.x = 3

    for use in (repr, copy.deepcopy, nn.Sequential, Never.parameters, Never.state_dict, Never.train):
        with pytest.raises((ct.Error, AttributeError), match=r"super\(\).__init__\(\)"):
            use(Never())


def test_what_is_missing_is_named():
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'haed'.*w, n, head"):
        Net().haed
    assert not hasattr(nn.Linear(1, 1), "wieght") and getattr(Net(), "x", 5) == 5
    assert {"w", "n", "head", "forward", "plain"} <= set(dir(Net())) and "weight" in dir(nn.Linear(1, 1))


def test_settings_are_read_only():
    m = nn.Linear(2, 3)
    m.__dict__["_settings"] = {"in_features": 2, "bias": True}
    assert m.in_features == 2 and m.bias.shape == (3,)
    for change in (lambda: setattr(m, "in_features", 4), lambda: delattr(m, "in_features"),
                   lambda: setattr(m, "in_features", nn.Parameter(ct.ones(1)))):
        with pytest.raises(AttributeError, match="setting"):
            change()
    assert m.in_features == 2
    m.bias = None
    assert m.bias is None and "in_features" in dir(m)


def test_cycles_are_refused():
    m, inner = Net(), nn.Module()
    inner.m = m
    for change in (lambda: setattr(m, "me", m), lambda: setattr(m, "inner", inner), lambda: setattr(m, "head", inner),
                   lambda: setattr(m, "n", m)):
        with pytest.raises(ct.ValueError, match="tree"):
            change()
    assert sorted(state(m)) == ["head.bias", "head.weight", "n", "w"] and isinstance(m.head, nn.Linear)


# ---- Layers ----------------------------------------------------------------------------------------------------------


def test_attributes_of_layers():
    m, x = nn.Linear(2, 3), ct.ones(1, 2)
    assert m.weight.shape == (3, 2) and m.bias.shape == (3,) and isinstance(m.weight, nn.Parameter)
    assert m.weight is m.weight
    m.weight = nn.Parameter(ct.full((4, 2), 3.0))
    m.bias = nn.Parameter(ct.zeros(4))
    assert m(x).tolist() == [[6, 6, 6, 6]] and state(m) == {"weight": [[3, 3]] * 4, "bias": [0] * 4}
    assert trained(m, x)["weight"] == [[2, 2]] * 4 and m(x).tolist() == [[4 - 1] * 4]
    m.bias = None
    assert m(x).tolist() == [[4] * 4] and list(state(m)) == ["weight"] and m.bias is None
    del m.weight
    assert m.parameters() == []
    with pytest.raises(ct.Error):
        m(x)
    m.weight = nn.Parameter(ct.ones(1, 2))
    assert m(x).tolist() == [[2]] and state(m) == {"weight": [[1, 1]]}
    with pytest.raises(TypeError):
        m.weight = ct.ones(1, 2)


def test_buffers_of_layers():
    m = nn.BatchNorm1d(2)
    m.running_mean = ct.full((2,), 4.0)
    m.eval()
    assert np.allclose(m(ct.full((1, 2), 4.0)).detach().numpy(), 0) and state(m)["running_mean"] == [4, 4]
    for bad in (nn.Parameter(ct.ones(2)), nn.Identity(), nn.Buffer(ct.ones(2), persistent=False)):
        with pytest.raises(TypeError, match="C\\+\\+"):
            m.running_mean = bad
    assert state(m)["running_mean"] == [4, 4]
    linear = nn.Linear(1, 1)
    for bad in (nn.Buffer(ct.ones(1)), nn.Identity()):
        with pytest.raises(TypeError):
            linear.weight = bad
    assert linear.weight.requires_grad and linear(ct.ones(1, 1)).shape == (1, 1)
    assert [name for name, _ in m.named_buffers()] == ["running_mean", "running_var", "num_batches_tracked"]


@pytest.mark.parametrize("make, x", [
    (lambda: nn.Linear(2, 3), (4, 2)), (lambda: nn.Conv2d(1, 2, 3), (1, 1, 4, 4)), (lambda: nn.LayerNorm((3,)), (2, 3)),
    (lambda: nn.LSTM(2, 3), (4, 1, 2)), (lambda: nn.GRUCell(2, 3), (1, 2)), (lambda: nn.RMSNorm(3), (2, 3)),
    (lambda: nn.GroupNorm(1, 2), (1, 2, 3)), (lambda: nn.ConvTranspose2d(1, 2, 2), (1, 1, 3, 3))])
def test_every_parameter_of_a_layer_can_be_replaced(make, x):
    x = ct.randn(*x)
    one, other = make(), make()
    for name, p in one.named_parameters():
        setattr(other, name, nn.Parameter(p.detach().clone() + 0.125))
        assert getattr(other, name).tolist() == state(other)[name] == (p + 0.125).tolist()
    for p in one.parameters():
        with ct.no_grad():
            p.copy_(p + 0.125)
    first, second = one(x), other(x)
    if isinstance(first, tuple):
        first, second = first[0], second[0]
    same(first, second)
    second.sum().backward()
    assert all(p.grad is not None for p in other.parameters())


def test_parts_of_a_layer_of_cpp():
    m = nn.MultiheadAttention(4, 2)
    x = ct.randn(3, 1, 4)
    assert isinstance(m.out_proj, nn.Module) and m.out_proj is m.out_proj and m.children() == [m.out_proj]
    assert m.out_proj.weight.shape == (4, 4) and "out_proj" in repr(m) and m.get_submodule("out_proj") is m.out_proj
    m.out_proj.weight = nn.Parameter(ct.zeros(4, 4))
    assert np.allclose(m(x, x, x)[0].detach().numpy(), 0) and state(m)["out_proj.weight"] == [[0] * 4] * 4
    for change in (lambda: setattr(m, "out_proj", nn.Linear(4, 4)), lambda: delattr(m, "out_proj"),
                   lambda: setattr(m, "out_proj", None), lambda: setattr(m, "out_proj", nn.Parameter(ct.ones(1))),
                   lambda: m.out_proj.register_forward_hook(print), lambda: nn.Sequential(m.out_proj)):
        with pytest.raises(TypeError, match="C\\+\\+"):
            change()
    with pytest.raises(TypeError, match="C\\+\\+"):
        nn.MultiheadAttention(4, 2).out_proj = nn.Linear(4, 4)
    assert sorted(state(m)) == ["in_proj_bias", "in_proj_weight", "out_proj.bias", "out_proj.weight"]
    m.eval()
    assert not m.out_proj.training


def test_a_layer_with_more():
    class Low(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.a = nn.Parameter(ct.ones(2))

        def forward(self, x):
            return super().forward(x) * self.a

    m = Low()
    assert [name for name, _ in m.named_parameters()] == ["weight", "bias", "a"] and isinstance(m, nn.Linear)
    m.a = nn.Parameter(ct.zeros(2))
    assert m(ct.ones(1, 2)).tolist() == [[0, 0]]
    assert type(copy.deepcopy(m)) is Low and state(copy.deepcopy(m)) == state(m)


# ---- Parameters and buffers -----------------------------------------------------------------------------------------


def test_parameters_are_tensors():
    p = nn.Parameter(ct.randn(3))
    assert isinstance(p, ct.Tensor) and isinstance(p, nn.Parameter) and p.requires_grad and p.shape == (3,)
    assert not isinstance(p * 2, nn.Parameter) and not isinstance(ct.ones(1, requires_grad=True), nn.Parameter)
    assert not isinstance(nn.Buffer(ct.ones(1)), nn.Parameter) and "Parameter containing" in repr(p)
    before = p.tolist()
    sgd = optim.SGD([p], lr=1.0)
    (p * 2).sum().backward()
    sgd.step()
    assert np.allclose(p.tolist(), np.array(before) - 2) and p.grad.tolist() == [2, 2, 2]
    frozen = nn.Parameter(ct.ones(3), requires_grad=False)
    m = nn.Module()
    m.p, m.frozen = p, frozen
    assert m.p is p and m.frozen is frozen and not frozen.requires_grad and m.num_parameters(True) == 3
    assert m.num_parameters() == 6 and isinstance(m.frozen, nn.Parameter)
    for bad in (3.0, [1.0], None, np.ones(2)):
        with pytest.raises(TypeError, match="Tensor"):
            nn.Parameter(bad)
    for flag in (True, False):
        with pytest.raises(ct.DTypeError):
            nn.Parameter(ct.tensor([1, 2]), requires_grad=flag)


def test_a_parameter_shares_the_memory_of_its_tensor():
    t = ct.zeros(2)
    m = nn.Module()
    m.w = nn.Parameter(t)
    t.fill_(3)
    assert m.w.tolist() == [3, 3] and not t.requires_grad
    m.w.note = "kept"
    gc.collect()
    assert m.w.note == "kept" and next(m.parameters()).note == "kept"


def test_tied_weights_are_one():
    def check(m):
        assert m.head.weight is m.embedding.weight
        assert [name for name, _ in m.named_parameters()] == ["embedding.weight"]
        assert sorted(m.state_dict()) == ["embedding.weight", "head.weight"] and m.num_parameters() == 6
        m.head.weight.fill_(0.5) if not m.head.weight.requires_grad else m.load_state_dict(
            {name: np.full((3, 2), 0.5) for name in m.state_dict()})
        assert m(ct.tensor([0])).tolist() == [[0.5] * 3]
        after = trained(m, ct.tensor([0]), lr=0.1)["embedding.weight"]
        assert np.allclose(after, [[0.3, 0.3], [0.45, 0.45], [0.45, 0.45]]) and state(m)["head.weight"] == after

    m = Tied()
    check(m)
    check(m.double().float())
    for copied in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert copied.head.weight is not m.head.weight
        check(copied)
    m.requires_grad_(False)
    assert not copy.deepcopy(m).head.weight.requires_grad and m.head.weight is m.embedding.weight
    noted = Net()
    noted.same = noted.n
    noted.plain = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    noted.a, noted.b = noted.plain
    noted.b.running_mean = noted.a.running_mean
    again = copy.deepcopy(noted)
    assert again.n is again.same and "same" in state(again) and again.plain[0] is again.a
    again.a(ct.ones(3, 2))
    assert again.b.running_mean.tolist() == again.a.running_mean.tolist() != noted.a.running_mean.tolist()
    two = Net()
    two.other = two.head
    assert len(two.parameters()) == 3 and len(two.children()) == 1 and "other.weight" in state(two)
    again = copy.deepcopy(two)
    assert again.other is again.head and len(again.parameters()) == 3


def test_registering_by_name():
    m = nn.Module()
    m.register_buffer("a", ct.ones(2))
    m.register_buffer("b", ct.zeros(1), persistent=False)
    m.register_buffer("none", None)
    m.register_parameter("w", nn.Parameter(ct.ones(1)))
    m.register_parameter("v", None)
    m.add_module("fc", nn.Linear(1, 1))
    m.register_module("act", nn.ReLU())
    m.c = nn.Buffer(ct.ones(1), persistent=False)
    assert sorted(state(m)) == ["a", "fc.bias", "fc.weight", "w"] and m.none is None and m.v is None
    assert [name for name, _ in m.named_buffers()] == ["a", "b", "c"] and isinstance(m.act, nn.ReLU)
    m.register_buffer("b", ct.ones(1))
    m.none, m.v = ct.ones(1), nn.Parameter(ct.ones(2))
    assert state(m)["b"] == [1] and state(m)["none"] == [1] and state(m)["v"] == [1, 1]
    for call in (lambda: m.register_parameter("x", ct.ones(1)), lambda: m.register_buffer("x", 3),
                 lambda: m.add_module("x", 3), lambda: m.add_module("x", ct.relu)):
        with pytest.raises(TypeError):
            call()
    for name in ("train", "a.b", ""):
        with pytest.raises(ct.ValueError):
            m.register_buffer(name, ct.ones(1))


# ---- Walks -----------------------------------------------------------------------------------------------------------


def test_walks_give_pythons_own_objects():
    m = nn.Sequential(Net(), nn.ReLU())
    net = m[0]
    assert m.children() == [net, m[1]] and m.modules() == [m, net, net.head, m[1]]
    assert [name for name, _ in m.named_modules()] == ["", "0", "0.head", "1"]
    assert [type(one) for one in m.modules()] == [nn.Sequential, Net, nn.Linear, nn.ReLU]
    assert dict(m.named_parameters()).keys() == {"0.w", "0.head.weight", "0.head.bias"}
    assert [name for name, _ in m.named_parameters(prefix="p")] == ["p.0.w", "p.0.head.weight", "p.0.head.bias"]
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["w"] and m.parameters(recurse=False) == []
    assert [name for name, _ in m.named_buffers()] == ["0.n"] and len(m.buffers()) == 1
    assert m.get_submodule("0.head") is net.head and m.get_submodule("") is m
    assert m.get_parameter("0.head.weight") is net.head.weight is m.get("0.head.weight")
    assert m.get_buffer("0.n") is net.n
    for call in (lambda: m.get_submodule("0.x"), lambda: m.get_parameter("0.n"), lambda: m.get_buffer("0.w"),
                 lambda: m.get_parameter("0.none")):
        with pytest.raises(AttributeError):
            call()
    with pytest.raises(ct.ValueError):
        m.get("0.none")


def test_parameters_are_gone_through_in_every_way():
    m = Net()
    assert len(m.parameters()) == 3 and len(list(m.parameters())) == 3 and sum(p.numel() for p in m.parameters()) == 8
    assert next(m.parameters()) is m.w and next(iter(m.parameters())) is m.w
    some = m.parameters()
    assert [next(some), *some] == m.parameters() and m.parameters()[-1] is m.head.bias
    for p in m.parameters():
        p.requires_grad = False
    assert m.num_parameters(trainable_only=True) == 0
    name, p = next(m.named_parameters())
    assert name == "w" and p is m.w
    with pytest.raises(StopIteration):
        next(nn.ReLU().parameters())
    sgd = optim.SGD(m.requires_grad_().parameters(), lr=1.0)
    m(ct.ones(1, 2)).sum().backward()
    sgd.step()
    assert m.head.bias.grad.tolist() == [1, 1]


@pytest.mark.parametrize("call, dtype", [
    (lambda m: m.to("cpu"), "f32"), (lambda m: m.to(ct.f64), "f64"), (lambda m: m.to("cpu", ct.f64), "f64"),
    (lambda m: m.to(ct.f16, "cpu"), "f16"), (lambda m: m.to(dtype=ct.bf16, device="cpu"), "bf16"),
    (lambda m: m.to(), "f32"),
    (lambda m: m.to(ct.ones(1, dtype=ct.f64)), "f64"), (lambda m: m.cpu(), "f32"), (lambda m: m.half(), "f16"),
    (lambda m: m.double(), "f64"), (lambda m: m.double().float(), "f32"), (lambda m: m.bfloat16(), "bf16"),
    (lambda m: m.train(), "f32"), (lambda m: m.train(False), "f32"), (lambda m: m.eval(), "f32"),
    (lambda m: m.requires_grad_(), "f32"), (lambda m: m.apply(lambda _: None), "f32")])
def test_changes_return_the_module(call, dtype):
    m = Net()
    w, head = m.w, m.head
    assert call(m) is m and m.w is w and m.head is head
    assert {t.dtype for t in m.state_dict().values()} == {getattr(ct, dtype)} == {w.dtype, head.weight.dtype}


def test_changes_that_fail():
    for call in (lambda m: m.to(3), lambda m: m.to("nowhere"), lambda m: m.to(ct.i64), lambda m: m.load_state_dict({})):
        with pytest.raises((TypeError, ct.Error)):
            call(Net())


def test_modes():
    class Frozen(nn.Linear):
        def train(self, mode=True):
            return super().train(False)

    m = nn.Sequential(Frozen(1, 1), nn.Dropout(0.5), nn.MultiheadAttention(2, 1))
    m.train()
    assert [one.training for one in m.modules()] == [True, False, True, True, True]
    m.eval()
    assert not any(one.training for one in m.modules()) and m[1](ct.ones(4)).tolist() == [1] * 4
    m.training = True
    assert m.training and not m[1].training
    order = []
    m.apply(lambda one: order.append(type(one).__name__))
    assert order == ["Frozen", "Dropout", "Module", "MultiheadAttention", "Sequential"]


def test_gradients_are_cleared():
    m = Net()
    m(ct.ones(1, 2)).sum().backward()
    assert m.w.grad is not None
    m.zero_grad(set_to_none=False)
    assert m.w.grad.tolist() == [0, 0]
    m.zero_grad()
    assert m.w.grad is None


# ---- State -----------------------------------------------------------------------------------------------------------


def test_states_are_loaded_of_anything():
    m = Net()
    values = {"w": [1.0, 2.0], "n": [3.0, 4.0], "head.weight": [[1.0, 0.0], [0.0, 1.0]], "head.bias": [0.0, 0.0]}
    kinds = [lambda v: np.array(v, np.float32), lambda v: np.array(v), ct.tensor]
    try:
        import torch
        kinds += [torch.tensor, lambda v: torch.tensor(v, dtype=torch.float64)]
    except ImportError:
        pass
    for kind in kinds:
        m.requires_grad_(False)
        for t in m.parameters() + m.buffers():
            t.fill_(0)
        report = m.load_state_dict(OrderedDict((name, kind(value)) for name, value in values.items()))
        assert state(m) == values and report == ([], []) and report.missing_keys == [] and report.unexpected_keys == []
    assert m(ct.ones(1, 2)).tolist() == [[4, 6]]
    report = m.load_state_dict({"w": np.zeros(2, np.float32), "more": np.zeros(1)}, strict=False)
    assert report.missing_keys == ["n", "head.weight", "head.bias"] and report.unexpected_keys == ["more"]
    assert state(m)["w"] == [0, 0]
    with pytest.raises(ct.ValueError, match="missing keys.*strict=False") as error:
        m.load_state_dict({"w": np.ones(2)})
    assert "{" not in str(error.value) and state(m)["w"] == [0, 0] and isinstance(error.value, RuntimeError)


def test_states_go_to_pytorch_and_back():
    torch = pytest.importorskip("torch")

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.full((2,), 2.0))
            self.register_buffer("n", torch.zeros(2))
            self.head = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.head(x * self.w + self.n)

    theirs, ours, x = Same(), Net(), torch.randn(3, 2)
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    same(ours(ct.from_dlpack(x)), theirs(x))
    for net, make in ((theirs, torch), (ours, ct)):
        nn_of = torch.nn if make is torch else nn
        net.n = net.n + 1
        net.w = nn_of.Parameter(make.full((1,), 3.0))
        net.head.bias = None
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["w", "n", "head.weight"]
    same(ours(ct.from_dlpack(x)), theirs(x))


# ---- Hooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: Scaled(), lambda: nn.Identity(), lambda: nn.Sequential(nn.Identity())])
def test_hooks(make):
    m, seen = make(), []
    pre = m.register_forward_pre_hook(lambda module, args: seen.append((module is m, args[0].tolist())))
    post = m.register_forward_hook(
        lambda module, args, output: seen.append((module is m, args[0].tolist(), output.tolist())))
    y = m(ct.ones(2)).tolist()
    assert seen == [(True, [1, 1]), (True, [1, 1], y)]
    pre.remove()
    post.remove()
    post.remove()
    m(ct.ones(2))
    assert len(seen) == 2
    with m.register_forward_pre_hook(lambda module, args: args[0] * 3), m.register_forward_hook(lambda *_: _[2] + 1):
        assert m(ct.ones(2)).tolist() == [3 * y[0] + 1] * 2
    assert m(ct.ones(2)).tolist() == y


def test_hooks_in_order_and_with_names():
    m, order = Net(), []
    m.forward = lambda x, scale=1: x * scale
    m.register_forward_hook(lambda *_: order.append("a"))
    m.register_forward_hook(lambda *_: order.append("b"), prepend=True)
    m.register_forward_hook(lambda module, args, named, output: output + named["scale"], with_kwargs=True)
    m.register_forward_pre_hook(lambda module, args, named: (args, {"scale": named["scale"] + 1}), with_kwargs=True)
    assert m(ct.ones(1), scale=2).tolist() == [6] and order == ["b", "a"]
    with pytest.raises(ZeroDivisionError):
        m.register_forward_hook(lambda *_: 1 / 0)
        m(ct.ones(1), scale=1)
    with pytest.raises(TypeError):
        m.register_forward_hook(3)


@pytest.mark.parametrize("refer", [
    lambda m: setattr(m, "me", [m]), lambda m: setattr(m, "f", lambda: m),
    lambda m: m.register_forward_hook(lambda *_: m),
    lambda m: setattr(m, "forward", m.forward), lambda m: setattr(m.w, "owner", m),
    lambda m: setattr(m.head, "up", [m]),
    lambda m: m.head.register_forward_pre_hook(lambda *_: m)])
def test_circles_are_freed(refer):
    m = Net()
    refer(m)
    seen = weakref.ref(m)
    del m
    gc.collect()
    assert seen() is None


# ---- Containers -----------------------------------------------------------------------------------------------------


def test_sequential():
    m = nn.Sequential(nn.Linear(2, 3), ct.relu, nn.Linear(3, 1))
    assert len(m) == 3 and m[-1] is m[2] and [*m] == [m[0], m[1], m[2]] and list(m.state_dict())[2] == "2.weight"
    x = ct.randn(4, 2)
    same(m(x), m[2](ct.relu(m[0](x))))
    same(m[:1](x), m[0](x))
    assert len(m[1:]) == 2 and m[:1].parameters() == m[0].parameters()
    m.append(nn.Tanh()).extend([nn.Identity()])
    assert len(m) == 5 and isinstance(m[3], nn.Tanh)
    m[2] = nn.Linear(3, 6)
    assert m(x).shape == (4, 6) and m.state_dict()["2.weight"].shape == (6, 3)
    del m[1]
    assert len(m) == 4 and list(m.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    m.insert(0, nn.Identity())
    assert isinstance(m[0], nn.Identity) and list(m.state_dict())[0] == "1.weight" and m(x).shape == (4, 6)
    assert isinstance(m.pop(0), nn.Identity) and len(m) == 4
    m.add_module("last", nn.Linear(6, 1))
    assert m(x).shape == (4, 1) and m.last is m[-1]
    named = nn.Sequential(OrderedDict([("fc", nn.Linear(2, 1)), ("act", nn.ReLU())]))
    assert list(named.state_dict()) == ["fc.weight", "fc.bias"] and named.fc is named[0] and named(x).shape == (4, 1)
    for call in (lambda: nn.Sequential(3), lambda: m.append("x"), lambda: nn.Sequential([nn.ReLU()])):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(IndexError):
        m[9]
    again = nn.Sequential(*nn.Sequential(nn.Linear(1, 1), nn.ReLU()).children())
    assert [type(one) for one in again] == [nn.Linear, nn.ReLU]


def test_lists_and_dicts_of_modules():
    m = nn.Module()
    m.blocks = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
    m.heads = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()})
    assert len(m.blocks) == 3 and len(m.parameters()) == 8 and "blocks.2.bias" in state(m)
    assert "heads.a.weight" in state(m)
    first = m.blocks[0]
    m.blocks[0] = nn.Identity()
    m.blocks.append(first)
    assert m.blocks[-1] is first and first in m.blocks and "blocks.3.weight" in state(m)
    assert "blocks.0.weight" not in state(m)
    assert isinstance(m.blocks[1:], nn.ModuleList) and len(m.blocks[1:]) == 3
    del m.blocks[0]
    assert len(m.blocks) == 3 and m.blocks[2] is first and sorted(state(m.blocks))[-1] == "2.weight"
    assert list(m.heads) == ["a", "b"] == [*m.heads.keys()] and "a" in m.heads and len(m.heads.items()) == 2
    m.heads["c"] = nn.Tanh()
    assert isinstance(m.heads.pop("b"), nn.ReLU) and [*m.heads.keys()] == ["a", "c"]
    assert m.heads["a"](ct.ones(1)).shape == (2,)
    del m.heads["a"]
    m.heads.update({"d": nn.ReLU()})
    assert isinstance(m.heads.pop("d"), nn.ReLU)
    assert len(m.heads.values()) == 1 and not any("heads" in name for name in state(m))
    for call, error in ((lambda: m.heads["x"], KeyError), (lambda: m.heads.update({"x": 3}), TypeError),
                        (lambda: m.blocks.append(3), TypeError), (lambda: m.blocks[5], IndexError),
                        (lambda: m.heads.update({"train": nn.ReLU()}), ct.ValueError)):
        with pytest.raises(error):
            call()


def test_lists_and_dicts_of_parameters():
    m = nn.Module()
    m.ws = nn.ParameterList([nn.Parameter(ct.ones(1)), ct.zeros(2)])
    m.vs = nn.ParameterDict({"a": ct.ones(3)})
    assert state(m) == {"ws.0": [1], "ws.1": [0, 0], "vs.a": [1, 1, 1]} and len(m.parameters()) == 3
    m.ws.append(ct.ones(1))
    m.ws[0] = nn.Parameter(ct.zeros(4))
    m.vs["b"] = ct.ones(1)
    assert [p.shape for p in m.ws] == [(4,), (2,), (1,)] and m.ws[-1].requires_grad and m.vs["b"].tolist() == [1]
    del m.ws[1]
    assert state(m.ws) == {"0": [0] * 4, "1": [1]} and [*m.vs] == ["a", "b"] and len(m.parameters()) == 4


# ---- Copies ----------------------------------------------------------------------------------------------------------

COPIES = [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: pickle.loads(pickle.dumps(m, 2))]


LAYERS = [
    (lambda: nn.Linear(2, 3), (1, 2)), (lambda: nn.Linear(2, 3, bias=False), (1, 2)),
    (lambda: nn.Embedding(4, 2), None),
    (lambda: nn.Conv2d(1, 2, 3, padding=1), (1, 1, 4, 4)), (lambda: nn.LayerNorm((3,)), (2, 3)),
    (lambda: nn.BatchNorm1d(3), (4, 3)), (lambda: nn.GELU("tanh"), (3,)), (lambda: nn.Flatten(), (2, 3, 4)),
    (lambda: nn.LSTM(2, 3, num_layers=2), (4, 1, 2)), (lambda: nn.Softmax(0), (2, 3)), (lambda: nn.RMSNorm(3), (2, 3)),
    (lambda: nn.MaxPool2d(2), (1, 1, 4, 4)), (lambda: nn.AdaptiveAvgPool2d((1, 1)), (1, 1, 4, 4)), (Net, (1, 2)),
    (lambda: nn.Sequential(nn.Linear(2, 2), ct.relu), (1, 2)), (lambda: nn.ModuleList([nn.Linear(1, 1)]), None),
    (lambda: nn.ModuleDict({"a": nn.Linear(1, 1)}), None), (lambda: nn.ParameterList([ct.ones(2)]), None),
    (lambda: nn.CrossEntropyLoss(), None)]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("make, x", LAYERS)
def test_copies_are_the_same_and_apart(make, x, copied):
    m = make()
    m.eval()
    m.note = {"a": [1]}
    ct.manual_seed(3)
    other = copied(m)
    drawn = ct.randn(2).tolist()
    ct.manual_seed(3)
    assert drawn == ct.randn(2).tolist()  # no draw was taken
    assert type(other) is type(m) and state(other) == state(m) and repr(other) == repr(m)
    assert [one.training for one in other.modules()] == [False] * len(m.modules())
    assert other.note == m.note and other.note is not m.note
    if x:
        x = ct.randn(*x)
        one, two = m(x), other(x)
        same(*(one[0], two[0]) if isinstance(one, tuple) else (one, two))
    before = state(m)
    for p in other.requires_grad_(False).parameters():
        p.fill_(9)
    assert state(m) == before and all(p.requires_grad for p in m.parameters())


@pytest.mark.parametrize("copied", COPIES)
def test_copies_keep_what_was_assigned(copied):
    m = Net()
    m.head.weight = nn.Parameter(ct.ones(5, 2), requires_grad=False)
    m.head.bias = None
    m.n = nn.Buffer(ct.ones(2), persistent=False)
    m.later, m.part, m.up = nn.Parameter(ct.zeros(1)), nn.MultiheadAttention(2, 1), [m.head]
    m.part.out_proj.bias = None
    m.head.train(False)
    m.register_forward_hook(doubled)
    m.w.grad = ct.ones(2)
    other = copied(m)
    assert state(other) == state(m) and [n for n, _ in other.named_parameters()] == [n for n, _ in m.named_parameters()]
    assert other.n.tolist() == [1, 1] and "n" not in state(other) and other.head.bias is None
    assert not other.head.weight.requires_grad and other.w.requires_grad and other.up[0] is other.head
    assert not other.head.training and other.training and other.part.out_proj.bias is None
    assert other(ct.ones(1, 2)).tolist() == [[12] * 5] and other.w.grad is None  # as PyTorch's parameters
    assert trained(other, ct.ones(1, 2)).keys() == trained(m, ct.ones(1, 2)).keys()


def doubled(module, args, output):
    return output * 2


def test_a_shallow_copy_shares_tensors_and_no_names():
    for m in (Net(), nn.Linear(2, 2), nn.MultiheadAttention(2, 1)):
        other = copy.copy(m)
        assert type(other) is type(m) and other.parameters() == m.parameters() and other.children()[:1] in (
            m.children()[:1], other.children()[:1])
        other.fresh = nn.Parameter(ct.ones(1))
        assert "fresh" in state(other) and "fresh" not in state(m)


def test_copies_with_methods_of_ones_own():
    class Locked(Net):
        def __init__(self):
            super().__init__()
            self.lock = open(__file__)

        def __getstate__(self):
            given = self.__dict__.copy()
            del given["lock"]
            return given

    class Opened(Locked):
        def __setstate__(self, given):
            self.__dict__.update(given)
            self.lock = "new"

    class Calls(Locked):
        def __setstate__(self, given):
            super().__setstate__(given)
            self.lock = "called"

    for kind, lock in ((Locked, None), (Opened, "new"), (Calls, "called")):
        m = kind()
        other = copy.deepcopy(m)
        m.lock.close()
        assert state(other) == state(m) and vars(other).get("lock") == lock and other.head is not m.head
        assert other.w is not m.w and other(ct.ones(1, 2)).tolist() == m(ct.ones(1, 2)).tolist()


def test_parts_are_not_copied_alone():
    with pytest.raises(TypeError, match="copy the whole"):
        copy.deepcopy(nn.MultiheadAttention(2, 1).out_proj)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_of_parameters(copied):
    p, b = nn.Parameter(ct.ones(2), requires_grad=False), nn.Buffer(ct.zeros(1), persistent=False)
    q, c = copied([p, b])
    assert isinstance(q, nn.Parameter) and q.tolist() == [1, 1] and not q.requires_grad and not c.persistent
    q.fill_(3)
    assert p.tolist() == [1, 1] and copied([p, p])[0] is not p
    shallow = copy.copy(p)
    assert isinstance(shallow, nn.Parameter) and shallow is not p and shallow.data_ptr() == p.data_ptr()
    one, two = copied([p, p])
    assert one is two


# ---- Text and more --------------------------------------------------------------------------------------------------


def test_text():
    text = repr(Net())
    assert text.startswith("Net(\n  (head): Linear(") and "bias=True" in text and "true" not in text

    class Said(nn.Module):
        def extra_repr(self):
            return "k=3"

    assert repr(Said()) == "Said(k=3)" and repr(nn.Sequential(ct.relu)) == "Sequential(\n  (0): Lambda(relu)\n)"
    with pytest.raises(NotImplementedError, match="forward"):
        Said()(1)


INITS = [("constant_", (3,), {}), ("zeros_", (), {}), ("ones_", (), {}), ("eye_", (), {}), ("uniform_", (2, 3), {}),
         ("normal_", (5, 0.1), {}), ("trunc_normal_", (), {"std": 0.5, "a": -1, "b": 1}),
         ("xavier_uniform_", (), {"gain": 2}),
         ("xavier_normal_", (), {}), ("kaiming_uniform_", (), {"nonlinearity": "relu"}),
         ("kaiming_normal_", (), {"a": 0.2, "mode": "fan_out"}), ("orthogonal_", (), {"gain": 3})]


@pytest.mark.parametrize("name, args, named", INITS)
def test_initial_values(name, args, named):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    m = nn.Linear(100, 150)
    w = m.weight
    assert getattr(nn.init, name)(m.weight, *args, **named) is w and m.weight is w and w.requires_grad
    ours = w.detach().numpy()
    theirs = getattr(torch.nn.init, name)(torch.empty(150, 100), *args, **named).numpy()
    assert abs(ours.mean() - theirs.mean()) < 0.03 * theirs.std() + 1e-6
    assert abs(ours.std() - theirs.std()) < 0.03 * theirs.std() + 1e-6
    if name[-7:] != "normal_" or name == "trunc_normal_":
        assert abs(ours.max() - theirs.max()) < 0.2 * abs(theirs.max()) + 1e-6
    if name == "orthogonal_":
        assert np.allclose(ours.T @ ours, 9 * np.eye(100), atol=1e-3)
    if name == "eye_":
        assert np.array_equal(ours, theirs)


def test_initial_values_of_a_network():
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))

    def start(module):
        if isinstance(module, nn.Linear):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    assert m.apply(start)(ct.ones(1, 2)).tolist() == [[4]]
    assert nn.init.calculate_gain("tanh") == pytest.approx(5 / 3)
    for call, error in ((lambda: nn.init.eye_(ct.ones(2)), ct.ShapeError), (lambda: nn.init.zeros_("x"), TypeError),
                        (lambda: nn.init.kaiming_normal_(ct.ones(2, 2), mode="fan"), ct.ValueError),
                        (lambda: nn.init.xavier_normal_(ct.ones(2)), ct.ShapeError),
                        (lambda: nn.init.normal_(ct.tensor([1])), ct.DTypeError)):
        with pytest.raises(error):
            call()


def test_utils():
    import cotangent.nn.init as start
    import cotangent.nn.utils as utils
    assert start is nn.init and utils is nn.utils
    m = Scaled(3.0)
    (m(ct.ones(2)) * 2).sum().backward()
    assert float(utils.clip_grad_norm_(m.parameters(), 1.0)) == pytest.approx(8**0.5)
    assert np.allclose(m.w.grad.tolist(), 0.5**0.5, atol=1e-5)
    utils.clip_grad_value_(iter(m.parameters()), 0.5)
    assert m.w.grad.tolist() == [0.5, 0.5] and float(utils.clip_grad_norm_(m.w, 9.0)) == pytest.approx(0.5**0.5)
    net = Net()
    flat = utils.parameters_to_vector(net.parameters())
    assert flat.shape == (8,) and flat.tolist()[:2] == [2, 2]
    utils.vector_to_parameters(ct.arange(8).to(ct.f32), net.parameters())
    assert net.w.tolist() == [0, 1] and net.head.bias.tolist() == [6, 7] == state(net)["head.bias"]
    with pytest.raises(ct.ShapeError):
        utils.vector_to_parameters(ct.ones(3), net.parameters())
