#!/usr/bin/env python3
"""Kernels of gpu::launch_waiting() wait before they touch memory: reads sources, and machine code for Hopper and newer.

usage: waits.py SOURCE_DIR BUILD_DIR [OBJECT ...]

A kernel that begins while the one before it still runs reads what is not written yet, unless it waits. Sources: what is launched
so begins with gpu::wait_for_previous(). Machine code: the wait (ACQBULK) stands ahead of all instructions that touch memory of the
device, as a compiler may move a load through pointers that it knows to be read alone. Objects are those of the build, or the ones
named. Skipped (77) where cuobjdump is missing.
"""
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys

TOUCHES = re.compile(r"\b(LDG|LD|STG|ST|ATOM|ATOMG|RED|LDGSTS|UBLKCP|UTMALDG|UTMASTG|UTMAREDG)\b(?!\.U?LDS)")


def kernels(text):
    """Yields (name, whether it waits) for the kernels that a file defines."""
    for at in re.finditer(r"__global__\s+void\b", text):
        rest = text[at.end():]
        bounds = re.match(r"\s*__launch_bounds__\s*", rest)
        if bounds:
            depth, i = 0, bounds.end()
            while True:
                depth += {"(": 1, ")": -1}.get(rest[i], 0)
                i += 1
                if depth == 0:
                    break
            rest = rest[i:]
        name = re.match(r"\s*(\w+)\s*\(", rest)
        body = re.match(r"[^;{]*\{((?:\s*(?!gpu::)[^;{]*\b(?:using|constexpr|extern)\b[^;]*;)*)\s*(\S*)", rest)
        if name and body:
            yield name[1], body[2].startswith(("gpu::wait_for_previous()", "wait_for_previous()"))


def launched(text):
    """Yields the kernel expressions of a file's calls of launch_waiting()."""
    for at in re.finditer(r"\blaunch_waiting\(", text):
        depth, parts, start, i = 0, [], at.end(), at.end()
        while depth >= 0 and len(parts) < 2:
            c = text[i]
            if c in "(<[{":
                depth += 1
            elif c in ")>]}":
                depth -= 1
            elif c == "," and depth == 0:
                parts.append(text[start:i])
                start = i + 1
            i += 1
        if len(parts) == 2:
            yield parts[1].strip()


def check_sources(root):
    waiting, others, wrong = {}, {}, []
    files = [f for folder in ("core", "ops", "nn") for f in sorted((root / folder).rglob("*.cu*"))]
    texts = {f: re.sub(r"//[^\n]*", "", f.read_text()) for f in files}
    for file, text in texts.items():
        for name, waits in kernels(text):
            (waiting if waits else others).setdefault(name, set()).add(file)
    for name in sorted(waiting.keys() & others.keys()):
        where = ", ".join(str(f.relative_to(root)) for f in others[name])
        wrong.append(f"{name}: one kernel of that name waits, that of {where} does not; give one of them another name")
    for file, text in texts.items():
        near = {n for f, t in texts.items() if f.parent == file.parent for n, _ in kernels(t)}
        for what in launched(text):
            if "Params" in what:  # its definition
                continue
            named = set(re.findall(r"\w+", what)) & (waiting.keys() | others.keys())
            if not named:  # a variable: what it is set to, or any kernel of the folder
                for value in re.findall(rf"\b{re.escape(what)}\s*=([^;]*);", text):
                    named |= set(re.findall(r"\w+", value)) & (waiting.keys() | others.keys())
            if not named and not near:
                wrong.append(f"{file.relative_to(root)}: launch_waiting({what}): no kernel that this could be is in its folder")
            for name in sorted((named or near) - waiting.keys()):
                wrong.append(f"{file.relative_to(root)}: {name} is launched by launch_waiting() and does not begin with "
                             "gpu::wait_for_previous()")
    return waiting, wrong


def check_object(cuobjdump, waiting, path):
    """Waiting kernels found in an object's code, and those whose code does not begin with the wait."""
    code = subprocess.run([cuobjdump, "-sass", str(path)], capture_output=True, text=True, check=False).stdout
    pattern = re.compile("|".join(f"{len(n)}{n}" for n in waiting))
    arch, function, found, wrong = 0, None, 0, []
    for line in code.splitlines():
        if at := re.search(r"code for sm_(\d+)", line):
            arch = int(at[1])
        elif at := re.search(r"Function : (\S+)", line):
            function = at[1] if arch >= 90 and pattern.search(at[1]) else None
            found += function is not None
        elif function and "/*" in line:
            text = line.split(";")[0]
            if "ACQBULK" in text:
                function = None
            elif TOUCHES.search(text) or "EXIT" in text:
                wrong.append(f"{path.name}: {function} touches memory, or ends, before it waits:{text.split('*/')[-1]}")
                function = None
    return found, wrong


def main():
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    waiting, wrong = check_sources(root)
    cuobjdump = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    objects = [pathlib.Path(o) for o in sys.argv[3:]] or sorted(build.rglob("*.cu.o"))
    found = 0
    if cuobjdump and objects:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for count, errors in pool.map(lambda o: check_object(cuobjdump, waiting, o), objects):
                found += count
                wrong += errors
        if found == 0:
            wrong.append("no object has a waiting kernel's code for compute capability 9.0 or newer")
    print("\n".join(wrong) or f"{len(waiting)} kernels wait, {found} of their instances read")
    if wrong:
        return 1
    return 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
