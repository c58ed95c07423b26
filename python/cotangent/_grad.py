"""Gradients of tensors and of functions, what a thread's mode is, generators."""
import functools as _functools
import inspect as _inspect
import secrets as _secrets
from typing import Any, Callable, Optional, Protocol, TypeVar

from . import _core
from ._core import Tensor, _grad
from ._core._grad import (Explanation, Generator, Profile, anomaly_enabled, autocast, default_generator, detect_anomaly,
                          set_anomaly)

__all__ = ["Explanation", "Generator", "Profile", "anomaly_enabled", "autocast", "checkpoint", "default_generator",
           "detect_anomaly", "enable_grad", "explain", "get_rng_state", "grad", "hessian", "inference_mode",
           "initial_seed", "is_grad_enabled", "jacobian", "jvp", "no_grad", "profile", "recompute", "seed", "set_anomaly",
           "set_grad_enabled", "set_rng_state", "time_of", "value_and_grad", "vjp"]

_F = TypeVar("_F", bound=Callable[..., Any])


class _Mode(Protocol):
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> None: ...
    def __call__(self, function: _F) -> _F: ...


def _several(op: str, name: str, value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if not isinstance(value, (tuple, list)) or not all(isinstance(one, Tensor) for one in value):
        raise TypeError(f"[{op}] {name} is a {type(value).__name__}; a tensor, or a tuple of them, is wanted")
    return list(value)


# ---- Modes -----------------------------------------------------------------------------------------------------------

def _decorate(scope: Any, function: Any) -> Any:
    for kind in (_inspect.isgeneratorfunction, _inspect.iscoroutinefunction, _inspect.isasyncgenfunction):
        if kind(function):
            raise TypeError(f"[{type(scope).__name__}] {function.__name__}() stops in the middle, where the mode would "
                            "be its caller's; write `with` inside of it")

    @_functools.wraps(function)
    def run(*inputs: Any, **more: Any) -> Any:
        with scope:
            return function(*inputs, **more)
    return run


def no_grad(function: Any = None) -> _Mode:
    """with ct.no_grad(), or @ct.no_grad(): nothing is recorded in here."""
    return _grad.GradMode(False) if function is None else _decorate(_grad.GradMode(False), function)


def enable_grad(function: Any = None) -> _Mode:
    """with ct.enable_grad(), or @ct.enable_grad(): ops are recorded in here, also inside of no_grad()."""
    return _grad.GradMode(True) if function is None else _decorate(_grad.GradMode(True), function)


inference_mode = no_grad
is_grad_enabled = _core.grad_enabled


class set_grad_enabled:
    """Whether ops of this thread are recorded from now on, or in `with ct.set_grad_enabled(training):`."""

    def __init__(self, mode: bool):
        self._scope = _grad.GradMode(mode)
        self._before: Optional[bool] = _core.set_grad_enabled(mode)

    def _undo(self) -> None:
        if self._before is not None:
            _core.set_grad_enabled(self._before)
        self._before = None

    def __enter__(self) -> None:
        self._undo()
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__()

    def __call__(self, function: _F) -> _F:
        self._undo()
        return _decorate(self._scope, function)  # type: ignore[no-any-return]


# ---- Gradients of tensors --------------------------------------------------------------------------------------------

def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Optional[bool] = None,
         create_graph: bool = False, allow_unused: bool = False) -> tuple[Any, ...]:
    """The gradients of the outputs, weighted by grad_outputs, with respect to the inputs: a tuple, one for each input.

    Each of the three is a tensor or a sequence of them. With create_graph the gradients can be differentiated again; an
    input that the outputs do not depend on is an AutogradError, or None with allow_unused.
    """
    weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    return tuple(_core.grad(_several("grad", "outputs", outputs), _several("grad", "inputs", inputs), weights,
                            create_graph if retain_graph is None else retain_graph, create_graph, allow_unused))


# ---- Gradients of functions ------------------------------------------------------------------------------------------

def _derived(op: str, f: Callable[..., Any], inputs: Any, *more: Any) -> Any:
    """Calls C++'s function of this name with f, whose inputs are one list there."""
    def run(tensors: list[Tensor]) -> Tensor:
        made = f(*tensors)
        if not isinstance(made, Tensor):
            raise TypeError(f"[{op}] what the function gave is a {type(made).__name__}; a Tensor is wanted")
        return made
    return getattr(_grad, op)(run, _several(op, "inputs", inputs), *more)


def _as_given(inputs: Any, made: list[Any]) -> Any:
    return made[0] if isinstance(inputs, Tensor) else tuple(made)


def value_and_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives f(*inputs), one number, and its gradients: one for one input, a tuple for several.

    No tensor's .grad changes. Tensors that f refers to beside its arguments are constants.
    """
    @_functools.wraps(f)
    def run(*inputs: Tensor) -> Any:
        value, gradients = _derived("value_and_grad", f, inputs)
        return value, _as_given(inputs[0] if len(inputs) == 1 else inputs, gradients)
    return run


def vjp(f: Callable[..., Any], inputs: Any, v: Tensor) -> Any:
    """f(*inputs), and v^T J: the gradients with the cotangent v. The inputs are a tensor or a tuple."""
    value, gradients = _derived("vjp", f, inputs, v)
    return value, _as_given(inputs, gradients)


def jvp(f: Callable[..., Any], inputs: Any, v: Any) -> tuple[Tensor, Tensor]:
    """f(*inputs), and J v: how f changes as the inputs go in the directions v."""
    return _derived("jvp", f, inputs, _several("jvp", "v", v))  # type: ignore[no-any-return]


def jacobian(f: Callable[..., Any], inputs: Any) -> Any:
    """All derivatives: for each input a tensor of the shape f(*inputs).shape + input.shape."""
    return _as_given(inputs, _derived("jacobian", f, inputs))


def hessian(f: Callable[..., Any], inputs: Any) -> Any:
    """All second derivatives of an f that gives one number: for each pair of inputs a tensor."""
    return _as_given(inputs, [_as_given(inputs, row) for row in _derived("hessian", f, inputs)])


def recompute(function: Callable[..., Any], *inputs: Any, use_reentrant: Any = None, **more: Any) -> Any:
    """function(*inputs, **more), of which only the inputs are kept: backward calls the function again.

    The function gives a tensor, or a tuple of them, and computes the same each time; draws of the default generator are
    repeated. Without inputs: a decorator. use_reentrant is taken for PyTorch's sake.
    """
    if not inputs:
        return _functools.wraps(function)(_functools.partial(recompute, function))
    rest = [None if isinstance(one, Tensor) else one for one in inputs]  # the tensors are the tape's to keep
    places = [i for i, one in enumerate(inputs) if isinstance(one, Tensor)]
    several: list[bool] = []

    def call(tensors: list[Tensor]) -> list[Tensor]:
        given = dict(zip(places, tensors))
        made = function(*(given.get(i, one) for i, one in enumerate(rest)), **more)
        several[:] = [isinstance(made, (tuple, list))]
        return _several(getattr(function, "__name__", "recompute"), "what it gave", made)

    results = _grad.recompute(call, [inputs[i] for i in places])
    return tuple(results) if several[0] else results[0]


checkpoint = recompute


def explain(loss: Tensor, names: Any = (), grads: bool = False, times: bool = False) -> Explanation:
    """The tape behind a loss, before backward(): ops, what is kept, where gradients go, how much memory that takes.

    `names` is a module, or its named_parameters(). With `grads` the norm of each gradient is there too, with `times`
    the time of each node's backward. print() it, .save("tape.html"), or end a notebook's cell with it.
    """
    names = names.named_parameters() if hasattr(names, "named_parameters") else names
    return _grad.explain(loss, list(names.items() if isinstance(names, dict) else names), grads, times)


def profile(function: Callable[[], Any], memory: bool = False) -> Profile:
    """Calls the function, and notes every call of an op that it makes: print() what comes back.

    Forward and backward have a line each: calls, time, share of the whole, rates, and how near they come to the limit of
    the device. With `memory` the peak is told, with the ops that made what lived then. Calls of other threads are not seen.
    """
    return _grad.profile(function, memory)


def time_of(function: Callable[[], Any], warmup: int = 3, runs: int = 20, flush: bool = True) -> float:
    """The median time of a call in seconds: by events where it runs ops on a GPU, else by the clock.

    With `flush` each call finds the caches full of other data.
    """
    return _grad.time_of(function, warmup, runs, flush)


# ---- Draws -----------------------------------------------------------------------------------------------------------

get_rng_state, set_rng_state = default_generator.get_state, default_generator.set_state  # (seed, draws taken)
initial_seed = default_generator.initial_seed


def seed() -> int:
    """Seeds the default generator with a number of chance, and gives it."""
    return default_generator.manual_seed(_secrets.randbits(63)).initial_seed()
