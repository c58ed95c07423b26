"""Memory on a GPU that is shared with PyTorch and CuPy, in the order of their streams."""
import pytest

import cotangent as ct

if not ct.cuda_is_available():
    pytest.skip("no GPU, or a build without CUDA", allow_module_level=True)
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_pytorch_both_ways(dtype):
    there = torch.tensor([[0, 1, 1], [1, 0, 1]], device="cuda").to(dtype)
    x = ct.from_dlpack(there.T)
    assert x.device == "cuda:0" and x.shape == (3, 2) and x.strides == (1, 3) and x.data_ptr() == there.data_ptr()
    back = torch.from_dlpack(x)
    assert back.data_ptr() == there.data_ptr() and torch.equal(back, there.T)
    x.fill_(1)
    assert there.sum().item() == 6


def test_cupy_both_ways():
    cupy = pytest.importorskip("cupy")
    array = cupy.arange(6, dtype=cupy.float32).reshape(2, 3)
    x = ct.from_dlpack(array)
    assert (x * 2).to("cpu").tolist() == [[0, 2, 4], [6, 8, 10]]
    assert cupy.from_dlpack(x).data.ptr == array.data.ptr


def test_work_is_seen_in_order():
    # A slow product on a stream of PyTorch's, read here at once, and the other way round.
    stream = torch.cuda.Stream()
    big = torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    for _ in range(3):
        with torch.cuda.stream(stream):
            made = big
            for _ in range(4):
                made = (big @ made) / 100
            ours = ct.from_dlpack(made).clone()
        torch.cuda.synchronize()
        assert torch.equal(torch.from_dlpack(ours), made)
    mine = ct.from_dlpack(big)
    for _ in range(4):
        mine = ct.matmul(mine, ct.from_dlpack(big)) / 100
    with torch.cuda.stream(stream):
        theirs = torch.from_dlpack(mine).clone()
    torch.cuda.synchronize()
    assert torch.equal(theirs, torch.from_dlpack(mine))


def test_numpy_is_told_where_the_tensor_is():
    with pytest.raises(ct.DeviceError, match="cuda:0"):
        ct.ones(2, device="cuda").numpy()
    assert ct.ones(2, device="cuda").tolist() == [1, 1]
