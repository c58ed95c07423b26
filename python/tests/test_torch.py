"""cotangent.torch: ops as torch.autograd.Function."""
from contextlib import nullcontext

import pytest

import cotangent as ct

torch = pytest.importorskip("torch")
from cotangent.torch import function  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * (ct.cuda_is_available() and torch.cuda.is_available())


@pytest.mark.parametrize("device", DEVICES)
def test_values_and_gradients(device):
    x = torch.randn(8, 16, device=device, requires_grad=True)
    w = torch.randn(4, 16, device=device, requires_grad=True)
    y = function(ct.linear)(torch.sin(x), w, None)
    y.square().sum().backward()
    ours = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    torch.nn.functional.linear(torch.sin(x), w).square().sum().backward()
    for mine, other in zip(ours, (x.grad, w.grad)):
        assert torch.allclose(mine, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_inside_of_a_model_on_a_stream_of_its_own(device):
    gelu = function(ct.gelu)

    class Block(torch.nn.Module):
        def __init__(self, act):
            super().__init__()
            self.a, self.b, self.act = torch.nn.Linear(16, 64), torch.nn.Linear(64, 4), act

        def forward(self, x):
            return self.b(self.act(self.a(x)))

    ours, theirs = Block(gelu).to(device), Block(torch.nn.functional.gelu).to(device)
    theirs.load_state_dict(ours.state_dict())
    with torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else nullcontext():
        for _ in range(20):
            x = torch.randn(32, 16, device=device)
            for model in (ours, theirs):
                model.zero_grad()
                model(x).square().mean().backward()
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(p, q, atol=1e-4)


def test_gradcheck():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: function(ct.layer_norm)(a, b, None), (x, w))
    assert torch.autograd.gradcheck(lambda a: function(ct.softmax)(a, 1), (x,))


def test_backward_twice_several_results_and_a_composition():
    x = torch.randn(6, requires_grad=True)
    y = function(ct.tanh)(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * (1 - torch.tanh(x) ** 2), atol=1e-5)
    values, indices = function(lambda t: ct.topk(t, k=2, axis=0, descending=True))(x)
    assert torch.equal(values, torch.topk(x, 2).values) and torch.equal(indices, torch.topk(x, 2).indices)
    composed = function(lambda a, b: (a * b).exp().sum())
    assert torch.allclose(composed(x, x), (x * x).exp().sum())
    assert not function(ct.exp)(x.detach()).requires_grad


def test_bad_calls():
    with pytest.raises(TypeError, match="torch.Tensor"):
        function(ct.exp)(3)
    with pytest.raises(ct.ShapeError):
        function(ct.add)(torch.ones(2), torch.ones(3))
    with pytest.raises(ct.DTypeError):
        function(ct.exp)(torch.ones(2, dtype=torch.complex64))
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(function(ct.exp)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        g.sum().backward()  # gradients of gradients are PyTorch's own business
    assert function(ct.exp)(torch.zeros(1)).item() == 1
