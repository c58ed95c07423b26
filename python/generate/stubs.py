"""Writes the stubs of the built package: nanobind's of what is bound by hand, and of what bindings.py has published.

   usage: stubs.py PACKAGE PUBLISHED_JSON
"""
import ast
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
    lines = []
    entry = {**entry, "forms": told_apart(entry["forms"])}
    for form, result in entry["forms"]:
        parts = parameters(form, entry.get("gathers"))
        if method:
            parts = ["self", *parts[1:]]
        mark = f"{indent}@overload\n" if len(entry["forms"]) > 1 else ""
        doc = documented(entry["doc"] if form is entry["forms"][0][0] else "", indent)
        lines.append(f"{mark}{indent}def {entry['name']}({', '.join(parts)}) -> {result}:{doc}")
    return "\n".join(lines) + "\n"


def layer(entry, base):
    lines = [f"class {entry['name']}({base}):{documented(entry['doc'], '') if entry['doc'] else ''}"]
    made = {"name": "__init__", "forms": [([["self", "", None], *form], result) for form, result in entry["forms"]], "doc": ""}
    lines.append(function(made, "    ", True))
    for name, form, result, doc in entry["methods"]:
        one = {"name": name, "forms": [([["self", "", None], *form], result)], "doc": doc}
        lines.append(function(one, "    ", True))
        if name == "forward":
            lines.append(function({**one, "name": "__call__", "doc": ""}, "    ", True))
    return "\n".join(lines)


def named(published):
    for name, fields in published["named"].items():
        yield f"class {name}(NamedTuple):\n" + "\n".join(f"    {f}: {kind}" for f, kind in fields) + "\n"


def without(text, names, indent=""):
    """A stub without the classes and attributes of these names."""
    for name in names:
        text = re.sub(rf"^{indent}{re.escape(name)}: .*\n(?:{indent}\"\"\"[^\"]*\"\"\"\n)?", "", text, flags=re.M)
        text = re.sub(rf"^{indent}class {re.escape(name)}\b.*\n(?:(?:{indent} +.*)?\n)*", "", text, flags=re.M)
    return text


def with_members(text, name):
    """A stub whose class has the members that Python gives it, of members.pyi, in place of nanobind's."""
    own = (pathlib.Path(__file__).parent / "members.pyi").read_text()
    found, = [c for c in ast.parse(own).body if c.name == name]
    names = {getattr(node, "name", None) or node.target.id for node in found.body}
    kept = text.replace("    @property\n    @property\n", "    @property\n").split("\n")
    target, = [c for c in ast.parse("\n".join(kept)).body if isinstance(c, ast.ClassDef) and c.name == name]
    for node in reversed(target.body):
        if (getattr(node, "name", None) or getattr(getattr(node, "target", None), "id", None)) in names:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            del kept[first - 1:node.end_lineno]
    end = next(c for c in ast.parse("\n".join(kept)).body if isinstance(c, ast.ClassDef) and c.name == name).end_lineno
    kept[end:end] = own.split("\n")[found.body[0].lineno - 1 - bool(getattr(found.body[0], "decorator_list", ())):found.end_lineno]
    first = next(c for c in ast.parse("\n".join(kept)).body if isinstance(c, ast.ClassDef) and c.name == name)
    for i in range(first.lineno, first.end_lineno + 1):  # methods named float, int and bool hide the types
        if re.match(r" +(def|\w+: \w)|  {8,}\S.*\) ->", kept[i]):
            kept[i] = re.sub(r"(?<![\w.])(?<!def )(float|int|bool)\b", r"builtins.\1", kept[i])
    return "\n".join(kept)


BARE = {"dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[int, ...]", "Callable": "Callable[..., Any]",
        "Iterator": "Iterator[Any]", "Sequence": "Sequence[Any]"}


def strict(text):
    """A stub as strict checkers want it: no generic type is bare, no argument untyped, what is used is imported."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.match(r" *(def |\w+: )", line):
            line = re.sub(r"(?<=[ \[])(dict|list|tuple|Callable|Iterator|Sequence)(?=[,):\]]| [|=]|$)",
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
    functions = [p for p in published["functions"] if not p.get("init")]
    core = folder / "_core"
    # The class Tensor: its own members, then the functions whose first argument it is.
    page = (core / "__init__.pyi").read_text()
    methods = {p["name"] for p in functions if p["method"]}
    before, mark, rest = page.partition("class Tensor")
    body, after = re.match(r"(.*?\n)(?=\S)(.*)", rest + "\nend", re.S).groups() if mark else ("", rest)
    bound = set(re.findall(r"^    def (\w+)", body, re.M))
    body = without(body, methods, "    ")
    body += "\n".join(function(p, "    ", True) for p in functions if p["method"] and p["name"] not in bound)
    results = "\n".join(named(published))
    start = re.match(DOCUMENTED, before).end()
    before = re.sub(r"from cotangent\.?[\w.]* import (\([^)]*\)|.*<lambda>.*)\n|^import numpy\n", "", before[start:], flags=re.M)
    text = page[:start] + HEAD + errors() + before + mark + body + "\n" + after[:-len("end")] + TYPES + \
        "from typing import NamedTuple\n" + results
    text = re.sub(r"arg: Tensor \| float \| numpy\.ndarray \| numpy\.generic", "arg: Operand", text)
    (core / "__init__.pyi").write_text(with_members(text, "Tensor"))
    (folder / "nn.pyi").write_text((pathlib.Path(__file__).parent / "nn.pyi").read_text())
    names = ["Tensor", "DType", "TensorLike", "Number", "DTypeLike", "RotaryScaling", *published["named"]]
    imports = "from . import " + ", ".join(names) + "\nfrom . import f32, f64, f16, bf16, i64, i32, u8, boolean\nfrom ._grad import Generator\n\n"
    (core / "_functions.pyi").write_text(HEAD + imports + "\n".join(function(p) for p in functions if p["function"]))
    (core / "_init.pyi").write_text(HEAD + imports + "\n".join(function(p) for p in published["functions"] if p.get("init")))
    for file, key, base in (("_nn", "layers", "Module"), ("_optim", "optimizers", None)):
        stub = core / f"{file}.pyi"
        entries = published[key]
        bound = {e["name"] for e in entries} & set(re.findall(r"^class (\w+)", stub.read_text(), re.M))
        text = without(stub.read_text(), bound)
        start = re.match(DOCUMENTED, text).end()
        text = text[:start] + HEAD + imports + text[start:] + "\n" + \
            "\n".join(layer(e, base or e["base"]) for e in entries if e["name"] in bound)
        stub.write_text(with_members(re.sub(r"from cotangent\.nn import \([^)]*\)\n", "", text).replace("class Module:", MODULE + "class Module:"), "Module") if file == "_nn" else text)
    for path in folder.rglob("*.pyi"):
        path.write_text(strict(path.read_text()))
        ast.parse(path.read_text(), str(path))


main()
