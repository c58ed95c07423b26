"""Ops of one's own, outside of the library: as functions, made of what the op's records say.

An op takes its inputs in order, or by name, and then its attributes; NumPy's arrays and PyTorch's tensors may stand for inputs.
The op itself, with its records, is function.op; registry() lists them all.
"""
import ctypes as _ctypes
import inspect as _inspect
from typing import Any as _Any

from . import _core
from ._build import include_folder as _include_folder
from ._core import Op, registry


def _function_of(op):
    kinds = _inspect.Parameter
    parameters = [kinds(record["name"], kinds.VAR_POSITIONAL if record["rest"] else kinds.POSITIONAL_OR_KEYWORD,
                        default=None if record["optional"] else kinds.empty) for record in op.inputs]
    named = any(record["optional"] or record["rest"] for record in op.inputs)
    parameters += [kinds(a["name"], kinds.KEYWORD_ONLY if named else kinds.POSITIONAL_OR_KEYWORD, annotation=a["type"])
                   for a in op.attributes]
    signature = _inspect.Signature(parameters)

    def function(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"[{op.name}] {error}; it is {op.name}{signature}") from None
        inputs = []
        for record in op.inputs:
            inputs += given.pop(record["name"], ()) if record["rest"] else [given.pop(record["name"], None)]
        results = op(inputs, given)
        return results[0] if len(results) == 1 else tuple(results)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = "cotangent.ops"
    function.__doc__ = op.formula
    function.__signature__ = signature
    function.op = op
    return function


def _publish(op):
    import cotangent
    made = globals()[op.name] = _function_of(op)
    for owner in (cotangent, _core.Tensor):  # a function of the library keeps its name
        before = getattr(owner, op.name, made)
        if getattr(before, "__module__", None) == "cotangent.ops":
            setattr(owner, op.name, made)
    return made


def load_library(path: _Any) -> list[str]:
    """Loads a shared library that registers ops (ct::register_op), as functions of this module and the package.

    Gives the names of the ops that are new. Throws IoError where it can't be loaded.
    """
    before = {op.name for op in registry()}
    try:
        _ctypes.CDLL(str(path), mode=_ctypes.RTLD_LOCAL)
    except OSError as error:
        raise _core.IoError(f"[load_library] {error}; a shared library linked with Cotangent's is wanted") from None
    new = [op for op in registry() if op.name not in before]
    for op in new:
        _publish(op)
    return [op.name for op in new]


def load_op(path: _Any, compiler: str = "", flags: str = "", cache: _Any = "") -> _Any:
    """The op of a folder that `./ct op new` has made, compiled if need be: its function, one of this module too.

    A folder that has changed is compiled and loaded anew. Arguments that are left out have the library's defaults:
    compiler, flags, and where it keeps what it compiled (nn/plugin/README.md); function.loaded says what came of it.
    Throws IoError where there is no op or no compiler, and Error with the compiler's messages.
    """
    loaded = _core._load_op(str(path), compiler, flags, str(cache), _include_folder())
    function = _publish(loaded.op)
    function.loaded = loaded
    return function
