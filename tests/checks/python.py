#!/usr/bin/env python3
"""Checks of the Python package without building it (the tests in python/tests do so).

Its files and the Python of docs/python.md can be compiled, and the public headers are read by python/generate, whose every
parameter type has a reader.
   usage: python.py SOURCE_DIR
"""
import ast
import glob
import os
import pathlib
import re
import sys
import tempfile


def bound(root):
    """Names of functions and of classes that python/generate publishes of the headers."""
    sys.path.insert(0, os.path.join(root, "python", "generate"))
    import bindings
    with tempfile.TemporaryDirectory() as folder:
        umbrella = pathlib.Path(folder) / "ops.h"
        headers = sorted(p for p in glob.glob("ops/**/*.h", recursive=True)
                         if not re.search(r"_(internal|kernels|cpu|cuda|plain)\b|ops/(engine|testing)/|_internal_", p))
        umbrella.write_text("".join(f"#include <cotangent/{p}>\n" for p in headers))
        sys.argv = ["bindings.py", root, str(umbrella), folder]
        made = bindings.main()
    return {kind: {entry["name"] for entry in made[kind]} for kind in ("functions", "layers", "optimizers")}


def main():
    os.chdir(sys.argv[1])
    bad = []
    files = [os.path.join(where, name) for where, _, names in os.walk("python") for name in names if name.endswith(".py")]
    texts = {path: open(path).read() for path in sorted(files)}
    blocks = re.findall(r"```python\n(.*?)```", open("docs/python.md").read(), re.S)
    for path, text in [*texts.items(), *(("docs/python.md", block) for block in blocks)]:
        try:
            ast.parse(text, path)
        except SyntaxError as error:
            bad.append(f"{path}: {error}")
    names = bound(os.getcwd())
    counts = {kind: len(some) for kind, some in names.items()}
    for kind, least in (("functions", 250), ("layers", 60), ("optimizers", 15)):
        if counts[kind] < least:
            bad.append(f"python/generate: {counts[kind]} {kind} are read of the headers; there are more")
    print("\n".join(bad) if bad else f"{len(files)} files and {len(blocks)} blocks of Python; from the headers {counts}")
    return bool(bad)


sys.exit(main())
