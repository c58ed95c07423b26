"""Are gradients right, and is an op all that its records say?"""
from typing import Any, Callable, Sequence

from . import _core


def _checked(f: Callable[..., Any], inputs: Any, twice: bool, eps: float, atol: float, rtol: float) -> bool:
    def results(given: Any) -> list[Any]:
        made = f(*given)
        return list(made) if isinstance(made, (tuple, list)) else [made]

    message = _core._gradcheck(results, list(inputs), twice, eps, atol, rtol)
    if message:
        raise AssertionError(message)
    return True


def gradcheck(f: Callable[..., Any], inputs: Sequence[Any], eps: float = 1e-6, atol: float = 1e-7,
              rtol: float = 1e-6) -> bool:
    """True where the gradients of f(*inputs) are those of central differences; else an AssertionError.

    Inputs that are f64 are checked, others are handed on. f gives a tensor, or several, and the same at each call.
    """
    return _checked(f, inputs, False, eps, atol, rtol)


def gradgradcheck(f: Callable[..., Any], inputs: Sequence[Any], eps: float = 1e-6, atol: float = 1e-7,
                  rtol: float = 1e-6) -> bool:
    """The same for gradients of gradients."""
    return _checked(f, inputs, True, eps, atol, rtol)


def check(function: Any, devices: Sequence[str] = ()) -> int:
    """Runs the conformance suite on an op: forward, gradients, layouts, dtypes, bad calls, on all devices or on these.

    Gives how many things were checked; raises an AssertionError with what failed.
    """
    op = getattr(function, "op", None) or next((op for op in _core.registry() if op.name == function.__name__), None)
    if op is None:
        raise TypeError(f"[check] {function.__name__} is composed of ops, and none itself; check those")
    checks, failures = _core._check(op, getattr(function, "loaded", None), list(devices))
    if failures:
        raise AssertionError("\n".join(failures))
    return checks
