"""Times of calls from Python, beside PyTorch in the same run: medians, in microseconds, as the table of docs/python.md.

   usage: python_calls.py [THREADS]
"""
import statistics
import sys
import time

import torch

import cotangent as ct


def microseconds(call, least=0.15):
    call(), call()
    times, end = [], time.perf_counter() + least
    count = 1
    while time.perf_counter() < end or len(times) < 15:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - begin
        times.append(took / count)
        count = max(1, min(1000, int(0.002 / max(times[-1], 1e-7))))
    return 1e6 * statistics.median(times)


def calls(lib):
    nn, optim = lib.nn, lib.optim
    a, b, w = lib.randn(8, 8), lib.randn(8, 8), lib.randn(8, 8)
    yield "a + b, 8 x 8", lambda: a + b
    yield "exp(x)", lambda: lib.exp(a)
    yield "x.sum()", a.sum
    yield "x[0]", lambda: a[0]
    yield "linear(x, w)", lambda: nn.functional.linear(a, w)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    yield "net(x), 8-16-1", lambda: net(a)
    yield "net(x).sum().backward()", lambda: net(a).sum().backward()
    mlp = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y, sgd = lib.randn(64, 784), lib.randint(0, 10, (64,)), optim.SGD(mlp.parameters(), lr=1e-3)

    def step():
        sgd.zero_grad()
        nn.functional.cross_entropy(mlp(x), y).backward()
        sgd.step()
    yield "one step of a 784-128-10 net, 64 rows", step


def main():
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
        ct.set_num_threads(int(sys.argv[1]))
    print("| call | here | PyTorch |\n|---|---|---|")
    for (name, ours), (_, theirs) in zip(calls(ct), calls(torch)):
        rounds = [(microseconds(ours), microseconds(theirs)) for _ in range(3)]
        here, there = (statistics.median(column) for column in zip(*rounds))
        print(f"| `{name}` | {here:.1f} us | {there:.1f} us |")


main()
