"""Writes the stubs of the built package: nanobind's of what is bound by hand, and of what bindings.py has published.

   usage: stubs.py PACKAGE PUBLISHED_JSON
"""
import ast
import collections
import json
import pathlib
import re
import sys

HEAD = """import builtins
import numpy as _numpy
from typing import Any, Callable, Iterator, Literal, Mapping, Protocol, Self, Sequence, SupportsIndex, TypeAlias, Union, overload

"""
TYPES = """class SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

Number: TypeAlias = Union[float, SupportsIndex]
TensorLike: TypeAlias = Union[Tensor, Number, SupportsDLPack]
DTypeLike: TypeAlias = Union[DType, type, str]
RotaryScaling: TypeAlias = dict[str, Any]
NDArray: TypeAlias = _numpy.ndarray[Any, Any]
Operand: TypeAlias = Union[Tensor, float, NDArray, _numpy.generic]
from cotangent._core._grad import Generator
from cotangent._device import device as _Device
"""
MODULE = """from cotangent.nn import Parameter as _Parameter, RemovableHandle as _RemovableHandle, _LoadReport

"""


DOCUMENTED = r'("""(?:[^"]|"(?!""))*"""\n)?'


def errors():
    """The classes of errors, each also the one of Python's that its kind has."""
    from cotangent import _core
    lines = ["import builtins as _builtins", ""]
    for name, kind in vars(_core).items():
        if isinstance(kind, type) and issubclass(kind, BaseException):
            bases = [b.__name__ if b.__module__ == "cotangent" else f"_builtins.{b.__name__}" for b in kind.__bases__]
            lines.append(f"class {name}({', '.join(bases)}): ...")
    return "\n".join(lines) + "\n\n"


def parameters(form, gathers=False):
    parts, optional = [], False
    for name, kind, default in form:
        if gathers and kind == "Sequence[TensorLike]":
            parts.append(f"*{name}: TensorLike | {kind}")
            continue
        if gathers and kind.startswith("int | Sequence[int]") and not any(p.startswith("*") for p in parts):
            parts.append(f"*{name}: {kind}")
            continue
        optional = optional or default is not None
        parts.append(f"{name}: {kind}" + (" = ..." if optional else ""))
    return parts


def documented(text, indent):
    if not text:
        return " ..."
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'\n{indent}    """' + text.replace("\n", f"\n{indent}    ") + f'\n{indent}    """'


def told_apart(forms):
    """The forms that types tell apart: a number may stand for a tensor, so add(a, number) is add(a, b)."""
    kept = []
    for form, result in sorted(forms, key=lambda f: (len(f[0]), sum(k == "Number" for _, k, _ in f[0]))):
        names = [name for name, _, _ in form]
        for i, (other, other_result) in enumerate(kept):
            theirs = [name for name, _, _ in other]
            if other_result == result and names[:len(theirs)] == theirs and all(d is not None for _, _, d in form[len(theirs):]):
                kept[i] = (form if len(form) > len(other) else other, result)
                break
        else:
            kept.append((form, result))
    return kept


def function(entry, indent="", method=False):
    lines, forms = [], told_apart(entry["forms"])
    for form, result in forms:
        parts = parameters(form, entry.get("gathers"))
        if method:
            parts[0] = "self"
        mark = f"{indent}@overload\n" if len(forms) > 1 else ""
        doc = documented(entry["doc"] if form is forms[0][0] else "", indent)
        lines.append(f"{mark}{indent}def {entry['name']}({', '.join(parts)}) -> {result}:{doc}")
    return "\n".join(lines) + "\n"


def members(entry):
    """A class with what is published of it."""
    lines = [f"class {entry['name']}:"]
    if entry["forms"]:
        lines.append(function({"name": "__init__", "forms": entry["forms"], "doc": ""}, "    ", True))
    for name, kind, doc in entry.get("properties", ()):
        lines.append(f"    @property\n    def {name}(self) -> {kind}:{documented(doc, '    ')}\n")
    for one in entry["methods"]:
        lines.append(function(one, "    ", True))
        if one["name"] == "forward":
            lines.append(function({**one, "name": "__call__", "doc": ""}, "    ", True))
    return "\n".join([*lines, ""]) if lines[1:] else ""


def named(published):
    for name, fields in published["named"].items():
        yield f"class {name}(NamedTuple):\n" + "\n".join(f"    {f}: {kind}" for f, kind in fields) + "\n"


def name_of(node):
    target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
    return getattr(node, "name", None) or getattr(target, "id", None)


def first(node):
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def merged(text, own):
    """A stub with `own` in place of what it says of the same names; of a class, member by member."""
    text = re.sub(r"^(    @(property|\w+\.setter)\n)+(?!    def|    @)", "", text, flags=re.M)  # of functions of Python's
    lines, mine = text.replace("    @property\n    @property\n", "    @property\n").split("\n"), own.split("\n")
    new = ast.parse(own).body

    def remove(nodes, names):
        for node, after in reversed(list(zip(nodes, [*nodes[1:], None]))):
            if name_of(node) in names:
                note = isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr)
                del lines[first(node) - 1:(after if note else node).end_lineno]

    nodes = ast.parse("\n".join(lines)).body
    for node in (node for node in reversed(nodes) if isinstance(node, ast.ClassDef)):
        theirs = [c for c in new if isinstance(c, ast.ClassDef) and c.name == node.name]
        lines[node.end_lineno:node.end_lineno] = [line for c in theirs for line in mine[first(c.body[0]) - 1:c.end_lineno]]
        remove(node.body, {name_of(member) for c in theirs for member in c.body} - {None})
    functions = [node for node in new if not isinstance(node, ast.ClassDef)]
    remove(ast.parse("\n".join(lines)).body, set(map(name_of, functions)))
    return "\n".join([*lines, *("\n".join(mine[first(node) - 1:node.end_lineno]) for node in functions), ""])


def plain_types(text):
    """Methods named float, int and bool hide the types of their class."""
    lines = text.split("\n")
    for i in (i for c in ast.parse(text).body if name_of(c) in ("Tensor", "Module") for i in range(c.lineno, c.end_lineno)):
        if re.match(r" +(def|\w+: \w)|  {8,}\S.*\) ->", lines[i]):
            lines[i] = re.sub(r"(?<![\w.])(?<!def )(float|int|bool)\b", r"builtins.\1", lines[i])
    return "\n".join(lines)


BARE = {"dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[int, ...]", "Callable": "Callable[..., Any]",
        "Iterator": "Iterator[Any]", "Sequence": "Sequence[Any]"}


def strict(text):
    """A stub as strict checkers want it: no generic type is bare, no argument untyped, what is used is imported."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.match(r" *(def |\w+: )", line):
            line = re.sub(r"(?<=[ \[])(dict|list|tuple|Callable|Iterator|Sequence)(?=[,):\]]| [|=]|$)(?!: [A-Z])",
                          lambda m: BARE[m[1]], line)
            lines[i] = re.sub(r"(?<=[( ])(\*{1,2}\w+)(?=[,)])", r"\1: Any", line)
    text = "\n".join(lines)
    text = re.sub(r"^__nanobind_internals__.*\n", "", text, flags=re.M)
    text = re.sub(r"^(    def (__eq__|__ne__|__reduce_ex__)\(.*\.\.\.)$", r"\1  # type: ignore[override]", text, flags=re.M)
    if re.search(r"\bAny\b", text) and not re.search(r"import .*\bAny\b", text):
        start = re.match(DOCUMENTED, text).end()
        text = text[:start] + "from typing import Any\n" + text[start:]
    return text


def main():
    folder, published = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
    sys.path[0] = str(folder.parent)  # not that of the sources
    try:
        from nanobind.stubgen import main as write_core
    except ImportError:
        return
    write_core(["-q", "-m", "cotangent._core", "-r", "-P", "-O", str(folder)])
    core, here = folder / "_core", pathlib.Path(__file__).parent
    own, shown = collections.defaultdict(str), (here / "members.pyi").read_text()
    own["_functions"] = "".join(function(entry) for entry in published["functions"] if entry["function"])
    for key, part in (("plain", None), ("layers", "_nn"), ("optimizers", "_optim")):
        for entry in published[key]:
            own[part or entry["part"]] += members(entry) if "methods" in entry else function(entry)
    tensor = re.search(r"^class Tensor.*?(?=^\S)", (core / "__init__.pyi").read_text(), re.S | re.M)[0]
    bound = set(re.findall(r"^    def (\w+)", tensor, re.M))
    own["_core"] += "class Tensor:\n" + "\n".join(function(p, "    ", True) for p in published["functions"]
                                                 if p["method"] and p["name"] not in bound)
    names = ["Tensor", "DType", "TensorLike", "Number", "DTypeLike", "RotaryScaling", *published["named"]]
    imports = "from . import " + ", ".join(names) + "\nfrom . import f32, f64, f16, bf16, i64, i32, u8, boolean\n"
    for part, mine in own.items():
        path = core / f"{part.replace('_core', '__init__')}.pyi"
        page = re.sub(r"from cotangent\.?[\w.]* import (\([^)]*\)|.* as .*)\n", "", path.read_text())
        start = re.match(DOCUMENTED, page).end()
        if part == "_core":
            body = re.sub(r"^import numpy\n", "", page[start:], flags=re.M)
            body = errors() + re.sub(r"arg: Tensor \| float \| numpy\.ndarray \| numpy\.generic", "arg: Operand", body)
            body += TYPES + "from typing import NamedTuple\n" + "\n".join(named(published))
        else:
            body = imports + ("from ._grad import Generator\n" if part != "_grad" else "") + "\n" + page[start:]
        text = page[:start] + HEAD + body.replace("class Module:", MODULE + "class Module:")
        path.write_text(plain_types(merged(merged(text, mine), shown)))
    (folder / "nn.pyi").write_text((here / "nn.pyi").read_text())
    for path in folder.rglob("*.pyi"):
        path.write_text(strict(path.read_text()))
        ast.parse(path.read_text(), str(path))


if __name__ == "__main__":
    main()
