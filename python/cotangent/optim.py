"""Optimizers, equal to PyTorch's step for step; schedules, clipping, loss scaling, averages."""
from typing import Any, Iterator, Mapping

from . import _core
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


def _own_names(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by C++'s names."""
    known, own = kind._read_options(), {}
    for name, value in given.items():
        pairs = [(name if name in known else next((ours for ours in _core._ours(name) if ours in known), name), value)]
        if name == "betas":
            try:
                pairs = list(zip(("beta1", "beta2"), value, strict=True))
            except (TypeError, ValueError):
                raise TypeError(f"[{kind.__name__}] betas is a {type(value).__name__}; a pair of numbers is wanted") from None
        for ours, one in pairs:
            if ours in own:
                raise TypeError(f"[{kind.__name__}] got '{ours}' twice; once is wanted")
            own[ours] = one
    return own


def _group(optimizer: Any, given: Any) -> tuple[Any, dict[str, Any]]:
    kind = type(optimizer)
    if not isinstance(given, Mapping):
        raise TypeError(f"[{kind.__name__}] one of params is a {type(given).__name__}; a dict, as the first is, is wanted")
    own = _own_names(kind, given)
    if "params" not in own:
        raise TypeError(f"[{kind.__name__}] a group has no 'params'; {{\"params\": tensors, ..}} is wanted")
    params = own.pop("params")
    return (params,) if isinstance(params, _Tensor) else params, kind._read_options(**{**optimizer.defaults, **own})


def _groups(optimizer: Any, params: Any, *more: Any, **given: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Reads an optimizer's arguments: for each group its parameters and all options."""
    optimizer.defaults = type(optimizer)._read_options(*more, **_own_names(type(optimizer), given))
    if not isinstance(params, (Mapping, _Tensor)) and hasattr(params, "__iter__"):
        params = list(params)  # a generator goes once
    several = isinstance(params, list) and params and isinstance(params[0], Mapping)
    groups = [_group(optimizer, one) for one in params] if several else [(params, optimizer.defaults)]
    optimizer._options = [options for _, options in groups]
    return groups


class _Members:
    """Methods that Python adds to optimizers."""

    def step(self: Any, closure: Any = None) -> Any:
        """One update of every parameter that has a gradient. closure() computes the loss and its gradients before it, and
        what it gives is given."""
        loss = None
        if closure is not None:
            with _core._grad.GradMode(True):
                loss = closure()
        self._step()
        return loss

    def add_param_group(self: Any, param_group: Any, **options: Any) -> None:
        """add_param_group({"params": tensors, "lr": ..}): more parameters. Options that are left out are those the
        optimizer was made with."""
        group = _group(self, param_group if isinstance(param_group, Mapping) else {"params": param_group, **options})
        self._add(group)
        self._options.append(group[1])

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        raise TypeError(f"[{type(self).__name__}] an optimizer belongs to its tensors and can't be copied or pickled; make a "
                        "new one, and load this one's state_dict() into it")

    def __repr__(self: Any) -> str:
        return f"<{type(self).__name__}, lr {self.lr:g}>"

    param_groups = property(lambda self: tuple(ParamGroup(self, i) for i in range(self._group_count())), doc=(
        "The groups, each a mapping of \"params\" and options, of which \"lr\" can be set. add_param_group() adds one."))
    lr = property(lambda self: self._lr(), lambda self, lr: self._set_lr(lr),
                  doc="The learning rate of the first group; set, it is that of all groups.")


for _name in ("step", "add_param_group", "__reduce_ex__", "__repr__", "param_groups", "lr"):
    setattr(Optimizer, _name, vars(_Members)[_name])  # noqa: F405


class OneCycleLR(_optim.OneCycleLR):
    __doc__, __signature__ = _optim.OneCycleLR.__doc__, _optim.OneCycleLR.__signature__

    def __init__(self, optimizer: Any, *args: Any, epochs: Any = None, steps_per_epoch: Any = None, **named: Any):
        if epochs is not None:
            named["total_steps"] = epochs * steps_per_epoch
        super().__init__(optimizer, *args, **named)


def decay_groups(params: Any, weight_decay: float = 1e-2, **options: Any) -> list[dict[str, Any]]:
    """Two groups of a module's parameters, or of tensors: matrices with weight_decay, vectors and numbers with 0."""
    named = list(params.parameters() if hasattr(params, "parameters") else params)
    tensors = [one for one in (pair if isinstance(pair, _Tensor) else pair[1] for pair in named) if one.requires_grad]
    groups = [{"params": [p for p in tensors if p.ndim >= 2], "weight_decay": weight_decay, **options},
              {"params": [p for p in tensors if p.ndim < 2], "weight_decay": 0.0, **options}]
    return [group for group in groups if group["params"]]
