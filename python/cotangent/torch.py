"""Ops of this library, and of one's own, inside of PyTorch's models.

    from cotangent.torch import function
    gelu = function(ct.gelu)
    y = gelu(x)            # a torch tensor on the tape of PyTorch; its memory is shared, its stream is used

What is wrapped is any function of cotangent's tensors. Its gradient is that of cotangent's tape.
"""
from contextlib import nullcontext
from threading import Lock
from typing import Any, Callable

import torch

from . import _core
from ._core import AutogradError, DeviceError, Tensor, from_dlpack
from .data import _tree

_autograd = torch._C._autograd
# Whether PyTorch keeps its tape after this backward(); where it does not say, ours is kept.
_keeps_tape = getattr(_autograd, "_get_current_graph_task_keep_graph", lambda: True)


def _stream_of(tensor):
    if tensor.device.type != "cuda":
        return nullcontext()
    index = tensor.device.index
    return _core.stream(f"cuda:{index}", torch.cuda.current_stream(index).cuda_stream)


def _mapped(value, kind, f):
    """value with f(one) in place of each `kind` in it, in tuples, lists and dicts."""
    return _tree(lambda one: f(one[0]) if isinstance(one[0], kind) else one[0], [value])


def _ours(tensor, wanted):
    if tensor.device.type not in ("cpu", "cuda"):
        raise DeviceError(f"[cotangent.torch] a tensor is on {tensor.device}; one on the CPU or on CUDA is wanted")
    made = from_dlpack(tensor.detach())
    return made.requires_grad_() if wanted else made


def _theirs(tensor):
    return torch.from_dlpack(tensor.detach())


class _Call:
    """A call of f on our tape, and what PyTorch's needs of it."""

    def __init__(self, f, name, args, named):
        self.name, self.recording, self.anchor = name, torch.is_grad_enabled(), None
        self.given = []
        _mapped((args, named), torch.Tensor, self.given.append)
        if not self.given:
            raise TypeError(f"[cotangent.torch] {name} got no torch.Tensor; one at least is wanted")
        with _stream_of(self.given[0]):
            self.run(f, args, named)
            self.results = []
            _mapped(self.made, Tensor, self.results.append)
            self.recorded = [self.recording and r.requires_grad for r in self.results]
            if self.recording and _core._leaves(self.results, self.ours):  # parameters of f's own: .grad is theirs
                self.anchor, self.lock = torch.empty(0, requires_grad=True).clone(), Lock()

    def run(self, f, args, named):
        self.ours = [_ours(t, self.recording and t.requires_grad) for t in self.given]
        rest = iter(self.ours)
        args, named = _mapped((args, named), torch.Tensor, lambda _: next(rest))
        before, recording = [_core._version(t) for t in self.ours], _core.set_grad_enabled(self.recording)
        try:
            self.made = f(*args, **named)
        finally:
            _core.set_grad_enabled(recording)
            changed = [t for t, ours, was in zip(self.given, self.ours, before) if _core._version(ours) != was]
            for t in changed:  # PyTorch sees it, too
                if not t.is_inference():
                    torch.autograd.graph.increment_version(t)
        for t in changed:
            shared = sum(t.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() for other in self.given)
            if self.recording and (t.requires_grad or shared > 1):
                raise AutogradError(f"[cotangent.torch] {self.name} changed an argument in place that a gradient "
                                    "depends on; let it work on a clone()")

    def hand_out(self):
        """The results as PyTorch's tensors: views of arguments as such, and else no two over one memory."""
        places = {_core._memory(ours): (t, ours) for t, ours in zip(self.given, self.ours)}
        seen, handed = set(), []
        for r in self.results:
            memory = _core._memory(r)
            if r.numel() and memory in places:
                t, ours = places[memory]
                offset = (r.data_ptr() - ours.data_ptr()) // t.element_size() + t.storage_offset()
                handed.append(t.as_strided(r.shape, r.strides, offset))
            else:
                own = memory not in seen and not (r.is_leaf and r.requires_grad)
                with _stream_of(self.given[0]):
                    handed.append(_theirs(r if own else r.detach().clone()))
                seen.add(memory)
        if any(self.recorded):  # what shares its memory with them counts its changes with them
            shown = [t.detach() for t in (*self.given, *handed)]
            self.guards = [(t, t._version, ours) for t, ours in zip(shown, (*self.ours, *self.results))]
        self.given = None
        return handed

    def backward(self, gradients):
        pairs = [(r, from_dlpack(g)) for r, g in zip(self.results, gradients) if r.requires_grad and g is not None]
        if not pairs:
            return [None] * len(self.ours)
        changed = [ours for t, was, ours in self.guards if t._version != was]
        for ours in changed:
            _core._touch(ours)  # our tape knows whether it needs what was there
        wanted = [ours for ours in self.ours if ours.requires_grad]
        whole = self.anchor is not None and torch._C._will_engine_execute_node(self.anchor.grad_fn)
        try:
            found = iter((self.walk if whole else self.ask)(*map(list, zip(*pairs)), wanted))
        except AutogradError as error:
            if not changed:
                raise
            raise AutogradError("one of the variables needed for gradient computation has been modified by an "
                                f"inplace operation: {error}") from None
        found = [next(found) if ours.requires_grad else None for ours in self.ours]
        # PyTorch adds to gradients in place, so no two share memory.
        return [g if g is None else _theirs(_core._own(g)) for g in found]

    def ask(self, roots, gradients, wanted):
        return _core.grad(roots, wanted, gradients, retain_graph=_keeps_tape(), allow_unused=True) if wanted else []

    def walk(self, roots, gradients, wanted):
        with self.lock:  # of .grad, from here to the end
            for leaf in wanted:
                leaf.grad = None
            _core._backward(roots, gradients, _keeps_tape())
            found = [leaf.grad for leaf in wanted]
            for leaf in wanted:
                leaf.grad = None
            return found


class _Recorded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, anchor, *given):
        handed = call.hand_out()
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(t for t, recorded in zip(handed, call.recorded) if not recorded))
        return tuple(handed)

    @staticmethod
    def backward(ctx, *gradients):
        with torch.no_grad(), _stream_of(next((g for g in gradients if g is not None), torch.empty(0))):
            found = ctx.call.backward(gradients)
        if torch.is_grad_enabled():  # PyTorch's own once_differentiable misses it where no cotangent has a history
            found = [g if g is None else g.requires_grad_() for g in found]
            late = torch._C._functions.DelayedError(
                b"trying to differentiate twice a function of cotangent.torch: it is once_differentiable", len(found))
            found = [late(*found)] if len(found) == 1 else late(*found)
        return None, None, *found


def function(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, a function of cotangent's tensors, as one of PyTorch's: recorded by torch.autograd, on PyTorch's stream.

    Tensors among the arguments, in lists and tuples too, become cotangent's without a copy; all else is handed on.
    Results are PyTorch's tensors. Gradients flow to every floating tensor that asks for one; those of cotangent's own
    parameters, where f is a module, arrive in their .grad. Gradients of gradients are an error.
    """
    name = getattr(f, "__name__", type(f).__name__)

    def wrapped(*args, **named):
        call = _Call(f, name, args, named)
        if any(call.recorded):
            handed = _Recorded.apply(call, call.anchor, *call.given)
        else:
            with torch.no_grad():
                handed = call.hand_out()
        made, call.made = call.made, None
        rest = iter(handed)
        return _mapped(made, Tensor, lambda _: next(rest))

    wrapped.__name__, wrapped.__doc__ = name, f.__doc__
    return wrapped
