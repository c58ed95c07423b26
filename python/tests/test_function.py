"""Functions written in Python, and what checks gradients."""
import gc
import threading
import weakref

import pytest

import cotangent as ct


class Cube(ct.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class ScaledPair(ct.Function):
    """Two results, an argument that is no tensor, an attribute of its own."""

    @staticmethod
    def forward(ctx, a, factor, b):
        ctx.factor = factor
        assert ctx.needs_input_grad == (a.requires_grad, False, b.requires_grad) and not ct.exp(a).requires_grad
        return a * factor, b * factor

    @staticmethod
    def backward(ctx, ga, gb):
        return ga * ctx.factor if ga is not None else None, None, gb * ctx.factor if gb is not None else None


def test_values_gradients_and_gradients_of_gradients():
    x = ct.tensor([2.0, -1.0], requires_grad=True)
    y = Cube.apply(x)
    assert y.tolist() == [8, -1] and y.grad_fn == "Cube"
    (first,) = ct.grad([y.sum()], [x], create_graph=True)
    (second,) = ct.grad([first.sum()], [x])
    assert first.tolist() == [12, 3] and second.tolist() == [12, -6]
    x64 = ct.tensor([2.0, -1.0, 0.5], dtype=ct.f64)
    assert ct.testing.gradcheck(Cube.apply, [x64]) and ct.testing.gradgradcheck(Cube.apply, [x64])


def test_several_results_and_arguments():
    a, b = ct.ones(2, requires_grad=True), ct.ones(3)
    u, v = ScaledPair.apply(a, 4, b)
    u.sum().backward()
    assert a.grad.tolist() == [4, 4] and b.grad is None and v.tolist() == [4] * 3
    with ct.no_grad():
        assert not Cube.apply(a).requires_grad


def test_backward_in_another_thread_and_what_it_kept_is_freed():
    x = ct.ones(3, requires_grad=True)
    seen = []

    class Kept(Cube):
        @staticmethod
        def forward(ctx, x):
            seen.append(weakref.ref(ctx))
            return Cube.forward(ctx, x)

    y = Kept.apply(x).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [3] * 3
    del y
    gc.collect()
    assert seen[0]() is None


def wrong(body):
    return type("Wrong", (Cube,), {"backward": staticmethod(body)})


def reading_late():
    kept = []

    class Late(Cube):
        @staticmethod
        def forward(ctx, x):
            kept.append(ctx)
            return x * 1

    Late.apply(ct.ones(2))
    return kept[0].saved_tensors


class Numbers(Cube):
    @staticmethod
    def forward(ctx, x):
        return 3


@pytest.mark.parametrize("call, error, words", [
    (lambda x: wrong(lambda ctx, g: (g, g)).apply(x).sum().backward(), ct.AutogradError, "gave 2 gradients"),
    (lambda x: wrong(lambda ctx, g: "g").apply(x).sum().backward(), TypeError, r"\[Wrong\] a gradient is a str"),
    (lambda x: wrong(lambda ctx, g: 1 / 0).apply(x).sum().backward(), ZeroDivisionError, "zero"),
    (lambda x: wrong(lambda ctx, g: g.sum()).apply(x).sum().backward(), ct.ShapeError, "Wrong"),
    (lambda x: Numbers.apply(x), TypeError, "Numbers"),
    (lambda x: ct.Function.apply(x), NotImplementedError, "forward"),
    (lambda x: reading_late(), ct.AutogradError, "neither forward nor backward"),
    (lambda x: ct.testing.gradcheck(wrong(lambda ctx, g: g).apply, [x.detach().to(ct.f64)]), AssertionError, "input 0"),
    (lambda x: ct.testing.gradcheck(ct.exp, [x]), ct.DTypeError, "f64"),
])
def test_mistakes_are_named_and_the_next_call_works(call, error, words):
    with pytest.raises(error, match=words):
        call(ct.full(3, 2.0, requires_grad=True))
    assert Cube.apply(ct.full(1, 2.0)).item() == 8


def test_conformance_of_an_op():
    assert ct.testing.check(ct.tanh) > 100
