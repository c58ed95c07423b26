#!/usr/bin/env python3
"""Where PyTorch's names are here: makes docs/pytorch.md of docs/pytorch_names.txt and the public headers.

   usage: pytorch_page.py SOURCE_DIR [--write]

Without --write it checks that the page is what would be written. It fails too where the list says of a name that ours is
called something that no header declares.
"""
import ast
import collections
import glob
import os
import pathlib
import re
import sys
import tempfile

os.chdir(sys.argv[1])
PRIVATE = re.compile(r"(_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.h$|/(engine|mma|simd)/)")
CALL = re.compile(r"^(?:CT_API |inline |const |static |friend |virtual |explicit |constexpr )*[\w:<>,&* ]*?[&* ](\w+)\(")
TYPE = re.compile(r"^(?:template <[^;{]*> *)?(?:class|struct|concept) (?:CT_API )?(\w+)\b(?!;)|^(?:using|inline constexpr \w+) (\w+)(?: =|{)")
KINDS = {"function": ("function", "class"), "member": ("member",), "class": ("class", "function"), "nn": ("class",)}
INTRODUCTION = """# From PyTorch to Cotangent

What you know from PyTorch, and where it is here; each name was looked up in the headers (`tests/checks/pytorch_page.py`
made this page of [pytorch_names.txt](pytorch_names.txt)). In general:

- `torch.f(x)` is `ct::f(x)`, `dim` is called `axis`, and several axes are `{0, 2}`. Keyword arguments are fields of a struct:
  `torch.zeros(2, dtype=torch.float64)` is `ct::zeros({2}, {.dtype = ct::f64})`.
- Two results are a struct: `auto [values, indices] = x.max(1);`
- `x[0, 1:3, None]` is `x.index({0, Slice(1, 3), None})`, and can be assigned to.
- Of a name that is free in C++, `std` say, the function is called otherwise and the member is not.

What an op accepts, computes and saves, [ops.md](ops.md) says for each.
"""


def declared():
    """{kind: {name: header}}."""
    names = collections.defaultdict(dict)
    for folder in ("core", "autograd", "ops", "nn"):
        for where, _, files in sorted(os.walk(folder)):
            for file in sorted(files):
                path = f"{where}/{file}"
                if not file.endswith(".h") or PRIVATE.search(path):
                    continue
                for line in open(path, encoding="utf-8"):
                    inside = line.startswith("  ")
                    line = line.strip()
                    if line.startswith(("//", "return", "#", "*")):
                        continue
                    if match := TYPE.match(line):
                        names["class"].setdefault(match[1] or match[2], path)
                    if inside and path == "core/tensor.h":
                        for name in re.findall(r"(\w+)\([^()]*\)(?: const)?[;&, {]", line) + re.findall(r"(\w+)\(", line)[:1]:
                            names["member"].setdefault(name, path)
                    elif not inside and (match := CALL.match(line)):
                        names["function"].setdefault(match[1], path)
    return names


def in_python():
    """What the Python package has a name for: published of the headers, bound by hand, or written in Python."""
    sys.path.insert(0, "python/generate")
    import bindings
    with tempfile.TemporaryDirectory() as folder:
        umbrella = pathlib.Path(folder) / "ops.h"
        headers = sorted(p for p in glob.glob("ops/**/*.h", recursive=True)
                         if not re.search(r"_(internal|kernels|cpu|cuda|plain)\b|ops/(engine|testing)/|_internal_", p))
        umbrella.write_text("".join(f"#include <cotangent/{p}>\n" for p in headers))
        arguments, sys.argv = sys.argv, ["bindings.py", os.getcwd(), str(umbrella), folder]
        made, sys.argv = bindings.main(), arguments
    names = {entry["name"] for kind in ("functions", "layers", "optimizers", "plain") for entry in made[kind]}
    names |= {name for entry in made["plain"] for name in (*(one["name"] for one in entry.get("methods", ())), *(one[0] for one in entry.get("properties", ())))}
    for path in glob.glob("python/*.cpp"):
        names |= set(re.findall(r'(?:def\w*\(|class_<[^;(]*?\(\s*\w+,)\s*"(\w+)"', open(path, encoding="utf-8").read()))
    for path in glob.glob("python/cotangent/*.py"):
        page = ast.parse(open(path, encoding="utf-8").read())
        for body in (page.body, *(c.body for c in page.body if isinstance(c, ast.ClassDef) and c.name != "device")):
            for node in body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    names.add(node.name)
                elif isinstance(node, (ast.Assign, ast.ImportFrom)):
                    names |= {n.attr if isinstance(n, ast.Attribute) else n.id if isinstance(n, ast.Name) else n.asname or n.name
                              for n in ast.walk(node) if isinstance(n, ast.alias)
                              or isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store)}
    return names


def entries():
    """(section title, prefix, kind, [(name, ours, reason)])."""
    for part in open("docs/pytorch_names.txt", encoding="utf-8").read().split("\n## ")[1:]:
        head, *lines = part.split("\n")
        title, prefix, kind = (word.strip() for word in head.split("|"))
        found = []
        for line in lines:
            if match := re.match(r"(\S+) - (.*)", line):
                found.append((match[1], None, match[2]))
            elif match := re.match(r"(\S+) = (.*)", line):
                found.append((match[1], match[2], None))
            else:
                found += [(*word.split("=", 1), None) if "=" in word else (word, None, None) for word in line.split()]
        yield title, prefix.strip(), kind, found


def page():
    names, problems, text = declared(), [], [INTRODUCTION]
    python, everywhere = in_python(), 0

    def there(name, ours=""):
        """The name's place in Python: the same, ours, or none."""
        nonlocal everywhere
        last = name.rpartition(".")[2]
        everywhere += last in python
        return f"`{last}`" if last in python else f"`{ours}`" if re.fullmatch(r"\w+", ours) and ours in python else "-"
    counts = collections.Counter()
    everything = {name for kind in names.values() for name in kind}
    for title, prefix, kind, found in entries():
        same, other, missing, reasons = collections.defaultdict(list), [], [], []
        for name, ours, reason in found:
            where = next((names[k][name] for k in KINDS[kind] if name in names[k]), None)
            if ours:
                unknown = set(re.findall(r"[A-Za-z_]\w*", ours)) - everything - {"a", "b", "x", "ct", "Tensor"}
                problems += [f"{prefix}{name}: no header declares {word}" for word in sorted(unknown)]
                other.append(f"| `{prefix}{name}` | `{ours}` | {there(name, ours)} |")
            elif reason:
                reasons.append(f"| `{prefix}{name}` | {reason} | {there(name)} |")
            elif where:
                same[where].append((f"`{name}`", there(name) != "-"))
            else:
                missing.append(f"`{prefix}{name}`" + (" (in Python)" if there(name) != "-" else ""))
            counts["other" if ours else "no" if reason else "same" if where else "missing"] += 1
        text.append(f"\n## {title}\n")
        if same:
            text.append("By the same name:\n\n| header | names | not in Python |\n|---|---|---|")
            text += [f"| [{where}](../{where}) | {', '.join(n for n, _ in group)} | {', '.join(n for n, here in group if not here)} |"
                     for where, group in sorted(same.items())]
        if other:
            text.append(("\n" if same else "") + "| in PyTorch | in C++ | in Python |\n|---|---|---|\n" + "\n".join(other))
        if reasons:
            text.append("\n| not in C++ | | in Python |\n|---|---|---|\n" + "\n".join(reasons))
        if missing:
            text.append("\nMissing so far: " + ", ".join(missing) + ".")
    text.insert(1, f"Of {sum(counts.values())} names, {counts['same']} are here under the same, {counts['other']} under "
                   f"another, {counts['missing']} are missing and {counts['no']} not meant to come. The Python package has {everywhere} by PyTorch's name.")
    return "\n".join(text) + "\n", problems


new, problems = page()
if "--write" in sys.argv:
    open("docs/pytorch.md", "w", encoding="utf-8").write(new)
elif not os.path.exists("docs/pytorch.md") or open("docs/pytorch.md", encoding="utf-8").read() != new:
    problems.append("docs/pytorch.md is not up to date: tests/checks/pytorch_page.py . --write")
for problem in problems:
    print(problem)
print(re.search(r"Of \d+ names.*", new)[0])
sys.exit(bool(problems))
