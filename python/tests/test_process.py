"""The process: threads at its end, fork, importing again, subinterpreters, signals; what the garbage collector sees."""
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
import weakref

import pytest

import cotangent as ct
from cotangent import optim

REPEATS = int(os.environ.get("COTANGENT_PYTHON_REPEATS", "4"))
BAD = ("Fatal", "Abort", "abort", "leaked", "terminate", "Segmentation", "Error")
START = """
import os, sys, threading, time
import cotangent as ct
def loop(f):
    ready = threading.Event()
    def run():
        while True:
            f()
            ready.set()
    for _ in range(3):
        threading.Thread(target=run, daemon=True).start()
    ready.wait(20)
"""


def started(code, **more):
    # Python itself never releases the objects that a daemon thread's frames refer to.
    leaks = str(int("loop(" not in code and "daemon" not in code))
    environment = dict(os.environ, COTANGENT_PYTHON_LEAKS=leaks, COTANGENT_NUM_THREADS="2")
    return subprocess.Popen([sys.executable, "-c", START + textwrap.dedent(code)], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def ends_well(process, allowed=(), code=0):
    out, err = process.communicate(timeout=60)
    bad = [word for word in BAD if word in err and word not in allowed]
    assert (process.returncode, bad) == (code, []), err
    return out, err


@pytest.mark.parametrize("code", [
    """
    x = ct.randn(64, 64)
    loop(lambda: ct.matmul(x, x).sum().item())
    """,
    """
    w = ct.randn(8, 8, requires_grad=True)
    h = w.register_hook(lambda g: g * sum([1.0] * 100) * 0.01)
    w.register_post_accumulate_grad_hook(lambda leaf: sum(range(100)))
    def step():
        y = ct.matmul(w, w)
        y.register_hook(lambda g: None)
        y.sum().backward()
    loop(step)
    """,
    """
    class Slow(ct.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1
        @staticmethod
        def backward(ctx, g):
            return g * sum([1.0] * 1000)
    def step():
        Slow.apply(ct.ones(4, requires_grad=True)).sum().backward()
    loop(step)
    """,
    """
    class Endless(ct.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1
        @staticmethod
        def backward(ctx, g):
            entered.set()
            while True:
                pass
    entered = threading.Event()
    y = Endless.apply(ct.ones(4, requires_grad=True)).sum()
    threading.Thread(target=y.backward, daemon=True).start()
    entered.wait(20)
    """,
    """
    from cotangent.data import DataLoader
    batches = iter(DataLoader(ct.randn(512, 8), batch_size=4, workers=3))
    next(batches)
    """,
    """
    from cotangent.data import DataLoader
    def epoch():
        for x in DataLoader(ct.randn(64, 8), batch_size=4, workers=2):
            ct.matmul(x, x.transpose(0, 1))
    loop(epoch)
    """,
    """
    norms = []
    x = ct.ones(2, requires_grad=True)
    x.register_hook(lambda g: norms.append(g))
    x.sum().backward()
    kept = [x, norms, lambda: kept]
    kept.append(kept)
    """,
    """
    import atexit
    x = ct.ones(2, requires_grad=True)
    x.register_hook(lambda g: 1 / 0)
    def last():
        try:
            x.sum().backward()
        except ZeroDivisionError:
            print("caught")
    atexit.register(last)
    """,
    """
    x = ct.randn(256, 256)
    loop(lambda: ct.matmul(x, x))
    pid = os.fork()
    os.write(1, b"%r\\n" % float(ct.matmul(ct.ones(200, 200), ct.ones(200, 200))[0, 0]))
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
    """,
    """
    x = ct.ones(8, 8, requires_grad=True)
    y = ct.matmul(x, x)
    y.register_hook(lambda g: pids.append(os.fork()))
    pids = []
    loop(lambda: ct.matmul(y.detach(), y.detach()))
    y.sum().backward()
    os.write(1, b"%r\\n" % x.grad.sum().item())
    if pids[0]:
        assert os.waitpid(pids[0], 0)[1] == 0
    """,
    """
    def leave():
        ct.ones(3).sum().item()
        sys.exit(3)
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    """,
], ids=["ops", "hooks", "function", "endless", "loader", "loaders", "global", "atexit", "fork",
        "fork in a hook", "exit"])
def test_a_process_ends_well(code):
    before = time.monotonic()
    processes = [started(code) for _ in range(REPEATS)]
    try:
        for process in processes:
            out, _ = ends_well(process)
            if "caught" in code:
                assert out == "caught\n"
            if "fork" in code:  # parent and child
                first, second = out.split()
                assert first == second and float(first) in (200, 1024)
    finally:
        for process in processes:
            process.kill()
    assert time.monotonic() - before < 60


@pytest.mark.parametrize("body", [
    "while True: ct.matmul(x, x)",
    "while True: ct.matmul(w, w).sum().backward()",
], ids=["op", "backward"])
def test_interrupted(body):
    for _ in range(REPEATS):
        process = started(f"""
            x, w = ct.randn(300, 300), ct.randn(300, 300, requires_grad=True)
            w.register_hook(lambda g: g * 1)
            print("go", flush=True)
            {body}
            """)
        process.stdout.readline()
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = ends_well(process, code=-signal.SIGINT)
        assert "KeyboardInterrupt" in err


def test_imported_again_it_is_the_same():
    out, _ = ends_well(started("""
        first, number = ct._core, ct.Tensor
        for _ in range(3):
            for name in [n for n in sys.modules if n.startswith("cotangent")]:
                del sys.modules[name]
            import cotangent
            assert cotangent._core is first and cotangent.Tensor is number and cotangent is not ct
            assert cotangent.relu(cotangent.ones(2)).tolist() == [1, 1]
            assert cotangent.nn.Linear(1, 1)(ct.ones(1, 1)).ndim == 2
        import importlib
        assert importlib.reload(first) is first
        print(isinstance(ct.ones(1), cotangent.Tensor))
        """))
    assert out == "True\n"


def test_a_subinterpreter_is_refused_and_the_main_one_goes_on():
    out, _ = ends_well(started("""
        try:
            import _xxsubinterpreters as several
        except ImportError:
            import _interpreters as several
        code = '''
        try:
            import cotangent._core
        except ImportError as error:
            print(str(error), flush=True)
        '''
        import textwrap
        path = f"import sys; sys.path[:] = {sys.path!r}\\nimport types\\n" \\
            f"sys.modules['cotangent'] = types.ModuleType('cotangent')\\n" \\
            f"sys.modules['cotangent'].__path__ = {list(ct.__path__)!r}\\n"
        for _ in range(2):
            other = several.create()
            several.run_string(other, path + textwrap.dedent(code))
            several.destroy(other)
        x = ct.ones(2, requires_grad=True)
        x.register_hook(lambda g: g * 3)
        (x * 2).sum().backward()
        thread = threading.Thread(target=(x * 2).sum().backward)
        thread.start()
        thread.join()
        print(x.grad.tolist())
        """))
    lines = out.splitlines()
    assert len(lines) == 3 and lines[2] == "[12.0, 12.0]" and all("subinterpreter" in line for line in lines[:2])


class Big:
    pass


class Doubled(ct.Function):
    contexts = []

    @staticmethod
    def forward(ctx, x):
        Doubled.contexts.append(ctx)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def leaf(big):
    x = ct.ones(2, requires_grad=True)
    x.register_hook(lambda g, x=x: (big, None)[1])
    return x


def leaf_after(big):
    x = ct.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf, x=x: big)
    x.sum().backward()
    return x


def intermediate(big):
    x = ct.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g, y=y: (big, None)[1])
    y.sum().backward()
    return y


def of_a_function(big):
    y = Doubled.apply(ct.ones(2, requires_grad=True))
    ctx = Doubled.contexts.pop()
    ctx.y, ctx.big = y, big
    return y


def schedule(big):
    seen = []
    made = optim.LambdaLR(optim.SGD([ct.ones(1, requires_grad=True)], lr=2.0), lambda t: (big, seen, 0.5)[2])
    seen.append(made)
    assert made.lr_at(3) == 1.0
    return made


@pytest.mark.parametrize("make", [leaf, leaf_after, intermediate, of_a_function, schedule])
def test_what_refers_to_itself_is_freed(make):
    big = Big()
    seen = weakref.ref(big)
    made = make(big)
    del big
    gc.collect()
    assert seen() is not None  # while it may be called
    del made
    gc.collect()
    assert seen() is None


def test_hooks_of_what_lives_stay():
    x = ct.ones(2, requires_grad=True)
    seen = []
    for _ in range(3):  # of x, of another owner of it, of its node
        handle = x.register_hook(lambda g, big=Big(), x=x: seen.append(type(big)))
        gc.collect()
        y = x * 2
        y.register_hook(lambda g, big=Big(), y=y: seen.append(type(big)))
        z = y.sum()
        del y
        gc.collect()
        z.backward()
        handle.remove()
        handle.remove()
    assert seen == [Big] * 6
    with x.register_hook(lambda g: g * 5):
        x.grad = None
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [6, 6]
    with pytest.raises(TypeError, match="hook is a int"):
        x.register_hook(3)
    with pytest.raises(ct.AutogradError):
        ct.ones(2).register_hook(print)
    x.register_hook(lambda g: "g")
    with pytest.raises(TypeError, match="gave a str"):
        x.sum().backward()


def test_collections_beside_threads_take_nothing():
    import threading
    x, done = ct.ones(4, requires_grad=True), []
    x.register_hook(lambda g, big=Big(), x=x: done.append(type(big)))

    def train():
        for _ in range(300):
            y = x * 2
            y.register_hook(lambda g, big=Big(), y=y: done.append(type(big)))
            y.sum().backward()

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        gc.collect()
    assert done == [Big] * 1800


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def use_everything():
    x = ct.ones(16, 16, requires_grad=True)
    handle = x.register_hook(lambda g, x=x: g * 1)
    y = Doubled.apply(ct.matmul(x, x))
    ctx = Doubled.contexts.pop()
    ctx.y = y
    y.register_hook(lambda g, y=y: None)
    y.sum().backward()
    handle.remove()
    for mistake in (lambda: ct.matmul(x, ct.ones(3)), lambda: x[99], lambda: ct.add(x, "a"),
                    lambda: x.register_hook(1)):
        try:
            mistake()
        except (ct.Error, TypeError):
            continue
        raise AssertionError("no error")
    schedule(Big())
    x.detach().numpy()[0] = 2
    ct.tensor([1.0, 2.0]).tolist()


def torch_too():
    import torch

    from cotangent.torch import function
    layer = ct.nn.Linear(4, 4)
    x = torch.ones(2, 4, requires_grad=True)
    y, n = function(lambda t: (layer(t).exp(), t.shape[0]))(x)
    y.sum().backward()
    z = function(ct.exp)(x)
    z.detach().add_(1)
    try:
        z.sum().backward()
    except ct.AutogradError:
        return
    raise AssertionError("no error")


def test_loops_grow_nothing():
    seconds = float(os.environ.get("COTANGENT_PYTHON_SECONDS", "4"))
    try:
        import torch  # noqa: F401
        steps = [use_everything, torch_too]
    except ImportError:
        steps = [use_everything]

    def run(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for step in steps:
                step()
        gc.collect()
        return resident()

    run(seconds / 4)
    before = run(seconds / 4)
    after = run(seconds / 2)
    print(f"resident: {before / 2**20:.1f} MiB, then {after / 2**20:.1f} MiB")
    assert after - before < 2 * 2**20
