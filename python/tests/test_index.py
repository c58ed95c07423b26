"""Indices: every form of NumPy's, read and written, beside NumPy; gradients beside PyTorch."""
import numpy as np
import pytest

import cotangent as ct

A, B = np.array([2, 0, -1]), np.array([[0], [2]])
MASK1, MASK2 = np.array([True, False, True, False]), np.arange(20).reshape(4, 5) % 3 == 0

# Indices for an array [4, 5, 6].
FORMS = [
    0, -1, np.int64(2), np.uint8(3), np.array(1), (1, 2), (1, 2, 3), (np.int32(0), -1), (), Ellipsis, None,
    slice(None), slice(1, 3), slice(None, None, 2), slice(-3, None), slice(5, 2), slice(0, 10 ** 30),
    slice(-10 ** 30, 2),
    slice(None, None, -1), slice(3, 0, -2), slice(None, 1, -1), slice(0, 3, -1), slice(None, None, -3),
    slice(9, None, -2),
    (slice(None), slice(None, None, -1)), (Ellipsis, slice(None, None, -2)), (None, slice(None, None, -1), 1),
    (slice(None, None, -1), Ellipsis, slice(4, 1, -1)), (slice(np.int64(1), np.int8(3)), 0),
    (Ellipsis, 0), (0, Ellipsis), (None, 0, None), (Ellipsis, None), (slice(1, 3), None, 2), (1, Ellipsis, None, 2),
    True, False, np.bool_(True), np.array(False), (True, 0), (None, True),
    [0, 2], [3, -1, 0, 0], [[0, 1], [2, 3]], [], [True, False, True, True], range(3), range(3, 0, -1), ([1, 2],),
    ([0, 1], [2, 3]), ([0, 1], 2), ((0, 1), (2, 3)), [np.int64(1), 2],
    A, A.astype(np.int32), A.astype(np.int16), np.array([3, 1], np.uint8), np.array([3, 1], np.uint64), B, (A, B),
    (B, A),
    A[::-1], np.array([], np.int64), np.array([], np.int32), (A, A, A), (slice(None), A), (Ellipsis, A), (None, A),
    (A, slice(None), A), (A, Ellipsis, A), (slice(1, 3), A), (slice(None, None, -1), A), (A, slice(None, None, -2)),
    (slice(None), A, slice(None, None, -1)), (A, None), (slice(None), B, None),
    MASK1, MASK2, (MASK1, 0), (MASK1, slice(None, None, -1)), (slice(None), np.array([1, 0, 0, 1, 1], bool)),
    (MASK2, 3),
    (MASK2, slice(None, None, -1)), (Ellipsis, np.arange(6) > 2), (MASK1, None), np.zeros(4, bool),
    np.arange(120).reshape(4, 5, 6) % 7 == 1,
]


def here(key, convert):
    """The key with its arrays as another library's."""
    if isinstance(key, tuple):
        return tuple(here(one, convert) for one in key)
    return convert(key) if isinstance(key, np.ndarray) and key.dtype in (np.int64, np.int32, bool) else key


def sources():
    array = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    yield array, ct.tensor(array)
    yield array, ct.tensor(array.transpose(2, 0, 1).copy()).permute(1, 2, 0)  # the same elements, other strides


@pytest.mark.parametrize("key", FORMS, ids=repr)
def test_reading_is_numpys(key):
    for array, x in sources():
        expected = array[key]
        for convert in (lambda a: a, lambda a: ct.tensor(a)):
            got = x[here(key, convert)]
            assert got.shape == expected.shape and np.array_equal(got.numpy(), expected)


@pytest.mark.parametrize("key", FORMS, ids=repr)
def test_writing_is_numpys(key):
    chosen = np.arange(120).reshape(4, 5, 6)[key]
    values = [99, -1.5, np.float64(2.5), np.int64(7), True]
    if len(set(np.ravel(chosen))) == chosen.size:  # else the order decides
        fresh = np.array(-chosen - 1, np.float32)
        values += [fresh, ct.tensor(fresh), fresh.astype(np.float64)]
        if fresh.size and 0 < fresh.ndim < 3:
            values += [fresh.tolist()]
            values += [fresh[None]] if getattr(key, "ndim", 0) < 3 else []
    for value in values:
        for array, x in sources():
            array = array.copy()
            array[key] = value.numpy() if isinstance(value, ct.Tensor) else value
            x[key] = value
            assert np.array_equal(x.numpy(), array)


@pytest.mark.parametrize("key", FORMS, ids=repr)
def test_changes_in_place_are_numpys(key):
    for array, x in sources():
        array = array.copy()
        array[key] += 3
        array[key] *= 2
        x[key] += 3
        x[key] *= 2
        assert np.array_equal(x.numpy(), array)


def test_what_an_index_names_with_pytorchs_tensors():
    torch = pytest.importorskip("torch")
    for array, x in sources():
        for key in (A, B, MASK1, MASK2, (A, slice(None), A)):
            assert np.array_equal(x[here(key, torch.tensor)].numpy(), array[key])
        y = x.clone()
        y[torch.tensor([0, 2])] = torch.zeros(6)
        assert y.sum().item() == array[[1, 3]].sum()
    # NumPy takes a number beside arrays for one of these; the rule here is PyTorch's.
    assert x[0, :, [1, 2]].shape == torch.zeros(4, 5, 6)[0, :, [1, 2]].shape


BAD = [
    (4, IndexError, "out of range"), (-5, IndexError, "out of range"), ((0, 5), IndexError, "out of range"),
    ([0, 4], IndexError, "out of range"), (np.array([-5]), IndexError, "out of range"),
    (2 ** 70, ValueError, "64 bits"),
    ((0, 0, 0, 0), IndexError, "axes"), ((Ellipsis, Ellipsis), IndexError, "Ellipsis"),
    (np.ones(3, bool), IndexError, "mask"), (np.ones((4, 4), bool), IndexError, "mask"),
    (slice(None, None, 0), ValueError, "zero"),
    (1.0, TypeError, "float"), (np.float32(1), TypeError, "float32"), ("a", TypeError, "str"),
    (1j, TypeError, "complex"),
    (np.array([0.0, 1.0]), TypeError, "float64"), ([0.5], TypeError, "float64"), (slice(0.5, 2), TypeError, "slice"),
    ([[0], [1, 2]], TypeError, "length"), ({}, TypeError, "dict"), (object(), TypeError, "object"),
    ([None], TypeError, "list"),
    (np.array(["a"]), TypeError, "ndarray"), (ct.tensor([1.0]), TypeError, "f32"),
    (ct.tensor([1], dtype=ct.u8), TypeError, "u8"),
    (np.array([2 ** 64 - 1], np.uint64), ValueError, "beyond i64"),
    ((slice(None), slice(None), slice(None), slice(None, None, -1)), IndexError, "axes"),
    (([0, 1], [0, 1, 2]), (IndexError, ValueError), "broadcast"),
]


@pytest.mark.parametrize("key, error, word", BAD, ids=repr)
def test_what_is_no_index_is_refused_and_nothing_is_written(key, error, word):
    x = ct.zeros(4, 5, 6)
    with pytest.raises(error, match=word):
        x[key]
    with pytest.raises(error, match=word):
        x[key] = 1
    assert not x.any() and x[1, 2, 3].item() == 0


@pytest.mark.parametrize("value, error, word", [
    (None, TypeError, "NoneType"), ("1", TypeError, "str"), (1j, TypeError, "complex"), (object(), TypeError, "object"),
    (np.ones(3), ct.ShapeError, "broadcast"), ([[1], [2, 3]], ct.ShapeError, "length"),
    (2 ** 70, ct.ValueError, "64 bits"),
])
def test_what_is_no_value_is_refused(value, error, word):
    x = ct.zeros(4, 5)
    with pytest.raises(error, match=word):
        x[0] = value
    with pytest.raises(TypeError, match="deleted"):
        del x[0]
    assert not x.any()


def test_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    array = np.arange(120, dtype=np.float32).reshape(4, 5, 6) / 7
    for key in (0, (Ellipsis, None, 2), slice(1, 3), [0, 2, 0], (A, slice(None), A), MASK2, (MASK1, 0), None, True):
        x, y = ct.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
        (x[key] ** 2).sum().backward()
        (y[here(key, torch.tensor)] ** 2).sum().backward()
        assert np.allclose(x.grad.numpy(), y.grad.numpy())
        # An element that is written twice: PyTorch counts its gradient twice, this library once.
        key = [0, 2] if isinstance(key, list) else key
        w, v = ct.tensor(2.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        x.grad = y.grad = None
        a, b = x * 3, y * 3
        a[key] = w
        b[here(key, torch.tensor)] = v
        (a * a).sum().backward()
        (b * b).sum().backward()
        assert np.allclose(x.grad.numpy(), y.grad.numpy()) and np.isclose(w.grad.item(), v.grad.item())


def test_gradients_of_what_runs_backwards():
    x = ct.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    (x[::-1] * ct.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [1000, 100, 10, 1]
    x.grad = None
    w = ct.tensor([5.0, 6.0], requires_grad=True)
    y = x * 1
    y[2::-2] = w
    (y * ct.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert y.tolist() == [6, 2, 5, 4] and x.grad.tolist() == [0, 10, 0, 1000] and w.grad.tolist() == [100, 1]


def test_a_leaf_is_written_without_the_tape_alone():
    x = ct.zeros(3, requires_grad=True)
    for key in (0, slice(None, None, -1), [0, 2]):
        with pytest.raises(ct.AutogradError, match="with ct.no_grad"):
            x[key] = 1.0
    assert x.tolist() == [0, 0, 0]
    with ct.no_grad():
        x[::-2] = ct.tensor([1.0, 2.0])
    assert x.tolist() == [2, 0, 1] and x.is_leaf and x.requires_grad


def test_a_view_shares_and_a_list_copies():
    x = ct.zeros(4, 2)
    row, rows = x[1], x[[1, 2]]
    row[0] = 1
    rows[:] = 5
    assert x.tolist() == [[0, 0], [1, 0], [0, 0], [0, 0]]
