"""Modules: the library's layers, and what a program's own are made with.

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(784, 10)

        def forward(self, x):
            return self.fc(x)

Names of parameters are those of PyTorch's modules.
"""
from ._core import Tensor, _nn
from ._core._nn import *  # noqa: F403  the layers
from ._core._nn import Module

__all__ = [name for name in vars(_nn) if not name.startswith("_")] + [
    "Parameter", "Buffer", "Sequential", "ModuleList"]


class Parameter:
    """Marks a tensor that is assigned to a module's attribute as one of its parameters."""

    def __init__(self, tensor):
        self.tensor = tensor


class Buffer(Parameter):
    """The same for a buffer: state that is saved, but not trained."""


def _set(self, name, value):
    if isinstance(value, Module):
        seats = self.__dict__.setdefault("_seats", {})
        if name in seats:
            seats[name]._assign(value)
        else:
            seats[name] = self._add(name, value)
    elif isinstance(value, Parameter):
        (self._buffer if isinstance(value, Buffer) else self._parameter)(name, value.tensor)
        value = value.tensor
    object.__setattr__(self, name, value)


def _forward(self, *inputs):
    raise NotImplementedError(f"[{type(self).__name__}] it has no forward(); define forward(self, x)")


def _call(self, *inputs, **more):
    return self.forward(*inputs, **more)


def _describe(self):
    return self._describe(type(self).__name__)


Module.__setattr__ = _set
Module.forward = _forward
Module.__call__ = _call
Module.__repr__ = _describe


class ModuleList(Module):
    """Modules by number, which the owner's forward() goes through."""

    def __init__(self, modules=()):
        super().__init__()
        self.__dict__["_items"] = []
        for module in modules:
            self.append(module)

    def append(self, module):
        setattr(self, str(len(self._items)), module)
        self._items.append(module)
        return self

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def __getitem__(self, i):
        return self._items[i]


class Sequential(ModuleList):
    """Modules, or functions of a tensor, one after the other."""

    def __init__(self, *modules):
        super().__init__(modules)

    def append(self, module):
        if not isinstance(module, Module):
            if not callable(module):
                raise TypeError(f"[Sequential] got a {type(module).__name__}; modules and functions are wanted")
            self._items.append(module)
            return self
        return super().append(module)

    def forward(self, x):
        for module in self._items:
            x = module(x)
        return x
