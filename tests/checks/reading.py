#!/usr/bin/env python3
"""Counts what a reader of ops has to read, forward and back: for each op the files that NAME.cpp and its kernels reach by
includes in ops/, core/simd/, core/cuda/ and nn/optim/, with the sources of engines, and their lines of code.

  usage: reading.py SOURCE_DIR [--list] [OP...]; without one, those of tests/budgets.txt
"""
import os
import re
import sys

ROOMS = ("ops/", "core/simd/", "core/cuda/", "nn/optim/")
FILES = {"conv2d": ["convolution"], "adam": ["adam", "update"]}  # of those that do not lie in files of their name
KERNELS = {"CPU": ("_cpu.cpp",), "CUDA": ("_cuda.cu",), "both": ("_cpu.cpp", "_cuda.cu")}


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return sum(not re.match(r"\s*(//.*)?$", line) for line in file)


def reached(starts, kernels):
    seen, ahead = set(), list(starts)
    while ahead:
        path = ahead.pop()
        if path in seen or not path.startswith(ROOMS) or not os.path.exists(path):
            continue
        seen.add(path)
        with open(path, encoding="utf-8") as file:
            ahead += re.findall(r"#\s*include\s*[<\"]cotangent/([^>\"]+)", file.read())
        if path.startswith("ops/engine/"):
            stem = re.sub(r"(_internal|_cpu|_cuda)?\.(h|cuh)$", "", path)
            ahead += [stem + end for end in (".cpp", ".cu", *kernels)]
    return seen


def files_of(op, kernels):
    """All that a reader of an op reaches, from the source folder."""
    files = [os.path.join(folder, name)[2:] for top in ("./ops", "./nn") for folder, _, names in os.walk(top) for name in names]
    wanted = {name + end for name in FILES.get(op, [op]) for end in (".cpp", *kernels)}
    starts = [path for path in files if os.path.basename(path) in wanted]
    if not starts:
        sys.exit(f"{op} is no op with files of its own")
    return reached(starts, kernels)


def lines_to_read(op):
    """Lines of code of both devices."""
    return sum(map(lines_of, files_of(op, KERNELS["both"])))


def main():
    words = [word for word in sys.argv[2:] if word != "--list"]
    os.chdir(sys.argv[1])
    for op in words or re.findall(r"^reading +(\S+)", open("tests/budgets.txt").read(), re.M):
        for device, kernels in KERNELS.items():
            seen = files_of(op, kernels)
            print(f"{op} on {device}: {len(seen)} files, {sum(map(lines_of, seen))} lines")
        if "--list" in sys.argv:
            print("".join(f"  {lines_of(path):5} {path}\n" for path in sorted(seen)), end="")


if __name__ == "__main__":
    main()
