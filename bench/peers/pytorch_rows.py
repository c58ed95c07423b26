"""PyTorch's side of the benchmark rows. It reads names of rows, one a line, and prints for each a JSON object {"row",
"seconds"} for every mode that the row has, and then {"done"}: so it can take turns with ours, row by row.

usage: pytorch_rows.py [THREADS [MODES]] < NAMES
    THREADS for the CPU rows (default 1); of rows with several modes only those whose mode matches MODES

Every row runs at PyTorch's best setting: fused optimizers, out= where it saves an allocation, and for training
steps on the GPU eager mode, torch.compile and CUDA graphs, each as a row of its own ("NAME@eager", ...).
"""
import concurrent.futures
import json
import multiprocessing
import os
import re
import sys
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import pytorch_cpu
import pytorch_models
import pytorch_vision

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
MODES = re.compile(sys.argv[2] if len(sys.argv) > 2 else ".")
ROWS = []


def row(name, needs_gpu=False):
    def add(f):
        ROWS.append((name, needs_gpu, f))
        return f
    return add


def median_of(call, repeat, seconds=0.4, least=5):
    """Median seconds of one call; `repeat` calls are timed together, `least` times or more."""
    for _ in range(least):
        call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        times.append((time.perf_counter() - start) / repeat)
    return sorted(times)[len(times) // 2]


def device_median(call, repeat=10, rounds=15):
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeat):
            call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3 / repeat)
    return sorted(times)[rounds // 2]


def step_median(call, repeat=200, rounds=5):
    for _ in range(min(20, repeat + 4)):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / repeat)
    return sorted(times)[rounds // 2]


# --- CPU -----------------------------------------------------------------------------------------------
def cpu_mlp(batch):
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(batch, 784), torch.randint(0, 10, (batch,))

    def step():
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
    return median_of(step, 10)


row("C2/mlp_784-256-10_b64")(lambda: cpu_mlp(64))
row("C2b/mlp_784-256-10_b1")(lambda: cpu_mlp(1))


@row("C4/add_plain")
def add_plain():
    a, b = torch.ones(8), torch.ones(8)
    return median_of(lambda: a + b, 2000)


@row("C4/add_recorded")
def add_recorded():
    a, b = torch.ones(8, requires_grad=True), torch.ones(8)
    return median_of(lambda: a + b, 2000)


@row("C4/mul_sum_backward")
def mul_sum_backward():
    a, b = torch.ones(8, requires_grad=True), torch.ones(8)
    return median_of(lambda: (a * b).sum().backward(), 200)


# --- GPU: ops ------------------------------------------------------------------------------------------
def gpu(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def mul(dtype):
    a, b = gpu(1 << 27, dtype=dtype), gpu(1 << 27, dtype=dtype)
    out = torch.empty_like(a)
    return device_median(lambda: torch.mul(a, b, out=out))


def total(dtype):
    a = gpu(1 << 27, dtype=dtype)
    return device_median(lambda: a.sum())


def forward(f, shape, dtype):
    x = gpu(*shape, dtype=dtype)
    return device_median(lambda: f(x))


def backward(f, shape, dtype):
    x, g = gpu(*shape, dtype=dtype, grad=True), gpu(*shape, dtype=dtype)
    y = f(x)
    return device_median(lambda: torch.autograd.grad(y, x, g, retain_graph=True))


for _name in ("f32", "f16", "bf16"):
    row(f"O1/mul_{_name}", True)(lambda d=DTYPES[_name]: mul(d))
for _name in ("f32", "f16"):
    row(f"O2/sum_{_name}", True)(lambda d=DTYPES[_name]: total(d))


def both(prefix, f, shape, dtype):
    row(prefix + "_fwd", True)(lambda: forward(f, shape, dtype))
    row(prefix + "_bwd", True)(lambda: backward(f, shape, dtype))


both("O3/softmax_bf16_8192x4096", lambda v: F.softmax(v, -1), (8192, 4096), torch.bfloat16)
both("O3b/softmax_f32_4096x16384", lambda v: F.softmax(v, -1), (4096, 16384), torch.float32)
both("O3b/softmax_bf16_1024x65536", lambda v: F.softmax(v, -1), (1024, 65536), torch.bfloat16)
both("O6/gelu_bf16_4096x16384", lambda v: F.gelu(v, approximate="tanh"), (4096, 16384), torch.bfloat16)


def cross_entropy(loss):
    x = gpu(8192, 50304, dtype=torch.bfloat16, grad=True)
    y = torch.randint(0, 50257, (8192,), device="cuda")
    return device_median(lambda: torch.autograd.grad(loss(x, y), x), repeat=5)


row("O7/cross_entropy_bf16_8192x50304@eager", True)(lambda: cross_entropy(F.cross_entropy))
row("O7/cross_entropy_bf16_8192x50304@compile", True)(
    lambda: cross_entropy(torch.compile(F.cross_entropy, dynamic=False)))


def index_add(dtype):
    rows, source = gpu(100000, 256, dtype=dtype), gpu(262144, 256, dtype=dtype)
    index = torch.randint(0, 100000, (262144,), device="cuda")
    return device_median(lambda: rows.index_add_(0, index, source))


row("O9/index_add_f32", True)(lambda: index_add(torch.float32))
row("O9/index_add_f16", True)(lambda: index_add(torch.float16))


@row("O14/sort_f32_2^24", True)
def sort():
    x = gpu(1 << 24)
    return device_median(lambda: torch.sort(x))


@row("O15/cumsum_f32_2^27", True)
def cumsum():
    x = gpu(1 << 27)
    out = torch.empty_like(x)
    return device_median(lambda: torch.cumsum(x, 0, out=out))


def transpose(dtype):
    x = gpu(16384, 16384, dtype=dtype)
    out = torch.empty_like(x)
    return device_median(lambda: out.copy_(x.t()))


row("O11/transpose_f32_16384", True)(lambda: transpose(torch.float32))
row("O11/transpose_f16_16384", True)(lambda: transpose(torch.float16))


@row("M3/gemm_f32_4096", True)
def gemm_f32():
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = gpu(4096, 4096), gpu(4096, 4096)
    return device_median(lambda: a @ b, repeat=5)


def convolution(part):
    torch.backends.cudnn.benchmark = True
    last = {"memory_format": torch.channels_last}
    x = gpu(64, 64, 56, 56, dtype=torch.bfloat16).to(**last)
    w = gpu(64, 64, 3, 3, dtype=torch.bfloat16).to(**last)
    if part == "fwd":
        return device_median(lambda: F.conv2d(x, w, padding=1))
    g, wanted = torch.randn_like(x), [part == "dgrad", part == "wgrad", False]
    # Measured without the tape, whose cost on the host exceeds the kernel's.
    return device_median(lambda: torch.ops.aten.convolution_backward(
        g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted))


for _part in ("fwd", "dgrad", "wgrad"):
    row(f"N1/conv2d_bf16_{_part}", True)(lambda p=_part: convolution(p))


def twice(x):
    return F.interpolate(x, scale_factor=2)


def upsample_bwd(dtype):
    x = gpu(64, 64, 128, 128, dtype=dtype, grad=True)
    y = twice(x)
    g = torch.randn_like(y)
    return device_median(lambda: torch.autograd.grad(y, x, g, retain_graph=True))


for _name in ("f32", "f16"):
    row(f"O10/upsample_{_name}_fwd", True)(lambda d=DTYPES[_name]: forward(twice, (64, 64, 128, 128), d))
    row(f"O10/upsample_{_name}_bwd", True)(lambda d=DTYPES[_name]: upsample_bwd(d))


def batch_norm_relu(back, last):
    x = gpu(64, 256, 56, 56, dtype=torch.bfloat16)
    if last:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_()
    norm = nn.BatchNorm2d(256, device="cuda")
    y = F.relu(norm(x))
    if not back:
        return device_median(lambda: F.relu(norm(x)))
    g, inputs = torch.randn_like(y), (x, norm.weight, norm.bias)
    return device_median(lambda: torch.autograd.grad(y, inputs, g, retain_graph=True))


for _part in ("fwd", "bwd"):  # whichever layout is faster
    row(f"N4/batch_norm_relu_bf16_{_part}", True)(
        lambda p=_part: min(batch_norm_relu(p == "bwd", last) for last in (False, True)))


# --- GPU: training steps -------------------------------------------------------------------------------
def mlp_step(hidden, batch, mode):
    torch.backends.cuda.matmul.allow_tf32 = False  # the same arithmetic on both sides
    x = torch.randn(batch, 784, device="cuda")
    y = torch.randint(0, 10, (batch,), device="cuda")
    model = nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                          nn.Linear(hidden, 10)).cuda()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True)
    loss_of = lambda v: F.cross_entropy(model(v), y)
    if mode.startswith("compile"):
        loss_of = torch.compile(loss_of, dynamic=False)

    def step():
        adam.zero_grad(set_to_none="graph" not in mode)
        loss_of(x).backward()
        adam.step()
    if "graph" not in mode:
        return step_median(step)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return step_median(graph.replay)


for _id, _hidden, _batch in (("G3", 128, 64), ("G3b", 512, 128), ("G3c", 1024, 1024)):
    for _mode in ("eager", "graph", "compile", "compile+graph"):
        row(f"{_id}/mlp_h{_hidden}_b{_batch}@{_mode}", True)(
            lambda h=_hidden, b=_batch, m=_mode: mlp_step(h, b, m))


# --- models of their own, in threads or processes of their own ---------------------------------------------
def steps_in(seconds):
    """Steps a second of one model in the calling thread."""
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.ones(16, 784), torch.zeros(16, dtype=torch.int64)
    count, start, now = -20, None, None
    while count <= 0 or now < start + seconds:
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        count += 1
        now = time.perf_counter()
        start = start if count > 0 else now
    return count / (now - start)


def line_up(barrier):
    global BARRIER
    BARRIER = barrier


def of_one(seconds):
    torch.set_num_threads(1)
    BARRIER.wait()
    return steps_in(seconds)


def in_threads(n):
    return concurrent.futures.ThreadPoolExecutor(n, initializer=line_up, initargs=(threading.Barrier(n),))


def in_processes(n):
    spawn = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(n, spawn, line_up, (spawn.Barrier(n),))


def models_at_once(workers, n):
    """Seconds of a step of one model, divided by the models."""
    with workers(n) as pool:
        return 1 / sum(pool.map(of_one, [0.8] * n))


for _n in [1 << k for k in range(8) if 1 << k <= os.cpu_count()]:
    row(f"T2/models_in_{_n}_threads@threads")(lambda n=_n: models_at_once(in_threads, n))
    row(f"T2/models_in_{_n}_threads@processes")(lambda n=_n: models_at_once(in_processes, n))


pytorch_cpu.register(row, median_of)
pytorch_models.register(row, gpu, device_median, step_median, median_of)
pytorch_vision.register(row, step_median, median_of)


def measure(name, needs_gpu, f):
    """Prints the figure of one row, in one mode."""
    if (needs_gpu and not torch.cuda.is_available()) or ("@" in name and not MODES.search(name.split("@")[1])):
        return
    try:
        got = f()
        seconds, peak = got if isinstance(got, tuple) else (got, None)
        print(json.dumps({"row": name, "seconds": seconds, "peak": peak}), flush=True)
    except Exception as error:  # a row that fails must not take the others along
        print(json.dumps({"row": name, "error": repr(error)[:200]}), flush=True)


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "threads": THREADS}), flush=True)
    for line in sys.stdin:
        for row in [r for r in ROWS if r[0].split("@")[0] == line.strip()]:
            measure(*row)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # ours is next, and may need the memory
        print(json.dumps({"done": line.strip()}), flush=True)


if __name__ == "__main__":  # not in the processes of T2
    main()
