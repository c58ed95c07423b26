"""A device as PyTorch has it, and what else its users type first."""
import functools
import re
import sys
from typing import Any, Optional

from . import _core, optim
from ._array import tensor
from ._core import Tensor


class device(str):
    """device("cuda", 1), device("cuda:1"): text with .type ("cuda") and .index (1, or None); equal to that text."""

    def __new__(cls, type: str, index: Optional[int] = None) -> "device":
        text = type if index is None else f"{type}:{index}"
        if not re.fullmatch(r"cpu|cuda(:\d+)?", text):
            raise _core.ValueError(f"[device] {text!r}; 'cpu', 'cuda' or 'cuda:1' is wanted")
        return super().__new__(cls, text)

    @property
    def type(self) -> str:
        return self.partition(":")[0]

    @property
    def index(self) -> Optional[int]:
        return int(self[5:]) if ":" in self else None

    def __repr__(self) -> str:
        return f"device({str(self)!r})"


def is_tensor(obj: object) -> bool:
    """Is it a Tensor?"""
    return isinstance(obj, Tensor)


def _with_alpha(plain: Any) -> Any:
    @functools.wraps(plain)
    def in_place(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        return plain(self, other if alpha == 1 else other * alpha)
    return in_place


def _lerp_(self: Any, end: Tensor, weight: float) -> Tensor:
    return self.copy_(self.lerp(end, weight))


_tensor: Any = Tensor
_where = _tensor.device
_tensor.add_, _tensor.sub_, _tensor.lerp_ = _with_alpha(Tensor.add_), _with_alpha(Tensor.sub_), _lerp_
_tensor.device = property(lambda self: device(_where.__get__(self)), doc="Where the elements are.")
FloatTensor, LongTensor = functools.partial(tensor, dtype=_core.f32), functools.partial(tensor, dtype=_core.i64)
get_num_threads = _core.num_threads
# `from cotangent.optim.lr_scheduler import StepLR` finds them
setattr(optim, "lr_scheduler", sys.modules.setdefault(optim.__name__ + ".lr_scheduler", optim))
