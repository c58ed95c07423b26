"""The GPU: is one there, how many, and wait for it."""
from . import _core
from ._core import cuda_device_count as device_count, cuda_is_available as is_available
from ._core import manual_seed as manual_seed, manual_seed as manual_seed_all


def synchronize(device: object = "cuda") -> None:
    """Waits until all that was started on the GPU is done."""
    _core.synchronize(str(device))
