"""Functions of a program's own, in Python, with a backward of their own."""
import functools
from typing import Any, Callable

from ._core import AutogradError, Tensor, _apply, set_grad_enabled


class Function:
    """Derive, and give it forward and backward. ctx carries tensors, and attributes of one's own, between the two.

        class Cube(ct.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 3 * x * x

        y = Cube.apply(x)

    forward runs without recording. backward gets a cotangent for each result, zeros where there is none, and gives a
    gradient for each argument of forward (None where there is none). It is recorded where gradients of gradients are
    asked for, so it is then to be made of differentiable ops, or marked by once_differentiable. As in PyTorch, forward
    may leave ctx to setup_context(ctx, inputs, output).
    """
    setup_context: Any = None

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("[Function] it has no forward(); define @staticmethod forward(ctx, x)")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("[Function] it has no backward(); define @staticmethod backward(ctx, g)")

    @classmethod
    def apply(cls, *arguments: Any, **named: Any) -> Any:
        """forward(ctx, *arguments), on the tape."""
        if named:
            raise TypeError(f"[{cls.__name__}] apply() got {', '.join(named)} by name; hand arguments on by position")
        return _apply(cls, *arguments)


class _Once(Function):
    @staticmethod
    def forward(ctx, gradient, *sources):
        return gradient

    @staticmethod
    def backward(ctx, g):
        raise AutogradError("[once_differentiable] this gradient was made by a backward() that is marked so; its own "
                            "gradient is not there")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a Function's backward as one that is not recorded: gradients of its gradients are an error."""
    @functools.wraps(backward)
    def once(ctx, *cotangents):
        recording = set_grad_enabled(False)
        try:
            made = backward(ctx, *cotangents)
        finally:
            set_grad_enabled(recording)
        if not recording:
            return made
        sources = [t for t in (*cotangents, *ctx.saved_tensors) if t is not None and t.requires_grad]
        made = made if isinstance(made, (tuple, list)) else (made,)
        return tuple(_Once.apply(t, *sources) if isinstance(t, Tensor) and sources else t for t in made)

    return once
