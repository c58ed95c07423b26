#!/usr/bin/env python3
"""What can be said of the Python package without building it (./ct python test builds and tests it).

Its files can be compiled, ops and attributes that it names are in docs/ops.md, and the Python of docs/python.md that is
complete can be compiled too.
   usage: python.py SOURCE_DIR
"""
import ast
import os
import re
import sys


def main():
    os.chdir(sys.argv[1])
    bad, attributes, ops = [], {"p", "q"}, set()
    for line in open("docs/ops.md"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 8 and cells[0] not in ("op", "---"):
            ops.add(cells[0])
            attributes |= {part for name in cells[3].split(", ") for part in name.split(".")}
    if len(ops) < 100:
        bad.append(f"docs/ops.md: {len(ops)} ops were read of its table")
    files = [os.path.join(where, name) for where, _, names in os.walk("python") for name in names if name.endswith(".py")]
    for path in sorted(files):
        text = open(path).read()
        try:
            tree = ast.parse(text, path)
        except SyntaxError as error:
            bad.append(f"{path}: {error}")
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ops":
                if node.attr not in ops and path.startswith("python/cotangent/"):
                    bad.append(f"{path}:{node.lineno}: there is no op {node.attr} in docs/ops.md")
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_DEFAULTS":
                for key in node.value.keys:
                    if key.value not in attributes:
                        bad.append(f"{path}:{key.lineno}: no op in docs/ops.md has an attribute {key.value}")
    blocks = re.findall(r"```python\n(.*?)```", open("docs/python.md").read(), re.S)
    for block in blocks:
        try:
            ast.parse(block)
        except SyntaxError as error:
            bad.append(f"docs/python.md: {error}\n{block}")
    print("\n".join(bad) if bad else f"{len(files)} files and {len(blocks)} blocks of Python name what is there. Skipped "
          "here: building and testing the module, which wants nanobind (./ct python test)")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
