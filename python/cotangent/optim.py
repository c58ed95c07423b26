"""Optimizers, equal to PyTorch's step for step; schedules, clipping, loss scaling, averages."""
from typing import Any, Iterator, Mapping

from ._core import _optim
from ._core import Tensor as _Tensor
from ._core._optim import *  # noqa: F403

__all__ = [name for name in vars(_optim) if not name.startswith("_")] + ["ParamGroup", "decay_groups"]


class ParamGroup(Mapping[str, Any]):
    """A group of an optimizer: group["params"], group["lr"], which can be set, and the options it was made with."""

    def __init__(self, optimizer: Any, index: int):
        self._optimizer, self._index = optimizer, index

    def __getitem__(self, name: str) -> Any:
        options = self._optimizer._options[self._index]
        if name == "params":
            return self._optimizer._params(self._index)
        if name == "lr":
            return self._optimizer._lr(self._index)
        return (options["beta1"], options["beta2"]) if name == "betas" and "beta1" in options else options[name]

    def __setitem__(self, name: str, value: float) -> None:
        if name != "lr":
            raise TypeError(f"[param_groups] {name!r} of a group stays as it was made, only 'lr' can be set; make a "
                            "new optimizer, and load this one's state_dict() into it")
        self._optimizer._set_lr(float(value), self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(["params", *self._optimizer._options[self._index]])

    def __len__(self) -> int:
        return len(self._optimizer._options[self._index]) + 1

    def __repr__(self) -> str:
        return repr({name: len(value) if name == "params" else value for name, value in self.items()})


def _groups_of(optimizer: Any) -> tuple[ParamGroup, ...]:
    return tuple(ParamGroup(optimizer, i) for i in range(optimizer._group_count()))


def decay_groups(params: Any, weight_decay: float = 1e-2, **options: Any) -> list[dict[str, Any]]:
    """Two groups of a module's parameters, or of tensors: matrices with weight_decay, vectors and numbers with 0."""
    named = list(params.parameters() if hasattr(params, "parameters") else params)
    tensors = [one for one in (pair if isinstance(pair, _Tensor) else pair[1] for pair in named) if one.requires_grad]
    groups = [{"params": [p for p in tensors if p.ndim >= 2], "weight_decay": weight_decay, **options},
              {"params": [p for p in tensors if p.ndim < 2], "weight_decay": 0.0, **options}]
    return [group for group in groups if group["params"]]
