"""Tensors as Python has numbers and containers: operators, in-place changes, identity, conversion, copies."""
import copy
import math
import multiprocessing
import operator
import pickle

import numpy as np
import pytest

import cotangent as ct

NUMBERS = [2, True, 2.5, np.int64(2), np.int8(3), np.uint8(3), np.bool_(True), np.float32(1.5), np.float64(2.5),
           np.float16(0.5)]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def python_of(number):
    return number.item() if isinstance(number, np.generic) else number


def same(got, expected):
    assert isinstance(got, ct.Tensor)
    assert got.numpy().dtype == expected.numpy().dtype and got.shape == tuple(expected.shape)
    assert np.allclose(got.numpy(), expected.numpy(), equal_nan=True)


@pytest.mark.parametrize("f", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__}{n}")
def test_operators_with_numbers_are_pytorchs(f, number):
    torch = pytest.importorskip("torch")
    for data in ([1.0, -2.0, 3.0], [1, -2, 3]):
        x, y = ct.tensor(data), torch.tensor(data)
        if f is operator.sub and python_of(number) is True:
            continue  # PyTorch subtracts no bools
        same(f(x, number), f(y, python_of(number)))
        same(f(number, x), f(python_of(number), y))


@pytest.mark.parametrize("f", BITS)
def test_operators_of_bits_are_pytorchs(f):
    torch = pytest.importorskip("torch")
    x, y, z = ct.tensor([5, 3, -8]), torch.tensor([5, 3, -8]), np.array([1, 2, 3])
    for number in (2, np.int64(1), np.uint8(3)):
        same(f(x, number), f(y, int(number)))
        same(f(number, ct.tensor(z)), f(int(number), torch.tensor(z)))
    same(f(x, z), f(y, torch.tensor(z)))
    same(~x, ~y)
    masks = [True, False], [True, True]
    if f in BITS[:3]:
        same(f(*map(ct.tensor, masks)), f(*map(torch.tensor, masks)))
        same(~ct.tensor(masks[0]), ~torch.tensor(masks[0]))
    with pytest.raises(TypeError):
        f(ct.ones(2), 1)


@pytest.mark.parametrize("f", ARITHMETIC + COMPARISONS)
def test_operators_with_arrays_stay_tensors(f):
    torch = pytest.importorskip("torch")
    a, b = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    for other in (b, b.astype(np.float32), b.astype(np.int32), b[::-1], np.array(2.0), torch.tensor(b)):
        expected = torch.tensor(np.array(other))
        x, y = ct.tensor(a.astype(np.float32)), torch.tensor(a.astype(np.float32))
        same(f(x, other), f(y, expected))
        same(f(other, x), f(expected, y))


def test_numpys_functions_stay_on_the_tape():
    x = ct.tensor([1.0, 2.0], requires_grad=True)
    for f, gradient in ((lambda: np.sqrt(4.0) * x, [2, 2]), (lambda: np.sin(x), np.cos([1, 2])),
                        (lambda: np.ones(2) + x, [1, 1]),
                        (lambda: np.float64(3) / x, [-3, -0.75]), (lambda: np.exp(x), np.exp([1, 2])),
                        (lambda: np.int64(2) ** x, [1.386294, 2.772589]),
                        (lambda: np.arctan2(x, np.ones(2, np.float32)), [0.5, 0.2]),
                        (lambda: np.maximum(x, 1.5), [0, 1]),
                        (lambda: np.eye(2, dtype=np.float32) @ x, [1, 1])):
        y = f()
        assert isinstance(y, ct.Tensor) and y.requires_grad
        (g,) = ct.grad([y.sum()], [x])
        assert np.allclose(g.numpy(), gradient)
    assert (np.float32(2) * x).dtype == ct.f32 and (np.ones(2) * x).dtype == ct.f64
    assert (np.array([1.0, 3.0]) == x).tolist() == [True, False]


@pytest.mark.parametrize("call, word", [
    (lambda x: np.add.outer(x, x), "method outer"), (lambda x: np.add(x, 1, out=np.ones(2)), "argument out"),
    (lambda x: operator.iadd(np.ones(2), x), "argument out"), (lambda x: np.logaddexp(x, x), "no such function"),
    (lambda x: np.sin(x, where=np.array([True, False])), "argument where"),
    (lambda x: x + "a", "unsupported operand"), (lambda x: [1] + x, "list"),
    (lambda x: x + None, "unsupported operand"),
    (lambda x: x + 1j, "unsupported operand"), (lambda x: 1j * x, "unsupported operand"),
    (lambda x: x < "a", "not supported"),
    (lambda x: x + [1, 2], "unsupported operand"), (lambda x: x @ 2, "number"),
    (lambda x: x + np.array([1j, 2j]), "complex128"),
    (lambda x: x + np.array(["a", "b"]), "numbers"), (lambda x: "a" in x, "str"), (lambda x: None in x, "NoneType"),
    (lambda x: x & 1, "f32"), (lambda x: x << 1, "f32"), (lambda x: len(x[0]), "rank 0"),
    (lambda x: list(x[0]), "rank 0"),
    (lambda x: [1, 2][x], "integer"), (lambda x: [1, 2][x[0]], "integer"),
    (lambda x: range(ct.tensor(True)), "integer"), (lambda x: f"{x:.2f}", "one element"),
])
def test_what_is_no_operand_is_a_type_error(call, word):
    x = ct.ones(2)
    with pytest.raises(TypeError, match=word):
        call(x)
    assert (x + 1).tolist() == [2, 2]


def test_equality_with_what_is_no_tensor_is_pythons():
    x = ct.ones(2)
    assert (x == None) is False and (None == x) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False and (x != "a") is True and x not in ["a", None] and x in [None, x]
    with pytest.raises(ct.ValueError, match="64 bits"):
        x + 2 ** 64
    assert (ct.tensor([16777217]) * np.int64(1)).tolist() == [16777217]


def test_what_python_asks_of_numbers_and_containers():
    x, i = ct.tensor([1.25, 2.5, -3.0]), ct.tensor([1, 2, 3])
    assert [one.item() for one in x] == [1.25, 2.5, -3] and [r.shape for r in ct.ones(5, 2)] == [(2,)] * 5
    for row in x:
        row += 1
    assert x.tolist() == [2.25, 3.5, -2] and len(ct.zeros(0, 3)) == 0 and list(ct.zeros(0, 3)) == []
    assert 2 in i and 2.5 not in i and ct.tensor(3) in i and np.int64(3) in i
    assert int(ct.tensor(2.7)) == 2 and int(ct.tensor(-2.7)) == -2 and int(ct.tensor([True])) == 1
    assert int(ct.tensor(1e300, dtype=ct.f64)) == int(1e300) and float(i[1]) == 2.0 and bool(ct.tensor([0.5]))
    for bad, error in ((math.nan, ValueError), (math.inf, OverflowError)):
        with pytest.raises(error, match="integer"):
            int(ct.tensor(bad))
    for f in (bool, float, int, lambda t: t.item()):
        for t in (x, ct.zeros(0)):
            with pytest.raises(ct.ShapeError, match=r"f32\["):
                f(t)
    assert [10, 20, 30][i[1]] == 30 and list(range(i[2])) == [0, 1, 2] and operator.index(ct.tensor([[7]])) == 7
    assert f"{x[0]:.3f}" == "2.250" and f"{i[0]:03d}" == "001" and f"{x}" == repr(x) == str(x)
    assert [t.tolist() for t in divmod(i, 2)] == [[0, 1, 1], [1, 0, 1]]
    assert [t.tolist() for t in divmod(7, i)] == [[7, 3, 2], [0, 1, 1]]
    assert np.allclose(round(ct.tensor(2.567), 1).item(), 2.6) and round(ct.tensor([2.5, 3.5])).tolist() == [2, 4]
    assert round(ct.tensor(1234.0), -2).item() == round(ct.tensor(1234), -2).item() == 1200
    assert math.floor(ct.tensor(2.5)) == 2
    assert +x is x and (-i).tolist() == [-1, -2, -3] and abs(x).tolist() == [2.25, 3.5, 2]
    y = ct.zeros(2, 3, 4)
    assert y.T.shape == (4, 3, 2) and y.mT.shape == (2, 4, 3) and y.size() == y.shape == (2, 3, 4) and y.size(-1) == 4
    assert y.stride() == (12, 4, 1) and y.stride(1) == 4 and y.dim() == y.ndim == 3 and y.nelement() == y.numel() == 24
    assert y.nbytes == 96 and y.element_size() == y.itemsize == 4 and y.is_floating_point() and not y.is_cuda
    assert x.grad_fn is None and (ct.ones(1, requires_grad=True) * 2).grad_fn is not None and y.device == "cpu"


IN_PLACE = [("iadd", 3), ("isub", 3), ("imul", 3), ("itruediv", 2), ("ifloordiv", 2), ("imod", 2), ("ipow", 2)]
IN_PLACE_BITS = [("iand", 6), ("ior", 1), ("ixor", 3), ("ilshift", 1), ("irshift", 1)]


@pytest.mark.parametrize("name, number", IN_PLACE + IN_PLACE_BITS)
def test_augmented_assignment_writes_into_the_tensor(name, number):
    f = getattr(operator, name)
    bits = (name, number) in IN_PLACE_BITS
    for kind in (int, np.int64, lambda n: np.array([n, n]), ct.tensor) + (() if bits else (float, np.float32)):
        array = np.arange(1, 9, dtype=np.int64 if bits else np.float32).reshape(4, 2)
        x = ct.tensor(array)
        whole, view, transposed = x, x[1:3], x.T
        value, plain = kind(number), np.array(number, array.dtype)
        assert f(view, value) is view
        f(array[1:3], plain)
        assert f(transposed, number) is transposed
        f(array.T, plain)
        x = f(x, value)
        f(array, plain)
        assert x is whole and x.dtype == (ct.i64 if bits else ct.f32)
        assert np.allclose(x.numpy(), array) and np.allclose(view.numpy(), array[1:3])
        x[0] = f(x[0], number)
        f(array[0:1], plain)
        assert np.allclose(x.numpy(), array)


@pytest.mark.parametrize("name, number", [one for one in IN_PLACE if one[0] != "ifloordiv"])  # which PyTorch can't
def test_augmented_assignment_is_recorded_as_in_pytorch(name, number):
    torch = pytest.importorskip("torch")
    f = getattr(operator, name)
    results = []
    for library in (ct, torch):
        leaf = library.tensor([1.5, 2.25, 3.75], requires_grad=True)
        weight = library.tensor([2.0, 3.0, 0.5], requires_grad=True)
        y = leaf * 2
        before = y
        y = f(y, number)
        y = f(y, weight)
        assert y is before
        (y * y).sum().backward()
        grads = [one.grad if one.grad is not None else library.zeros(3) for one in (leaf, weight)]
        results.append([y.detach().numpy()] + [one.numpy() for one in grads])
        with pytest.raises((ct.AutogradError, RuntimeError), match="no_grad|in-place"):
            f(leaf, number)
        with library.no_grad():
            same_leaf = leaf
            leaf = f(leaf, number)
            assert leaf is same_leaf and leaf.requires_grad and leaf.is_leaf
        results[-1].append(leaf.detach().numpy())
    for ours, theirs in zip(*results):
        assert np.allclose(ours, theirs, rtol=1e-5)


def test_what_does_not_fit_in_place_is_refused():
    for name, _ in IN_PLACE:
        i = ct.tensor([1, 2])
        with pytest.raises(ct.DTypeError):
            getattr(operator, name)(i, 1.5)
        with pytest.raises(ct.ShapeError):
            getattr(operator, name)(ct.ones(2), ct.ones(3, 2))
        assert i.tolist() == [1, 2]
    with pytest.raises(ct.DTypeError):
        operator.itruediv(ct.tensor([4, 2]), 2)
    with pytest.raises(ct.ShapeError, match="in place"):
        operator.imatmul(ct.ones(2, 2), ct.ones(2))
    x = ct.ones(3, requires_grad=True)
    y = x * 1
    with pytest.raises(ct.AutogradError, match=r"x\[i\] = x\[i\] \+ y"):
        y[0] += 1
    y[0] = y[0] + 1
    y.sum().backward()
    assert y.tolist() == [2, 1, 1] and x.grad.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="unsupported operand"):
        x += "a"


def test_gradient_descent_by_hand():
    w = ct.zeros(2, requires_grad=True)
    for _ in range(50):
        ((w - ct.tensor([1.0, -2.0])) ** 2).sum().backward()
        with ct.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    assert np.allclose(w.tolist(), [1, -2], atol=1e-3)
    w.data -= 1
    w.data = w.data * 2
    assert np.allclose(w.tolist(), [0, -6], atol=1e-2) and w.requires_grad and w.is_leaf
    with pytest.raises(ct.ShapeError):
        w.data = ct.zeros(3)


def test_a_leaf_is_one_object():
    layer = ct.nn.Linear(2, 3)
    first, again = list(layer.parameters()), list(layer.parameters())
    assert all(a is b for a, b in zip(first, again))
    assert first[0] in set(again) and {first[0]: 1}[again[0]] == 1 and first[0] not in {first[1]}
    w = ct.zeros(2)
    assert w.requires_grad_() is w and w.requires_grad
    kept = []
    w.register_hook(lambda g: None)
    for _ in range(1000):  # objects that are gone leave, and their addresses come again
        kept = [ct.zeros(1, requires_grad=True) for _ in range(10)]
    assert len(set(kept)) == 10 and [k.item() for k in kept] == [0] * 10


NAMES = {ct.f32: ["f32", "float32", np.float32, np.dtype("float32"), ">f4"],
         ct.f64: ["f64", "float64", np.float64, float],
         ct.f16: ["f16", "float16", np.float16], ct.bf16: ["bf16", "bfloat16"], ct.i64: ["i64", "int64", np.int64, int],
         ct.i32: ["i32", "int32", np.int32], ct.u8: ["u8", "uint8", np.uint8], ct.boolean: ["bool", np.bool_, bool]}


def test_dtypes_by_their_names():
    torch = pytest.importorskip("torch")
    for dtype, names in NAMES.items():
        theirs = {ct.f32: torch.float32, ct.bf16: torch.bfloat16, ct.i64: torch.long, ct.boolean: torch.bool}
        for one in names + [dtype, *([theirs[dtype]] if dtype in theirs else [])]:
            one = np.dtype(one) if one == ">f4" else one
            assert ct.tensor([1], dtype=one).dtype == ct.zeros(2, dtype=one).dtype == ct.zeros(1).to(one).dtype == dtype
    for bad in ("uint16", np.uint16, "float", 1, None.__class__, torch.complex64, object()):
        with pytest.raises(ct.DTypeError, match="a dtype is wanted"):
            ct.zeros(2, dtype=bad)
    assert repr(ct.f32) == str(ct.f32) == "cotangent.f32" and pickle.loads(pickle.dumps(ct.bf16)) is ct.bf16


def test_conversions():
    x, i = ct.tensor([1.5, 2.0]), ct.tensor([1, 2], dtype=ct.i32)
    for name, dtype in (("float", ct.f32), ("double", ct.f64), ("half", ct.f16), ("bfloat16", ct.bf16),
                        ("long", ct.i64), ("int", ct.i32), ("bool", ct.boolean)):
        assert getattr(x, name)().dtype == dtype
    assert x.float() is x and x.to("cpu") is x and x.to(ct.f32) is x and x.cpu() is x and x.to(x) is x
    assert x.type_as(i).dtype == ct.i32
    assert x.to(i).dtype == ct.i32 and x.to("cpu", ct.f64).dtype == ct.f64
    assert x.to(dtype="f64", device="cpu", non_blocking=True).dtype == ct.f64
    assert x.to(ct.f32, copy=True) is not x and x.to(dtype=None) is x
    for call, word in ((lambda: x.to(colour=1), "colour"), (lambda: x.to(1), "device"),
                       (lambda: x.to("cpu", non_blocking=1), "non_blocking")):
        with pytest.raises(TypeError, match=word):
            call()


@pytest.mark.parametrize("make", [
    lambda: ct.tensor([1.5, -2.0], requires_grad=True), lambda: ct.tensor([1.5, -2.0], dtype=ct.bf16),
    lambda: ct.tensor([[1, 2], [3, 4]]).T,
    lambda: ct.zeros(0, 3), lambda: ct.tensor(True), lambda: ct.arange(10)[::3],
    lambda: ct.tensor(3.0, dtype=ct.f64)[None, None]])
def test_pickle_and_copies(make):
    x = make()
    assert copy.copy(x).data_ptr() == x.data_ptr() and copy.deepcopy(x).data_ptr() != x.data_ptr() or not x.numel()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x, protocol=2))):
        assert y is not x and y.dtype == x.dtype and y.shape == x.shape and y.tolist() == x.tolist()
        assert y.requires_grad == x.requires_grad and y.is_leaf and y.device == x.device


def test_copies_keep_gradients_and_ties():
    x = ct.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    a, b, c = copy.deepcopy([x, x, x.detach()])
    assert a is b and a is not c and a.grad.tolist() == [2, 4] and a.grad.data_ptr() != x.grad.data_ptr()
    for f in (copy.deepcopy, copy.copy):
        with pytest.raises(ct.AutogradError, match="detach"):
            f(x * 2)
    assert pickle.loads(pickle.dumps(x * 2)).tolist() == [2, 4]


def _double(x):
    return x * 2


def test_tensors_go_to_other_processes():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_double, [ct.tensor([1.0, 2.0])])[0].tolist() == [2, 4]


NO_NUMBERS = [1j, np.complex64(1), "1", b"1", None, object(), np.datetime64("2020"), np.timedelta64(1), np.array(2.0),
              np.array([1, 2])]


@pytest.mark.parametrize("bad", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_by_name(bad):
    for call in (lambda: ct.ones(2).fill_(bad), lambda: ct.full((2,), bad), lambda: ct.arange(bad)):
        with pytest.raises(TypeError, match=type(bad).__name__):
            call()


def test_numbers_of_every_kind():
    class Index:
        def __index__(self):
            return 5

    class Broken:
        def __index__(self):
            raise KeyError("mine")

    for number, dtype in ((3, ct.i64), (np.int16(3), ct.i64), (np.uint64(3), ct.i64), (Index(), ct.i64),
                          (True, ct.boolean), (np.bool_(1), ct.boolean),
                          (1.5, ct.f32), (np.float64(1.5), ct.f32), (np.float16(1.5), ct.f32),
                          (np.longdouble(1.5), ct.f32)):
        made = ct.full((1,), number)
        assert made.dtype == dtype and made.item() == (5 if isinstance(number, Index) else number)
    for big in (2 ** 63, -2 ** 63 - 1, np.uint64(2 ** 63), 10 ** 400):
        with pytest.raises(ct.ValueError, match="64 bits"):
            ct.full((1,), big)
    for call in (lambda: ct.full((1,), Broken()), lambda: ct.ones(2)[Broken()], lambda: ct.ones(2) + Broken()):
        with pytest.raises(KeyError, match="mine"):
            call()
    assert ct.zeros(np.array([2, 3])).shape == ct.zeros(np.int64(2), 3).shape == (2, 3)
    assert ct.zeros([ct.tensor(2), np.array(3)]).shape == (2, 3)
    assert ct.nn.BatchNorm1d(1, momentum=None)(ct.tensor([[2.0], [4.0]])) is not None
    for bad in (2.0, True, "2", b"2", np.bool_(1), [2.0], [[2]], np.array([2.0])):
        with pytest.raises(TypeError, match="shape"):
            ct.zeros(bad)


def test_no_momentum_is_the_mean_of_all_batches():
    norm = ct.nn.BatchNorm1d(1, momentum=None)
    norm(ct.tensor([[2.0], [4.0]]))
    norm(ct.tensor([[6.0], [8.0]]))
    assert dict(norm.state_dict())["running_mean"].tolist() == [5]


def test_many_calls_keep_no_memory():
    resource = pytest.importorskip("resource")
    x, w, array = ct.ones(16), ct.ones(4, requires_grad=True), np.ones(16)[::-1]

    def work():
        for call in (lambda: x + "a", lambda: x[99], lambda: x[array], lambda: int(x), lambda: x + array[:3]):
            with pytest.raises(Exception):
                call()
        x[[0, 2]] = array[:2]
        x[::-1] += 1
        x.__iadd__(np.float32(0))
        ct.tensor([1.0, 2.0]), ct.tensor(array), ct.from_dlpack(np.ones(3)), x.numpy(), x.tolist(), copy.deepcopy(w)
        x.__dlpack__(), pickle.loads(pickle.dumps(x)), np.sin(x), array + x, 2 in x, f"{x[0]:.2f}", w.requires_grad_()

    def peak(times):
        for _ in range(times):
            work()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = peak(300)
    assert peak(2000) - before < 3000
