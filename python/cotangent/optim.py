"""Optimizers, equal to PyTorch's step for step."""
from ._core import _optim
from ._core._optim import *  # noqa: F403

__all__ = [name for name in vars(_optim) if not name.startswith("_")]
