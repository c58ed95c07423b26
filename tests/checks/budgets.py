#!/usr/bin/env python3
"""Costs of a build and sizes of the library, folder by folder, against tests/budgets.txt.

usage: budgets.py SOURCE_DIR [BUILD_DIR] [--record]; without a build the lines alone

Lines of code are those of lines.sh. Kernels are the __global__ functions in the build's objects, each instance of a
template counted: the names that the objects register with the CUDA runtime. Seconds are those between start and end of
each compilation in Ninja's log (on an idle machine, with as many jobs as cores, about its CPU seconds). The CPU seconds
of the whole build are what ./ct test measured and left in BUILD_DIR/cpu-seconds.txt.

A row of budgets.txt is "WHAT NAME LIMIT": `lines` or `kernels` of a folder with all that is in it, of `all`, or of the
`library`, which is all but nn/io, nn/explain, nn/profile, nn/text and `testing` (what ops are tested with); of `python`, which is
in neither; `reading` of an op, the lines that its reader meets (reading.py); or `cpu` of a build folder. Exit 1: one is over its
limit. --record writes what this build has into budgets.txt, CPU seconds twice, since machines differ.
"""
import collections
import datetime
import os
import re
import struct
import subprocess
import sys

import reading

HEADER = """# What may not be exceeded without a change to this file: what, of which folder, limit, and the day it was recorded.
# tests/checks/budgets.py explains and checks it; with --record it writes it. CPU seconds are those of the slowest machine met:
# two busy cores of a Zen 3 take 1.7 times those of a Zen 4.
"""


def folders_of_batches(build):
    """The folders of objects that several files are compiled into (COTANGENT_BATCH), by the objects' names."""
    rows = (line.split() for line in open(os.path.join(build, "batches.txt")))
    return {f"unity_{re.sub('[^A-Za-z0-9]', '_', batch)}_cxx.cxx.o":
            os.path.dirname(file if batch.startswith(os.path.dirname(file)) else batch) for batch, file in rows}


def folder_of(output, batches={}):
    """The source folder of an object file or program, by its path in the build folder."""
    match = re.match(r"CMakeFiles/([^/]+)\.dir/(.*)/[^/]*$", output)
    if not match:
        return "programs" if "CMakeFiles" not in output else "other"
    target, folder = match.groups()
    folder = batches.get(os.path.basename(output), folder)
    if target in ("cotangent_testing", "cotangent_samples"):
        return "testing"
    if target.startswith("cotangent"):
        return folder if folder.split("/")[0] in ("core", "autograd", "ops", "nn") else "other"
    return "tests" if target.startswith(("ct_tests", "ct_fuzz", "ct_plugin", "ct_link")) else "examples and bench"


def seconds_by_folder(build):
    path = os.path.join(build, ".ninja_log")
    spans = {}
    if os.path.exists(path):
        for line in open(path):
            if not line.startswith("#"):
                start, end, _, output = line.split("\t")[:4]
                if not os.path.isabs(output):
                    spans[output] = (int(end) - int(start)) / 1000
    out, batches = collections.Counter(), folders_of_batches(build)
    for output, span in spans.items():
        out[folder_of(output, batches)] += span
    return out


def read_only_strings(data):
    """The strings in the .rodata sections of an ELF64 object."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        start = headers[names][4] + name
        if data[start:start + 7] == b".rodata":
            yield from data[offset:offset + length].split(b"\0")


def kernels_by_folder(build):
    out = collections.Counter()
    for base, _, files in os.walk(os.path.join(build, "CMakeFiles")):
        for file in files:
            path = os.path.join(base, file)
            if file.endswith(".cu.o") and "/cotangent" in path:
                # Variables of headers are registered too, under a name that the compiler marks.
                names = {s for s in read_only_strings(open(path, "rb").read())
                         if re.fullmatch(rb"_Z[A-Za-z0-9_$.]+", s) and b"_INTERNAL_" not in s}
                out[folder_of(os.path.relpath(path, build))] += len(names)
    return out


def cpu_seconds(build):
    try:
        text = open(os.path.join(build, "cpu-seconds.txt")).read()
    except FileNotFoundError:
        return None
    return sum(float(word.replace(",", ".")) for word in text.split()) if text.strip() else None


def is_part(name, folder):
    """Whether a folder is in the one of that name, or in what the name stands for."""
    if folder.startswith("python/"):
        return name == "python"
    if name == "library":
        return not folder.startswith(("nn/io/", "nn/explain/", "nn/profile/", "nn/text/", "testing/"))
    return name == "all" or folder.startswith(name + "/")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--record"]
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    source, build = os.path.abspath(arguments[0]), os.path.abspath(arguments[1]) if arguments[1:] else None
    tree = os.path.basename(build or "lines")
    text = subprocess.run([source + "/tests/checks/lines.sh", source, "--folders"], check=True, capture_output=True,
                          text=True).stdout
    lines = collections.Counter({row.split()[0]: int(row.split()[1]) for row in text.splitlines()})
    kernels, seconds, cpu = collections.Counter(), collections.Counter(), None
    if build:
        kernels, seconds, cpu = kernels_by_folder(build), seconds_by_folder(build), cpu_seconds(build)

    print(f"{tree:24} {'lines':>7} {'kernels':>8} {'seconds':>8}")
    for folder in sorted(set(lines) | set(kernels) | set(seconds)):
        print(f"{folder:24} {lines[folder] or '':>7} {kernels[folder] or '':>8} {seconds[folder]:8.1f}")
    print(f"{'together':24} {lines.total():>7} {kernels.total():>8} {seconds.total():8.1f}")
    if cpu is not None:
        print(f"{cpu:.0f} CPU seconds in the last build of {tree}")

    os.chdir(source)

    def measured(what, name):
        if what == "reading":
            return reading.lines_to_read(name)
        if what == "cpu":
            return cpu if name == tree else None
        counts = lines if what == "lines" else kernels
        if not counts:
            return None  # a build without CUDA
        return sum(n for folder, n in counts.items() if is_part(name, folder + "/"))

    path = os.path.join(source, "tests/budgets.txt")
    rows = [row.split() for row in open(path) if row.strip() and not row.startswith("#")]
    if "--record" in sys.argv:
        for row in rows:
            value = measured(row[0], row[1])
            if value is not None:
                row[2:] = [str(round(2 * value, -1) if row[0] == "cpu" else value).split(".")[0],
                           datetime.date.today().isoformat()]
        with open(path, "w") as out:
            out.write(HEADER)
            out.writelines(f"{row[0]:8} {row[1]:12} {row[2]:>6}  {row[3]}\n" for row in rows)
        return 0
    status = 0
    for what, name, limit, *_ in rows:
        value = measured(what, name)
        if value is not None and value > float(limit):
            print(f"over budget: {what} of {name}: {value:.0f}, the limit is {limit} (tests/budgets.txt)")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
