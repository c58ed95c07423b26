"""Captured steps: recorded once, then replayed as one program."""
import os
from typing import Any, Callable, Optional, Union

from ._core import Tensor
from ._core._grad import CapturePool as CapturePool, StepProgram, at_replay as _at_replay

__all__ = ["CapturePool", "Captured", "at_replay", "capture"]


def _walk(value: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_walk(one, leaf) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_walk(one, leaf) for one in value)
    if isinstance(value, dict):
        return {key: _walk(one, leaf) for key, one in value.items()}
    return leaf(value)


class _Place(int):  # of a tensor in a list
    def __repr__(self) -> str:
        return f"tensor {int(self)}"


class HookChanges:
    """How many hooks of modules came or went: a recording has those of its step."""
    count = 0


class Captured:
    """A captured function; see capture()."""

    def __init__(self, function: Callable[..., Any], warmup: int, recordings: int, enabled: bool, fuse: bool,
                 pool: CapturePool) -> None:
        self._function, self._program = function, StepProgram(warmup, recordings, enabled, fuse, pool)
        self._hooks = HookChanges.count
        self._results: dict[int, Any] = {}  # by the number of a recording: what it returns, with places for tensors

    def __call__(self, *args: Any, **more: Any) -> Any:
        if self._hooks != HookChanges.count:
            self._hooks = HookChanges.count
            self.reset()
        inputs: list[Tensor] = []

        def argument(one: Any) -> Any:
            if isinstance(one, Tensor):
                inputs.append(one)
                return _Place(len(inputs) - 1)
            if one is None or isinstance(one, (bool, int, float, str)):
                return one
            raise TypeError(f"[capture] an argument is a {type(one).__name__}; tensors, numbers, texts and None are wanted, "
                            "in lists, tuples and dicts as well")

        call = _walk((args, more), argument)
        form: Any = None

        def body(given: list[Tensor]) -> list[Tensor]:
            nonlocal form
            args, more = _walk(call, lambda one: given[one] if isinstance(one, _Place) else one)
            results: list[Tensor] = []

            def result(one: Any) -> Any:
                if isinstance(one, Tensor):
                    results.append(one)
                    return _Place(len(results) - 1)
                if one is None:
                    return one
                raise TypeError(f"[capture] the function returns a {type(one).__name__}; tensors and None are wanted, in "
                                "lists, tuples and dicts as well: a replay does not run Python")

            form = _walk(self._function(*args, **more), result)
            return results

        tensors = self._program.run(inputs, repr(call), body)
        number = self._program.number()
        if form is None and number in self._results:
            form = self._results[number]
        elif number:
            self._results[number] = form
        return _walk(form, lambda one: tensors[one] if isinstance(one, _Place) else one)

    def captured(self) -> bool:
        """Whether calls replay a recording: not yet in the first calls."""
        return self._program.captured()

    def replays(self) -> int:
        """Replays so far."""
        return self._program.replays()

    def recordings(self) -> int:
        """Recordings so far; a count that goes on growing means that something changes from step to step."""
        return self._program.recordings()

    def kernels(self) -> list[str]:
        """The calls of the recording that was used last: "linear", "relu", "relu'" (its backward), "fused(add, gelu)", ..."""
        return self._program.kernels()

    def memory(self) -> int:
        """Bytes that the recordings hold, what they share with other functions counted, too."""
        return self._program.memory()

    def dot(self) -> str:
        """The recording that was used last, in Graphviz's language."""
        return self._program.dot()

    def write_dot(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes dot() to a file, which appears as a whole or not at all."""
        self._program.write_dot(path)

    def explain_fusion(self) -> str:
        """Which calls of the recording that was used last run as one pass over memory, and why the others do not."""
        return self._program.explain_fusion()

    def reset(self) -> None:
        """Forgets all recordings."""
        self._program.reset()
        self._results.clear()


def capture(function: Callable[..., Any], warmup: int = 1, recordings: int = 8, enabled: bool = True,
            fuse: bool = True, pool: Optional[CapturePool] = None) -> Captured:
    """Makes a program of a function that does a whole step: forward, loss, backward, clipping, optimizer, schedule.

        @ct.capture
        def step(x, y):
            adam.zero_grad()
            loss = ct.cross_entropy(net(x), y)
            loss.backward()
            adam.step()
            return loss

    The first calls are plain steps (`warmup`), the next two are recorded and compared, those after them replay, without
    Python: on a GPU one CUDA graph, on the CPU the list of kernels, to the same bits. Results are detached, and valid until
    the next call: clone() what is to stay. What a replay can't do is refused with CaptureError: item() within the step,
    state that goes on by assignment, an argument changed in place. at_replay() adds host code of one's own. Calls element by
    element that only hand values to one another run as one pass over memory, unless `fuse` is False. Functions with one `pool` share
    the memory of what lives within a step.
    """
    return Captured(function, warmup, recordings, enabled, fuse, pool if pool is not None else CapturePool())


def at_replay(effect: Callable[[], Any]) -> None:
    """Does `effect`, and does it again with each replay of the step that is being recorded, if one is."""
    _at_replay(effect)
