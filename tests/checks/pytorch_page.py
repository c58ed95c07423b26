#!/usr/bin/env python3
"""Page of PyTorch's names: makes docs/pytorch.md of docs/pytorch_names.txt and the public headers.

   usage: pytorch_page.py SOURCE_DIR [--write | --run BUILD_DIR COMPILER]

Without --write it checks that the page is what would be written. With --run every piece of code on it is compiled and run, with
the variables of pytorch_page.h, and must give what the list says; and every name that is said to be here must be.
"""
import ast
import collections
import glob
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

os.chdir(sys.argv[1])
PRIVATE = re.compile(r"(_(kernels|cpu|cuda|plain|internal)(_[a-z0-9_]+)?\.h$|/(engine|mma|simd)/)")
CALL = re.compile(r"^(?:CT_API |inline |const |static |friend |virtual |explicit |constexpr )*[\w:<>,&* ]*?[&* ](\w+)\(")
TYPE = re.compile(r"^(?:template <[^;{]*> *|requires\(.*?\) )*(?:class|struct|concept) (?:CT_API )?(\w+)\b(?!;)|^(?:using|inline constexpr \w+) (\w+)(?: =|{)")
KINDS = {"function": ("function", "class"), "member": ("member",), "class": ("class", "function"), "nn": ("class",)}
INTRODUCTION = """# From PyTorch to Cotangent

PyTorch's names, and where they are here. Each name was looked up in the headers; each line of code was compiled and run, and
its result compared with the expected numbers (`tests/checks/pytorch_page.py` made this page of [pytorch_names.txt](pytorch_names.txt)).

`torch.f(x)` is `ct::f(x)`, `dim` is called `axis`, several axes are `{0, 2}`, and two results are a struct. Keyword arguments are
fields of a struct. Where C++ has a function's name already, such as `std`, the function has another one and the member keeps it. The
code stands in `using namespace ct`; its variables, `x` and `y` of 2 x 3 elements and others, are those of
[pytorch_page.h](../tests/checks/pytorch_page.h).

[ops.md](ops.md) lists each op's formula, inputs and dtypes.
"""


def declared():
    """{kind: {name: (header, namespace below ct)}}."""
    names = collections.defaultdict(dict)
    for folder in ("core", "autograd", "ops", "nn"):
        for where, _, files in sorted(os.walk(folder)):
            for file in sorted(files):
                path = f"{where}/{file}"
                if not file.endswith(".h") or PRIVATE.search(path):
                    continue
                spaces, depth = [], 0  # those open, each with the braces that are open in it
                for line in open(path, encoding="utf-8"):
                    depth += line.count("{") - line.count("}")
                    if match := re.match(r"namespace ([\w:]+) {$", line):
                        spaces.append((match[1], depth))
                    while spaces and depth < spaces[-1][1]:
                        spaces.pop()
                    space = "::".join(name for name, _ in spaces)[len("ct::"):]
                    if re.search(r"\bdetail\b", space):
                        continue
                    here = path, space + "::" * bool(space)
                    inside = line.startswith("  ")
                    line = line.strip()
                    if line.startswith(("//", "return", "#", "*")):
                        continue
                    if match := TYPE.match(line):
                        names["class"].setdefault(match[1] or match[2], here)
                    if inside and path == "core/tensor/tensor.h":
                        for name in re.findall(r"(\w+)\([^()]*\)(?: const)?[;&, {]", line) + re.findall(r"(\w+)\(", line)[:1]:
                            names["member"].setdefault(name, here)
                    elif not inside and (match := CALL.match(line)):
                        names["function"].setdefault(match[1], here)
    return names


def in_python():
    """Names in the Python package: published of the headers, bound by hand, or written in Python."""
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
    """(section title, prefix, kind, [(name, (code, expression, values), reason)])."""
    for part in open("docs/pytorch_names.txt", encoding="utf-8").read().split("\n## ")[1:]:
        head, *lines = part.split("\n")
        title, prefix, kind = (word.strip() for word in head.split("|"))
        found = []
        for line in lines:
            if match := re.match(r"(\S+) - (.*)", line):
                found.append((match[1], None, match[2]))
            elif match := re.match(r"(.+?) = (.+) -> (?:(.+): )?(.+)$", line):
                found.append((match[1], match.groups()[1:], None))
            elif " = " in line:
                sys.exit(f"docs/pytorch_names.txt: no values, as in NAME = CODE -> 1 2: {line}")
            else:
                found += [(word, None, None) for word in line.split()]
        yield title, prefix.strip(), kind, found


def page():
    names, here, text = declared(), [], [INTRODUCTION]
    python, everywhere = in_python(), 0

    def there(name, code=""):
        """The name's place in Python: the same, that of the function which the code is a call of, or none."""
        nonlocal everywhere
        last = re.sub(r"\(.*", "", name).rpartition(".")[2]
        called = re.fullmatch(r"(?:\w+(?:::|\.))*(\w+)\([^()]*\)", code)
        everywhere += last in python
        return f"`{last}`" if last in python else f"`{called[1]}`" if called and called[1] in python else "-"
    counts = collections.Counter()
    for title, prefix, kind, found in entries():
        same, other, missing, reasons = collections.defaultdict(list), [], [], []
        for name, ours, reason in found:
            last = name.rpartition(".")[2]
            where = next((names[k][last] for k in KINDS[kind] if last in names[k]), None)
            if ours:
                other.append(f"| `{prefix}{name}` | `{ours[0]}` | {there(name, ours[0]) if prefix else 'the same'} |")
            elif reason:
                reasons.append(f"| `{prefix}{name}` | {reason} | {there(name)} |")
            elif where:
                same[where[0]].append((f"`{where[1]}{last}`", there(name) != "-"))
                here.append((kind, where[1] + last))
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
    text.insert(1, f"{counts['same']} of {sum(counts.values())} names are here under the same, {counts['other']} under "
                   f"another, {counts['missing']} are missing and {counts['no']} not meant to come. The Python package has {everywhere} by PyTorch's name.")
    return "\n".join(text) + "\n", here


def run(build, compiler, here):
    """Compiles and runs what the page says, in two programs at a time; what is wrong, in words."""
    rows = [(name, *ours) for _, _, _, found in entries() for name, ours, _ in found if ours]
    folder = pathlib.Path(build) / "checks/pytorch_page"
    folder.mkdir(parents=True, exist_ok=True)
    members = "".join(f"  using Tensor::{name};\n" for kind, name in here if kind == "member")
    used = "".join(f"using ct::{name};\n" for name in sorted({name for kind, name in here if kind != "member"}))
    system = re.search(r"^Libs: .* -lcotangent (.*)", pathlib.Path(build, "cotangent.pc").read_text(), re.M)[1]
    libraries = [f"{build}/libcotangent_{name}.a" for name in ("io", "testing")] + [f"{build}/libcotangent.a", *shlex.split(system)]
    started, half = [], len(rows) // 2
    for part, (some, names) in enumerate(((rows[:half], f"struct Members : ct::Tensor {{\n{members}}};\nnamespace here {{\n{used}}}\n"),
                                          (rows[half:], ""))):
        text = '#include "pytorch_page.h"\n\n' + names
        for k, (name, code, expression, values) in enumerate(some):
            statement = code if code.endswith(";") else f"(void)({code});" if expression else ""
            text += (f"struct Row{k} : Given {{ void run() {{ {statement} same({json.dumps(name)}, {expression or code}, "
                     f"{{{values.replace(' ', ', ')}}}); }} }};\n")
        calls = "".join(f'  {"if (cuda_is_available()) " if "cuda(" in row[1] else ""}guarded<Row{k}>({json.dumps(row[0])});\n'
                        for k, row in enumerate(some))
        (folder / f"{part}.cpp").write_text(f"{text}int main() {{\n{calls}  return wrong;\n}}\n")
        build_it = shlex.join([compiler, "-std=c++20", "-O0", "-w", f"-I{build}/include", "-Itests/checks", f"{folder}/{part}.cpp",
                               *libraries, "-o", f"{folder}/{part}"])
        started.append(subprocess.Popen(f"{build_it} && {folder}/{part}", shell=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True))
    print(f"{len(rows)} pieces of code and {len(here)} names")
    return [output for output, one in [(one.communicate()[0], one) for one in started] if one.returncode]


new, here = page()
problems = []
if "--run" in sys.argv:
    problems = run(*sys.argv[-2:], here)
elif "--write" in sys.argv:
    open("docs/pytorch.md", "w", encoding="utf-8").write(new)
elif not os.path.exists("docs/pytorch.md") or open("docs/pytorch.md", encoding="utf-8").read() != new:
    problems.append("docs/pytorch.md is not up to date: tests/checks/pytorch_page.py . --write")
for problem in problems:
    print(problem)
print(re.search(r"\d+ of \d+ names.*", new)[0])
sys.exit(bool(problems))
