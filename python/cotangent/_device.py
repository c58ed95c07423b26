"""A device as PyTorch has it, and what else its users type first."""
import functools
import re
import sys
from typing import Optional

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


def _with_alpha(plain):
    @functools.wraps(plain)
    def in_place(self, other, *, alpha=1):
        return plain(self, other if alpha == 1 else other * alpha)
    return in_place


Tensor.add_, Tensor.sub_ = _with_alpha(Tensor.add_), _with_alpha(Tensor.sub_)
Tensor.lerp_ = lambda self, end, weight: self.copy_(self.lerp(end, weight))
Tensor.device = property(lambda self, plain=Tensor.device: device(plain.__get__(self)), doc=Tensor.device.__doc__)
FloatTensor, LongTensor = functools.partial(tensor, dtype=_core.f32), functools.partial(tensor, dtype=_core.i64)
get_num_threads = _core.num_threads
optim.lr_scheduler = sys.modules[optim.__name__ + ".lr_scheduler"] = optim  # `from cotangent.optim.lr_scheduler import ..`
