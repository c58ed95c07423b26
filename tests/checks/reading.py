#!/usr/bin/env python3
"""Counts what a reader of ops has to read, forward and back: for each op the files that NAME.cpp and its kernels reach by
includes in ops/, core/simd/, core/cuda/ and nn/optim/, with the sources of engines, and their lines of code.

  usage: reading.py SOURCE_DIR [--list] OP...
"""
import os
import re
import sys

ROOMS = ("ops/", "core/simd/", "core/cuda/", "nn/optim/")
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


def main():
    words = [word for word in sys.argv[2:] if word != "--list"]
    os.chdir(sys.argv[1])
    files = {os.path.join(folder, name)[2:] for folder, _, names in os.walk(".") for name in names if folder.startswith(("./ops", "./nn"))}
    for op in words:
        for device, kernels in KERNELS.items():
            ends = (".cpp", *kernels)
            starts = [path for path in files if os.path.basename(path) in [op + end for end in ends]]
            if not starts:
                sys.exit(f"{op} is no op with files of its own")
            seen = reached(starts, kernels)
            print(f"{op} on {device}: {len(seen)} files, {sum(map(lines_of, seen))} lines")
        if "--list" in sys.argv:
            print("".join(f"  {lines_of(path):5} {path}\n" for path in sorted(seen)), end="")


main()
