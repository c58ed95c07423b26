"""The same op by this library and by PyTorch's extension loader: lines, seconds to build, speed. Prints rows of a table.

   usage: compare.py [--cuda] [--elements N] [--only Cotangent|PyTorch] [--folder DIR]

With --folder what was built is kept there; --only builds and does no more.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def lines(path):
    return sum(bool(line.strip()) and not line.strip().startswith("//") for line in path.read_text().splitlines())


def load_ours(folder, cuda):
    import cotangent as ct
    out = os.path.join(folder, "swish.so")
    subprocess.run(ct.compile_command(HERE / "swish.cpp", out, cuda=cuda), check=True)
    ct.load_library(out)
    from cotangent.torch import function
    return function(ct.swish), ct


def load_theirs(folder, cuda):
    from torch.utils.cpp_extension import load
    source = HERE / "swish_torch.cpp"
    if cuda:
        source = pathlib.Path(folder, "swish_torch.cu")
        source.write_text((HERE / "swish_torch.cpp").read_text())
    return load("swish_torch", [str(source)], build_directory=folder, extra_cflags=["-O3", "-march=native"]).swish


def median_us(run, synchronize):
    times = []
    for _ in range(5):
        run()
    for _ in range(7):
        synchronize()
        begin = time.perf_counter()
        for _ in range(20):
            run()
        synchronize()
        times.append((time.perf_counter() - begin) / 20 * 1e6)
    return sorted(times)[3]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--elements", type=int, default=1 << 20)
    parser.add_argument("--only")
    parser.add_argument("--folder")
    options = parser.parse_args()
    import torch
    device = "cuda" if options.cuda else "cpu"
    made = {}
    for name, load in (("Cotangent", load_ours), ("PyTorch", load_theirs)):
        if options.only not in (None, name):
            continue
        folder = os.path.join(options.folder or tempfile.mkdtemp(), name)
        os.makedirs(folder, exist_ok=True)
        begin = time.perf_counter()
        made[name] = load(folder, options.cuda)
        print(f"{name}: built and loaded in {time.perf_counter() - begin:.1f} s", flush=True)
    if options.only:
        return
    ours, ct = made["Cotangent"]
    theirs = made["PyTorch"]
    gradcheck = torch.autograd.gradcheck
    x = torch.randn(7, 5, dtype=torch.float64, device=device, requires_grad=True)
    for f in (lambda t: ours(t, 1.5), lambda t: theirs(t, 1.5)):
        assert gradcheck(f, (x,))
    print("both gradients checked")
    for count in (64, options.elements):
        t = torch.randn(count, device=device, requires_grad=True)
        g = torch.randn(count, device=device)
        mine = ct.from_dlpack(t.detach())
        mine.requires_grad = True
        mine_g = ct.from_dlpack(g)

        def forward_backward(f):
            f(t, 1.5).backward(g)

        rows = {
            "Cotangent's own tensors": lambda: ct.swish(mine, 1.5).backward(mine_g),
            "Cotangent inside of PyTorch": lambda: forward_backward(ours),
            "PyTorch's extension": lambda: forward_backward(theirs),
            "PyTorch, composed": lambda: forward_backward(lambda a, b: a * torch.sigmoid(b * a)),
        }
        synchronize = torch.cuda.synchronize if options.cuda else lambda: None
        for name, run in rows.items():
            print(f"{count} floats, forward + backward, {name}: {median_us(run, synchronize):.1f} us")
    for name in ("swish.cpp", "swish_torch.cpp"):
        print(f"{name}: {lines(HERE / name)} lines")


if __name__ == "__main__":
    sys.exit(main())
