#!/usr/bin/env python3
"""What can be said of the Python package without building it (the tests in python/tests do so).

Its files can be compiled, ops and attributes that it names are in docs/ops.md, what it takes for an attribute that is left
out is what the op's header has, and the Python of docs/python.md that is complete can be compiled too.
   usage: python.py SOURCE_DIR
"""
import ast
import glob
import os
import re
import sys

LITERALS = {"true": True, "false": False, "Reduction::mean": "mean"}


def defaults_of_headers():
    """By op and attribute, the literals that the header which declares the op has for that name."""
    found = {}
    for path in glob.glob("ops/**/*.h", recursive=True):
        if re.search(r"_internal|_kernels|_cpu|_plain|ops/(engine|testing)/", path):
            continue
        text = re.sub(r"//[^\n]*", "", open(path).read())
        values = {}
        for name, value in re.findall(r"\b(\w+) = ([-\w.:]+)\s*[,;)]", text):
            try:
                values.setdefault(name, []).append(LITERALS[value] if value in LITERALS else ast.literal_eval(value))
            except (ValueError, SyntaxError):
                pass  # what is computed
        for op in re.findall(r"\bCT_API [\w:<>, ]+? (\w+)\(", text):
            for name, some in values.items():
                found.setdefault((op, name), []).extend(some)
    return found


def wrong_defaults(tables, attributes_of):
    """What the package takes for an attribute that is left out, and the op's header has not."""
    headers, compared = defaults_of_headers(), 0
    for op, names in attributes_of.items():
        for name in names - {"p", "q"}:  # what numbers an elementwise formula has
            ours = tables["_DEFAULTS_OF_OPS"].get(f"{op}.{name}", tables["_DEFAULTS"].get(name))
            theirs = headers.get((op, name), [])
            compared += bool(theirs) and ours is not None
            if theirs and ours is not None and ours not in theirs:
                yield f"python/cotangent/_functions.py: {op} has {name} = {ours}; its header has {theirs[0]}"
    if compared < 40:
        yield f"python/cotangent/_functions.py: {compared} defaults were compared with the headers; there are more"


def main():
    os.chdir(sys.argv[1])
    bad, attributes, ops, attributes_of, tables = [], {"p", "q"}, set(), {}, {}
    for line in open("docs/ops.md"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 8 and cells[0] not in ("op", "---"):
            ops.add(cells[0])
            attributes |= {part for name in cells[3].split(", ") for part in name.split(".")}
            attributes_of[cells[0]] = {re.sub(r"\.(height|width)$", "", name).split(".")[-1] for name in cells[3].split(", ")}
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
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").startswith("_DEFAULTS"):
                tables[node.targets[0].id] = {key.value: getattr(value, "value", None) if isinstance(value, ast.Constant)
                                              else ast.literal_eval(value) if isinstance(value, ast.UnaryOp) else None
                                              for key, value in zip(node.value.keys, node.value.values)}
                for key in node.value.keys:
                    if key.value.split(".")[-1] not in attributes:
                        bad.append(f"{path}:{key.lineno}: no op in docs/ops.md has an attribute {key.value}")
    bad += wrong_defaults(tables, attributes_of)
    blocks = re.findall(r"```python\n(.*?)```", open("docs/python.md").read(), re.S)
    for block in blocks:
        try:
            ast.parse(block)
        except SyntaxError as error:
            bad.append(f"docs/python.md: {error}\n{block}")
    print("\n".join(bad) if bad else f"{len(files)} files and {len(blocks)} blocks of Python name what is there")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
