"""The GPU: is one there, how many, and wait for it."""
from . import _core
from ._core import manual_seed as manual_seed

is_available, device_count, manual_seed_all = _core.cuda_is_available, _core.cuda_device_count, manual_seed


def synchronize(device: object = "cuda") -> None:
    """Waits until all that was started on the GPU is done."""
    _core.synchronize(str(device))
