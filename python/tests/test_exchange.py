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
