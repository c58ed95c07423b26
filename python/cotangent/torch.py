"""Ops of this library, and of one's own, inside of PyTorch's models.

    from cotangent.torch import function
    gelu = function(ct.gelu)
    y = gelu(x)            # a torch tensor on the tape of PyTorch; its memory is shared, its stream is used

What is wrapped is any function of cotangent's tensors. Its gradient is that of cotangent's tape.
"""
from contextlib import nullcontext

import torch

from . import _core
from ._core import Tensor, from_dlpack


def _stream_of(tensor):
    if tensor.device.type != "cuda":
        return nullcontext()
    index = tensor.device.index
    return _core.stream(f"cuda:{index}", torch.cuda.current_stream(index).cuda_stream)


class _Recorded:
    def __init__(self, on):
        self.on = on

    def __enter__(self):
        self.before = _core.set_grad_enabled(self.on)

    def __exit__(self, *_):
        _core.set_grad_enabled(self.before)


def _theirs(tensor):
    return torch.from_dlpack(tensor.detach())


def function(f):
    """f, a function of cotangent's tensors, as one of PyTorch's: recorded by torch.autograd, on PyTorch's stream.

    Tensors among the positional arguments become cotangent's without a copy; all else is handed on. Results are
    PyTorch's tensors. Gradients flow to every floating tensor that asks for one. Gradients of gradients are an error.
    """

    class Wrapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, named, *args):
            first = next((a for a in args if isinstance(a, torch.Tensor)), None)
            if first is None:
                raise TypeError(f"[cotangent.torch] {f.__name__} got no torch.Tensor; one at least is wanted")
            wanted = [isinstance(a, torch.Tensor) and needs for a, needs in zip(args, ctx.needs_input_grad[1:])]
            with _stream_of(first), _Recorded(any(wanted)):
                ours = [from_dlpack(a.detach()) if isinstance(a, torch.Tensor) else a for a in args]
                for a, needs in zip(ours, wanted):
                    if needs:
                        a.requires_grad = True
                results = f(*ours, **named)
                several = isinstance(results, (tuple, list))
                results = list(results) if several else [results]
                given = [_theirs(r) for r in results]
            ctx.ours, ctx.wanted, ctx.results = ours, wanted, results
            ctx.mark_non_differentiable(*(g for g, r in zip(given, results) if not r.requires_grad))
            return tuple(given) if several else given[0]

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *gradients):
            pairs = [(r, g) for r, g in zip(ctx.results, gradients) if r.requires_grad and g is not None]
            inputs = [a for a, needs in zip(ctx.ours, ctx.wanted) if needs]
            with _stream_of(gradients[0]):
                found = iter(_core.grad([r for r, _ in pairs], inputs, [from_dlpack(g) for _, g in pairs],
                                        retain_graph=True, allow_unused=True))
                found = [next(found) if needs else None for needs in ctx.wanted]
                return None, *(None if one is None else _theirs(one) for one in found)

    def wrapped(*args, **named):
        return Wrapped.apply(named, *args)

    wrapped.__name__ = getattr(f, "__name__", "wrapped")
    wrapped.__doc__ = f.__doc__
    return wrapped
