"""Signatures of generated functions and classes, of their text."""
import functools
import inspect
from typing import Any

from . import _core

_KNOWN = {name: getattr(_core, name) for name in ("f32", "f64", "f16", "bf16", "i64", "i32", "u8", "boolean")}


@functools.lru_cache(maxsize=None)
def of(text: str) -> inspect.Signature:
    """"(x, beta=1.0)" as an inspect.Signature."""
    names = eval(f"lambda {text[1:-1]}: 0", _KNOWN)  # noqa: S307  of this package's own text
    return inspect.signature(names)


def bound(text: str, args: Any, named: Any) -> dict[str, Any]:
    """The arguments of a call with the defaults of what was left out, by name."""
    try:
        given = of(text).bind(*args, **named)
    except TypeError:  # PyTorch's names, or sizes one by one
        return dict(named)
    given.apply_defaults()
    return dict(given.arguments)
