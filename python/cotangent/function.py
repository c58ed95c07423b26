"""Functions of a program's own, in Python, with a backward of their own."""
from ._core import _apply


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

    forward runs without recording. backward gets a cotangent for each result (None where there is none) and gives a
    gradient for each argument of forward (None where there is none). It is recorded where gradients of gradients are
    asked for, so it is then to be made of differentiable ops.
    """

    @staticmethod
    def forward(ctx, *arguments):
        raise NotImplementedError("[Function] it has no forward(); define @staticmethod forward(ctx, x)")

    @staticmethod
    def backward(ctx, *cotangents):
        raise NotImplementedError("[Function] it has no backward(); define @staticmethod backward(ctx, g)")

    @classmethod
    def apply(cls, *arguments):
        """forward(ctx, *arguments), on the tape."""
        return _apply(cls, *arguments)
