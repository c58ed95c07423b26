"""Loads the op of a folder, checks it, calls it, and trains a PyTorch model with it, on every device that is there.

   usage: train.py FOLDER
"""
import sys
import time
from typing import Any, Callable

import torch

import cotangent as ct
from cotangent.torch import function


class Net(torch.nn.Module):
    def __init__(self, activation: Callable[..., Any]) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 32), torch.nn.Linear(32, 1)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(self.activation(self.first(x)))


def train(op: Callable[..., Any], device: str) -> str:
    torch.manual_seed(1)
    x = torch.rand(256, 2, device=device) * 2 - 1
    y = x.prod(1, keepdim=True)
    net = Net(function(op)).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=0.02)
    losses: list[float] = []
    for _ in range(200):
        adam.zero_grad()
        loss: Any = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0], losses
    return f"loss {losses[0]:.3f} to {losses[-1]:.4f} in {len(losses)} steps"


def main() -> None:
    begin = time.perf_counter()
    op = ct.load_op(sys.argv[1])
    print(f"  {op.__name__}: {op.op.formula}; compiled and loaded in {time.perf_counter() - begin:.1f} s")
    print(f"  conformance: {ct.testing.check(op)} checks")
    for device in ["cpu"] + ["cuda"] * (ct.cuda_is_available() and torch.cuda.is_available()):
        x = torch.randn(3, 5, dtype=torch.float64, device=device, requires_grad=True)
        assert torch.autograd.gradcheck(function(op), (x,))
        print(f"  {device}: {op(ct.ones(3, device=device)).tolist()}; gradcheck passed; {train(op, device)}")


main()
