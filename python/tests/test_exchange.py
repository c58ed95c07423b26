"""Memory that is shared with NumPy and PyTorch, both ways."""
import ctypes
import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest

import cotangent as ct
from cotangent._array import as_tensor, from_numpy

DTYPES = {ct.f32: "float32", ct.f64: "float64", ct.f16: "float16", ct.i64: "int64", ct.i32: "int32", ct.u8: "uint8",
          ct.boolean: "bool"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_both_ways(dtype):
    array = np.array([[0, 1, 2], [3, 0, 5]]).astype(DTYPES[dtype])
    x = ct.from_dlpack(array)
    assert x.dtype == dtype and x.shape == (2, 3)
    assert np.array_equal(x.numpy(), array) and x.numpy().dtype == array.dtype
    array[1, 2] = 1
    assert x[1, 2].item() == 1
    x[0, 0] = 1
    assert array[0, 0] == 1


def test_bf16_goes_to_pytorch_and_not_to_numpy():
    torch = pytest.importorskip("torch")
    there = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    x = ct.from_dlpack(there)
    assert x.dtype == ct.bf16 and x.tolist() == [1.5, -2.0]
    assert torch.from_dlpack(x).data_ptr() == there.data_ptr()
    with pytest.raises(ct.DTypeError, match="x.to"):
        x.numpy()


def test_strides_are_kept():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = ct.from_dlpack(array[:, ::2].transpose(2, 0, 1))
    assert x.shape == (4, 2, 2) and x.strides == (1, 12, 8)
    assert np.array_equal(np.from_dlpack(x), array[:, ::2].transpose(2, 0, 1))
    assert np.array_equal((x + 1).numpy(), array[:, ::2].transpose(2, 0, 1) + 1)
    assert ct.from_dlpack(np.ones((), np.float32)).shape == ()
    assert ct.from_dlpack(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_the_last_one_gives_the_memory_back():
    array = np.ones(1000, np.float32)
    gone = weakref.ref(array)
    view = ct.from_dlpack(array)[10:20]
    del array
    gc.collect()
    assert gone() is not None and view.sum().item() == 10
    del view
    gc.collect()
    assert gone() is None
    made = np.from_dlpack(ct.ones(5) * 2)  # the tensor has no other owner
    gc.collect()
    ct.zeros(5)
    assert made.tolist() == [2.0] * 5


def test_memory_that_goes_in_another_thread():
    held = [ct.from_dlpack(np.ones(10, np.float32)) for _ in range(100)]
    threads = [threading.Thread(target=held.pop) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not held


@pytest.mark.parametrize("bad, error, word", [
    (np.zeros(3, np.complex64), ct.DTypeError, "float32"),
    (np.zeros(3, np.int16), ct.DTypeError, "16 bits"),
    (np.zeros(3)[::-1], ct.ValueError, "backwards"),
    ([1, 2], TypeError, "list"),
    (None, TypeError, "NoneType"),
    (np.array(["a"]), BufferError, "DLPack"),
])
def test_what_is_no_tensor_is_refused_and_the_next_call_works(bad, error, word):
    with pytest.raises(error, match=word):
        ct.from_dlpack(bad)
    assert ct.from_dlpack(np.ones(2)).tolist() == [1, 1]


def test_a_standard_library_in_the_module_is_for_itself():
    # Where the compiler links libstdc++ into what it makes: another one is in the process, with other facets.
    from cotangent import _core
    try:
        symbol = getattr(ctypes.CDLL(_core.__file__), "_ZNSt6locale7classicEv")
    except AttributeError:
        return
    where = (ctypes.c_char_p * 4)()  # Dl_info, of which the first is the file
    assert ctypes.CDLL(None).dladdr(ctypes.cast(symbol, ctypes.c_void_p), where)
    assert os.path.basename(where[0].decode()).startswith("libstdc++")


class Elsewhere:
    def __dlpack_device__(self):
        return 7, 0

    def __dlpack__(self, **_):
        raise AssertionError("asked for memory that can't be used")


class NoCapsule(Elsewhere):
    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        return 5


def test_devices_and_capsules_that_are_none():
    with pytest.raises(ct.DeviceError, match="kind 7"):
        ct.from_dlpack(Elsewhere())
    with pytest.raises(Exception):
        ct.from_dlpack(NoCapsule())
    if not ct.cuda_is_available():
        with pytest.raises(ct.DeviceError):
            ct.zeros(2, device="cuda")
    with pytest.raises(ct.DeviceError):
        ct.zeros(2, device="nowhere")
    assert ct.zeros(2).tolist() == [0, 0]


def test_a_gradient_is_not_lost_on_the_way():
    x = ct.ones(2, requires_grad=True)
    with pytest.raises(ct.AutogradError, match="detach"):
        np.from_dlpack(x)
    assert np.from_dlpack(x.detach()).tolist() == [1, 1]


def test_tensor_of_lists():
    assert ct.tensor([[1.0, 2.0]]).dtype == ct.f32 and ct.tensor([1, 2]).dtype == ct.i64
    assert ct.tensor([True]).dtype == ct.boolean and ct.tensor(0.1, dtype=ct.f64).item() == 0.1
    with pytest.raises(ct.ShapeError):
        ct.tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(TypeError):
        ct.tensor("text")
    with pytest.raises(TypeError):
        ct.tensor([object()])


def test_kernels_leave_the_interpreter_free():
    x = ct.randn(2000, 2000)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    ct.matmul(x, x)
    end = time.perf_counter()
    done.set()
    thread.join()
    assert sum(begin < t < end for t in ticks) > 5


# ---- Capsules of one's own ---------------------------------------------------------------------------------

class Raw(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Raw), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", DELETER),
                ("flags", ctypes.c_uint64), ("tensor", Raw)]


class Producer:
    """Eight floats, and how often their memory was given back."""

    def __init__(self, shape=(2, 3), strides=None, ndim=None, versioned=False, flags=0, major=1, name=None,
                 no_data=False, no_shape=False,
                 code=2, bits=32, lanes=1, byte_offset=0, device=(1, 0)):
        self.memory = np.arange(8, dtype=np.float32)
        self.freed = 0
        self.deleter = DELETER(self.free)
        self.sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.steps = (ctypes.c_int64 * len(strides))(*strides) if strides else None
        raw = Raw(None if no_data else self.memory.ctypes.data, (ctypes.c_int32 * 2)(*device),
                  len(shape) if ndim is None else ndim, code, bits,
                  lanes, None if no_shape else self.sizes, self.steps, byte_offset)
        self.managed = Managed(raw, None, self.deleter)
        if versioned:
            self.managed = Versioned(major, 0, None, self.deleter, flags, raw)
        self.name = ctypes.create_string_buffer((name or ("dltensor_versioned" if versioned else "dltensor")).encode())

    def free(self, _):
        self.freed += 1

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), ctypes.cast(self.name, ctypes.c_char_p), None)


@pytest.mark.parametrize("options, expected", [
    ({}, [[0, 1, 2], [3, 4, 5]]), ({"versioned": True}, [[0, 1, 2], [3, 4, 5]]),
    ({"strides": (1, 2)}, [[0, 2, 4], [1, 3, 5]]),
    ({"byte_offset": 8}, [[2, 3, 4], [5, 6, 7]]), ({"shape": ()}, 0), ({"shape": (), "no_shape": True}, 0),
    ({"shape": (0, 3), "no_data": True}, []),
    ({"shape": (1, 2), "strides": (-7, 1)}, [[0, 1]]), ({"shape": (1,) * 7 + (2,)}, [[[[[[[[0, 1]]]]]]]])])
def test_capsules_are_taken_and_given_back_once(options, expected):
    for through in (lambda p: p, lambda p: p.__dlpack__()):
        producer = Producer(**options)
        x = ct.from_dlpack(through(producer))
        assert x.tolist() == expected and (producer.freed == 0 or not x.numel())
        if x.numel():
            producer.memory += 1
            assert x.sum().item() == np.sum(expected) + x.numel()  # it is the same memory
        del x
        gc.collect()
        assert producer.freed == 1


@pytest.mark.parametrize("options, error, word", [
    ({"no_shape": True}, ct.ValueError, "shape is null"), ({"no_data": True}, ct.ValueError, "memory is null"),
    ({"ndim": -1}, ct.ValueError, "-1 axes"),
    ({"shape": (1,) * 9}, ct.ValueError, "9 axes"), ({"shape": (2, -3)}, ct.ValueError, "-3"),
    ({"shape": (2 ** 40, 2 ** 40)}, ct.ValueError, "memory"),
    ({"shape": (2 ** 62, 2)}, ct.ValueError, "memory"), ({"strides": (2 ** 62, 2 ** 62)}, ct.ValueError, "memory"),
    ({"strides": (-3, 1)}, ct.ValueError, r"ct.tensor\(array\)"),
    ({"lanes": 4}, ct.DTypeError, "lanes"), ({"code": 5, "bits": 64}, ct.DTypeError, "float32"),
    ({"byte_offset": 2}, ct.ValueError, r"ct.tensor\(array\)"),
    ({"versioned": True, "flags": 1}, ct.ValueError, r"ct.tensor\(array\)"),
    ({"versioned": True, "major": 2}, ct.ValueError, "version 1"),
    ({"device": (7, 0)}, ct.DeviceError, "kind 7")])
def test_broken_capsules_are_refused_and_given_back_once(options, error, word):
    producer = Producer(**options)
    with pytest.raises(error, match=word):
        ct.from_dlpack(producer)
    gc.collect()
    assert producer.freed == 1


def test_capsules_are_used_once():
    capsule = np.arange(3.0).__dlpack__()
    x = ct.from_dlpack(capsule)
    for name in ("used_dltensor", "used_dltensor_versioned"):
        for again in (capsule, Producer(name=name).__dlpack__()):
            with pytest.raises(ct.ValueError, match="used before"):
                ct.from_dlpack(again)
    assert x.tolist() == [0, 1, 2]
    for bad in (Producer(name="other"), Producer(name="other").__dlpack__()):
        with pytest.raises(TypeError, match="dltensor"):
            ct.from_dlpack(bad)
    for _ in range(3):  # objects that nothing takes
        x.__dlpack__()
    assert np.from_dlpack(x).tolist() == [0, 1, 2]


def test_capsules_that_nobody_takes_give_their_memory_back():
    array = np.ones(1000, np.float32)
    gone = weakref.ref(array)
    x = ct.from_dlpack(array)
    capsules = [x.__dlpack__() for _ in range(5)] + [x.__dlpack__(max_version=(1, 0))]
    del array, x
    gc.collect()
    assert gone() is not None and len(capsules) == 6
    del capsules
    gc.collect()
    assert gone() is None


def read_only(array):
    array.flags.writeable = False
    return array


def unaligned():
    return np.frombuffer(bytearray(b"x" + np.arange(3, dtype=np.float32).tobytes()), np.float32, offset=1)


@pytest.mark.parametrize("array", [
    read_only(np.arange(3.0)), np.arange(6)[::-1], np.arange(6).reshape(2, 3)[:, ::-1].T, np.arange(3, dtype=">f4"),
    np.arange(3, dtype=">i8"), unaligned(),
    np.zeros(3, [("a", np.uint8), ("b", np.float32)])["b"], np.frombuffer(b"\1\2", np.uint8),
    np.asfortranarray(np.ones((2, 3))), np.broadcast_to(np.arange(3), (2, 3)),
    np.arange(3, dtype=np.float16), np.float64(2.0), np.float16(2.0), np.int8(-3), np.array(5), np.zeros((0, 3)),
    np.ones(3, bool), np.bool_(True)], ids=repr)
def test_tensor_takes_arrays_however_they_lie(array):
    held = {"int8": "int32"}.get(array.dtype.name, array.dtype.name)
    for f in (ct.tensor, as_tensor):
        x = f(array)
        assert x.shape == array.shape and x.numpy().dtype == held and np.array_equal(x.numpy(), array)
    before, x = np.array(array), ct.tensor(array)
    x.fill_(1)
    assert np.array_equal(array, before)


@pytest.mark.parametrize("name, dtype", [("int8", ct.i32), ("int16", ct.i32), ("uint16", ct.i32), ("uint32", ct.i64),
                                         ("uint64", ct.i64)])
def test_tensor_takes_elements_in_the_smallest_dtype_that_holds_them(name, dtype):
    limits = np.iinfo(name)
    x = ct.tensor(np.array([limits.min, 0, min(limits.max, 2 ** 63 - 1)], name))
    assert x.dtype == dtype and x.tolist() == [limits.min, 0, min(limits.max, 2 ** 63 - 1)]


@pytest.mark.parametrize("data, dtype, expected", [
    ([1, 2], ct.i64, [1, 2]), ([1, 2.5], ct.f32, [1, 2.5]), ([True, 2], ct.i64, [1, 2]),
    ([True, False], ct.boolean, [True, False]), ([], ct.f32, []), ([[], []], ct.f32, [[], []]),
    (((1, 2), [3, 4]), ct.i64, [[1, 2], [3, 4]]), (range(3), ct.i64, [0, 1, 2]), (5, ct.i64, 5),
    (True, ct.boolean, True), (1.5, ct.f32, 1.5), ([np.float64(1.5), 2], ct.f64, [1.5, 2]),
    ([np.float32(1.5)], ct.f32, [1.5]), ([1.0, np.float64(0.1)], ct.f64, [1.0, 0.1]), (np.float64(0.1), ct.f64, 0.1),
    ([np.array([0.1]), np.array([2.0])], ct.f64, [[0.1], [2.0]]),
    ([ct.tensor(1.5), ct.tensor(2.5)], ct.f32, [1.5, 2.5]), ([[ct.tensor(1), 2], [3, 4]], ct.i64, [[1, 2], [3, 4]]),
    ([ct.ones(2, requires_grad=True)] * 2, ct.f32, [[1, 1], [1, 1]]),
    ([2 ** 63 - 1, -2 ** 63], ct.i64, [2 ** 63 - 1, -2 ** 63]), (bytearray(b"\1\2"), ct.u8, [1, 2]),
    ([1e300], ct.f32, [float("inf")])], ids=repr)
def test_tensor_of_what_python_has(data, dtype, expected):
    x = ct.tensor(data)
    assert x.dtype == dtype and x.tolist() == expected and not x.requires_grad


@pytest.mark.parametrize("data, error, word", [
    ([2 ** 63], ct.ValueError, "64 bits"), ([-1, 2 ** 63], ct.ValueError, "64 bits"),
    (2 ** 70, ct.ValueError, "64 bits"), ([[1.0], [2 ** 64]], ct.ValueError, "64 bits"),
    (np.array([2 ** 64 - 1], np.uint64), ct.ValueError, "beyond i64"), ([1, "a"], TypeError, "numbers"),
    ("text", TypeError, "str"), (b"text", TypeError, "bytes"), (None, TypeError, "NoneType"),
    ([None], TypeError, "numbers"), ({1, 2}, TypeError, "set"), ({}, TypeError, "dict"), (1j, TypeError, "complex128"),
    (np.zeros(2, complex), ct.DTypeError, "complex128"),
    ([[1], [1, 2]], ct.ShapeError, "length"), ([[1, 2], 3], ct.ShapeError, "length"),
    (np.array(["a"]), TypeError, "str|<U1"), (np.array([object()]), TypeError, "object"),
    (np.zeros(2, "M8[s]"), ct.DTypeError, "datetime64"),
    (np.zeros(2, np.longdouble), ct.DTypeError, "longdouble|float128"),
    (np.ma.masked_array([1, 2], [True, False]), TypeError, "masked"),
    (np.zeros(2, [("a", int)]), ct.DTypeError, "void")], ids=repr)
def test_what_is_no_tensor_of_numbers_is_refused(data, error, word):
    with pytest.raises(error, match=word):
        ct.tensor(data)


def test_tensor_of_tables_and_of_pytorch():
    class Table:
        def __array__(self, dtype=None, copy=None):
            return read_only(np.array([[1.0, 2.0]]))

    assert ct.tensor(Table()).tolist() == [[1, 2]] and (ct.ones(2) + Table()).tolist() == [[2, 3]]
    torch = pytest.importorskip("torch")
    x = ct.tensor(torch.ones(2, requires_grad=True), requires_grad=True)
    assert x.requires_grad and x.is_leaf and ct.tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]
    assert ct.tensor([0.1], dtype=torch.float64).item() == 0.1
    assert ct.tensor([1.5], dtype="int32", device="cpu").tolist() == [1]


def test_as_tensor_shares_where_it_can():
    array = np.ones(3, np.float32)
    shared, same, copied = as_tensor(array), as_tensor(ct.ones(2)), as_tensor(array[::-1])
    array[0] = 5
    assert shared.tolist() == from_numpy(array).tolist() == [5, 1, 1]
    assert copied.tolist() == [1, 1, 1] and same.shape == (2,)
    x = ct.ones(2, requires_grad=True)
    assert as_tensor(x) is x and as_tensor(x, dtype=ct.f64).dtype == as_tensor([1, 2], dtype="f64").dtype == ct.f64
    for bad, error in (([1.0], TypeError), (array[::-1], ct.ValueError), (read_only(np.ones(2)), ct.ValueError)):
        with pytest.raises(error):
            from_numpy(bad)
    assert ct.from_dlpack(read_only(np.ones(2)), copy=True).tolist() == [1, 1]


def test_numpy_sees_what_it_may():
    x = ct.tensor([1.0, 2.0])
    assert x.numpy().flags.writeable and np.asarray(x).ctypes.data == x.data_ptr() != np.array(x).ctypes.data
    x.numpy()[0] = 5
    assert x[0].item() == 5 and np.asarray(x, dtype=np.float64).tolist() == [5, 2]
    assert np.array(x, dtype=int).tolist() == [5, 2] and np.concatenate([x, x]).tolist() == [5, 2, 5, 2]
    assert np.atleast_2d(x).shape == (1, 2) and np.array([x, x]).shape == (2, 2)
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)
    y = ct.ones(2, requires_grad=True)
    for f in (np.asarray, lambda t: t.numpy(), np.array, lambda t: np.concatenate([t, t])):
        with pytest.raises(ct.AutogradError, match=r"x.detach\(\).numpy\(\)"):
            f(y)
    assert y.numpy(force=True).tolist() == [1, 1] and y.tolist() == [1, 1]
