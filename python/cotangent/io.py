"""Files: safetensors (what load() and save() of a dict of tensors are), npy and npz."""
from ._core import _io
from ._core._io import *  # noqa: F403

__all__ = [name for name in vars(_io) if not name.startswith("_")]
