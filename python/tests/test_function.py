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


def function_of(forward, backward=lambda ctx, g: g):
    return type("Made", (ct.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def test_marks_and_missing_cotangents():
    got = []

    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        y, index = x * 2, x > 0
        z = x * 3
        ctx.mark_non_differentiable(z, index)
        return y, z, x * 4, index

    def backward(ctx, *g):
        got.append([None if one is None else one.tolist() for one in g])
        return g[0] * 2 if g[0] is not None else g[2] * 4, None

    F = function_of(forward, backward)
    x = ct.tensor([1.0, -1.0], requires_grad=True)
    for materialize in (True, False):
        y, z, w, index = F.apply(x, materialize)
        assert y.requires_grad and w.requires_grad and not z.requires_grad and not index.requires_grad
        (y + z).sum().backward()
    assert x.grad.tolist() == [4, 4]
    assert got == [[[1, 1], [0, 0], [0, 0], [False, False]], [[1, 1], None, None, None]]
    F.apply(x, False)[2].sum().backward()
    assert x.grad.tolist() == [8, 8] and got[-1] == [None, None, [1, 1], None]
    (g,) = ct.grad([F.apply(x, False)[0].sum()], [x], create_graph=True)
    assert g.tolist() == [2, 2]


def in_place(ctx, x):
    x.fill_(3.0)
    return x * 2


def dirty(ctx, x):
    ctx.mark_dirty(x)
    return x


@pytest.mark.parametrize("call, error, words", [
    (lambda x: Cube.apply(x=x), TypeError, r"\[Cube\].*x by name"),
    (lambda x: function_of(dirty).apply(x), ct.AutogradError, "mark_dirty"),
    (lambda x: function_of(in_place).apply(x), ct.AutogradError, r"\[Made\] forward changed its argument 0 in place"),
    (lambda x: function_of(in_place).apply(x * 1), ct.AutogradError, "in place"),
    (lambda x: function_of(lambda ctx, x: x * 1, lambda ctx, g: ()).apply(x).sum().backward(), ct.AutogradError,
     "gave 0 gradients"),
    (lambda x: function_of(lambda ctx, x, y: x * y).apply(x, x).sum().backward(), ct.AutogradError, "gave 1 gradients"),
    (lambda x: function_of(lambda ctx, x: x * 1, lambda ctx, g: (g, g)).apply(x).sum().backward(), ct.AutogradError,
     "gave 2 gradients"),
    (lambda x: function_of(lambda ctx, x: (x * 1, None)).apply(x), TypeError, "NoneType"),
    (lambda x: function_of(lambda ctx, x: x * 1, lambda ctx, g: g.to(ct.f64)).apply(x).sum().backward(), ct.DTypeError,
     "dtype"),
    (lambda x: function_of(lambda ctx, x: ctx.save_for_backward(3)).apply(x), TypeError, "save_for_backward"),
])
def test_what_is_refused_by_a_sentence(call, error, words):
    x = ct.full(3, 2.0, requires_grad=True)
    with pytest.raises(error, match=words):
        call(x)
    assert x.grad is None


def test_what_pytorch_allows():
    x, n = ct.ones(3, requires_grad=True), ct.ones(3)
    function_of(lambda ctx, x, n: x * n, lambda ctx, g: (g, None, None, None)).apply(x, n).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]  # trailing Nones
    function_of(lambda ctx, x: x * 1, lambda ctx, g: None).apply(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    buffer = ct.ones(3)
    function_of(lambda ctx, x, b: x * b.fill_(2.0), lambda ctx, g: (g * 2, None)).apply(x, buffer).sum().backward()
    assert x.grad.tolist() == [3, 3, 3] and buffer.tolist() == [2, 2, 2]

    class New(ct.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output)
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            assert y.tolist() == (x * ctx.factor).tolist()
            return g * ctx.factor, None

    x.grad = None
    New.apply(x, 5).sum().backward()
    assert x.grad.tolist() == [5, 5, 5]


@pytest.mark.parametrize("give", [lambda x: x, lambda x: x.reshape(3, 1), lambda x: x[:, None][:, 0], lambda x: x[1:]])
def test_forward_gives_an_argument_or_a_view_of_it(give):
    F = function_of(lambda ctx, x: give(x), lambda ctx, g: ct.ones(3) * g.sum())
    x = ct.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = F.apply(x)
    assert y.grad_fn == "Made" and x.is_leaf and x.grad_fn == "" and y.tolist() == give(x.detach()).tolist()
    (y * 2).sum().backward()
    assert x.grad.tolist() == [2.0 * y.numel()] * 3
    with ct.no_grad():
        assert not F.apply(x).requires_grad
    assert x.requires_grad
    # In place on what is the memory of a leaf: as anywhere else, or refused.
    z = x * 1
    y = F.apply(z)
    try:
        y.copy_(y * 2)
        z.sum().backward()
    except ct.Error:
        return
    raise AssertionError("the change of a view that a Function made went unseen")


def test_errors_come_through_with_their_traceback():
    import traceback

    class Own(Exception):
        pass

    def forward(ctx, x, fail):
        if fail:
            raise Own("forward", 1)
        return x * 1

    def backward(ctx, g):
        raise Own("backward", 2)

    F, x = function_of(forward, backward), ct.ones(2, requires_grad=True)
    for call, arguments in ((lambda: F.apply(x, True), ("forward", 1)),
                            (lambda: F.apply(x, False).sum().backward(), ("backward", 2)),
                            (lambda: ct.grad([F.apply(x, False).sum()], [x]), ("backward", 2))):
        with pytest.raises(Own) as caught:
            call()
        assert caught.value.args == arguments
        assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][-1] == arguments[0]
    assert x.grad is None


def test_what_was_saved_and_changed_is_refused():
    def forward(ctx, x, keep):
        y = x * 2
        ctx.save_for_backward(x if keep == "x" else y)
        return y

    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None

    F = function_of(forward, backward)
    x = ct.ones(2, requires_grad=True)
    for keep in "xy":
        h = x * 1
        y = F.apply(h, keep)
        with ct.no_grad():
            (h if keep == "x" else y).fill_(5.0)
        with pytest.raises(ct.AutogradError, match="changed in place"):
            y.sum().backward()
    y = F.apply(x, "x").sum()
    y.backward()
    with pytest.raises(ct.AutogradError, match="retain_graph"):
        y.backward()


def test_once_differentiable():
    from cotangent.function import once_differentiable

    class Once(Cube):
        backward = staticmethod(once_differentiable(Cube.backward))

    x = ct.tensor([2.0, 3.0], requires_grad=True)
    Once.apply(x).sum().backward()
    assert x.grad.tolist() == [12, 27]
    (g,) = ct.grad([Once.apply(x).sum()], [x], create_graph=True)
    assert g.tolist() == [12, 27]
    with pytest.raises(ct.AutogradError, match="once_differentiable"):
        (g.square().sum() + x.sum()).backward()
    assert ct.grad_enabled()


def test_one_node_in_several_threads():
    class Slow(Cube):
        @staticmethod
        def backward(ctx, g):
            total = sum(range(2000))
            (x,) = ctx.saved_tensors
            return g * 3 * x * x + 0 * total

    x = ct.full(2, 2.0, requires_grad=True)
    y, errors = Slow.apply(x).sum(), []

    def back():
        try:
            for _ in range(50):
                y.backward(retain_graph=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=back) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and x.grad.tolist() == [12 * 200] * 2
