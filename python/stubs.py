"""Writes the stubs of the package: _core.pyi by nanobind, ops.pyi of the registry's records.

   usage: stubs.py PACKAGE, the folder of a built package
"""
import ast
import inspect
import pathlib
import sys

KINDS = {"bool": "bool", "int": "int", "float": "float", "number": "float | int | bool", "dims": "int | Sequence[int]",
         "dtype": "DType", "device": "str", "draw": "tuple[int, int] | None", "int or pair": "int | tuple[int, int]"}


def stub_of(function):
    from cotangent import _functions as functions
    kinds = {a.name: KINDS.get(a.kind, "str") for a in functions.attributes_of(function.op)}
    parts, starred = [], False
    for name, p in function.__signature__.parameters.items():
        if p.kind is p.KEYWORD_ONLY and not starred and not any(part.startswith("*") for part in parts):
            parts.append("*")
            starred = True
        kind = kinds.get(name, "Array" if p.default is p.empty else "Array | None")
        parts.append(("*" if p.kind is p.VAR_POSITIONAL else "") + f"{name}: {kind}"
                     + ("" if p.default is p.empty else " = ..."))
    several = len(functions.outputs_of(function.op)) > 1
    result = "tuple[Tensor, ...]" if several or function.op.name == "unbind" else "Tensor"
    lines = [f"def {function.__name__}({', '.join(parts)}) -> {result}:"]
    lines += ['    r"""' + inspect.getdoc(function).replace("\n", "\n    ") + '"""']
    return "\n".join(lines) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    sys.path[0] = str(folder.parent)  # not that of the sources
    import cotangent
    text = '"""Every op of the registry; written by stubs.py while building."""\n'
    text += "from typing import Any, Sequence\n\nfrom ._core import DType, Tensor\n\n"
    text += "Array = Tensor | float | Any  # Any: what has __dlpack__\n\n"
    text += "def load_library(path: str) -> list[str]: ...\n"
    text += "def load_op(path: Any, compiler: str = ..., flags: str = ..., cache: str = ...) -> Any: ...\n\n"
    text += "\n".join(stub_of(getattr(cotangent.ops, op.name)) for op in cotangent.registry())
    (folder / "ops.pyi").write_text(text)
    try:
        from nanobind.stubgen import main as write_core
    except ImportError:
        return
    write_core(["-q", "-m", "cotangent._core", "-r", "-P", "-O", str(folder)])
    for path in folder.rglob("*.pyi"):
        ast.parse(path.read_text(), str(path))


main()
