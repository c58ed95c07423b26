"""Modules: the library's layers, and what a program's own are made with.

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(784, 10)

        def forward(self, x):
            return self.fc(x)

Names of parameters are those of PyTorch's modules. A module's attributes are what is trained, saved and moved:
an assignment registers or replaces, or it is an error.
"""
import operator as _operator
import re as _re
import sys as _sys
import weakref as _weakref
from contextlib import AbstractContextManager as _AbstractContextManager
from collections import OrderedDict as _OrderedDict, namedtuple as _namedtuple
from collections.abc import MutableMapping as _MutableMapping, MutableSequence as _MutableSequence
from functools import partialmethod as _partialmethod

from . import _core, functional, utils
from ._core import Tensor, _nn, bf16, f16, f32, f64
from ._core import ValueError as _ValueError
from ._core._nn import *  # noqa: F403  the layers
from ._core import _init as init
from ._core._nn import Module
from ._capture import HookChanges as _HookChanges

__all__ = [name for name in vars(_nn) if not name.startswith("_")] + [
    "Parameter", "Buffer", "Lambda", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
    ]

for _part in (init, utils, functional):  # `import cotangent.nn.functional as F` finds them
    _sys.modules[f"{__name__}.{_part.__name__.rpartition('.')[2].strip('_')}"] = _part
init.calculate_gain = init.gain


def _eye(tensor):
    """Ones on the diagonal of a matrix, else zeros."""
    if tensor.ndim != 2:
        raise _core.ShapeError(f"[eye_] got {tuple(tensor.shape)}; a matrix is wanted")
    tensor.detach().copy_(functional.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


_eye.__name__, _eye.__qualname__, _eye.__module__ = "eye_", "eye_", __name__ + ".init"
init.eye_ = _eye
_known = _weakref.WeakValueDictionary()  # tensors of modules as Python's objects, one for each


def _named(cls, tensor):
    """The object of this class that stands for a tensor: the same one as long as it lives."""
    found = _known.get(hash(tensor))
    if found is None or hash(found) != hash(tensor):
        found = _known[hash(tensor)] = _nn._as(cls, tensor)
    return found


def _remade(cls, tensor, requires_grad):
    made = cls(tensor)
    made.requires_grad = requires_grad
    return made


class _Member(Tensor):
    """A tensor of a module while it is copied."""

    def __new__(cls, data):
        if not isinstance(data, Tensor):
            raise TypeError(f"[{cls.__name__}] got a {type(data).__name__}; a Tensor is wanted: ct.tensor() makes one")
        return _named(cls, data.detach())

    def __init__(self, *_, **__):
        """__new__ has made all of it."""

    __copy__ = __deepcopy__ = None

    def __reduce_ex__(self, protocol):
        return _remade, (type(self), self.detach(), self.requires_grad), self.__dict__ or None

    def __repr__(self):
        return f"{type(self).__name__} containing:\n{Tensor.__repr__(self)}"


class Parameter(_Member):
    """A tensor that is trained. Assigned to a module's attribute it is one of its parameters. It shares the memory of
    the tensor it is made of."""

    def __new__(cls, data, requires_grad=True):
        made = _Member.__new__(cls, data)
        made.requires_grad = True
        made.requires_grad = requires_grad
        return made


class Buffer(_Member):
    """A tensor that is saved and moved with a module, but not trained."""

    def __new__(cls, data, *, persistent=True):
        made = _Member.__new__(cls, data)
        made.persistent = persistent
        return made


class _Listed(list):
    """A list that next() goes through as well."""

    def __iter__(self):
        return self.__dict__.get("_rest") or list.__iter__(self)

    def __next__(self):
        return next(self.__dict__.setdefault("_rest", list.__iter__(self)))


class RemovableHandle(_AbstractContextManager):
    """A hook that was registered; remove() takes it away, and so does the end of a `with`."""

    def __init__(self, hooks):
        self._hooks = hooks
        _HookChanges.count += 1

    def remove(self, *_):
        if self._hooks.pop(self, None):
            _HookChanges.count += 1

    __exit__ = remove


_KINDS = {"parameter": (Parameter, "nn.Parameter(...) or None, or write into it by .copy_() under no_grad()"),
          "buffer": (Tensor, "a Tensor or None"), "module": (Module, "an nn.Module or None")}


def _check(at, kind, value):
    if value is not None and not isinstance(value, _KINDS[kind][0]):
        raise TypeError(f"{at} is a {kind}, and got a {type(value).__name__}; assign {_KINDS[kind][1]}")


_LoadReport = _namedtuple("LoadReport", ["missing_keys", "unexpected_keys"])


class _Module:
    """Methods that Python adds to the modules of C++: attributes, walks, hooks, copies."""

    # ---- Attributes ----------------------------------------------------------------------------------------------

    def __getattr__(self, name):
        member = self._member(name)
        if member:
            return self._inner(name) if member[0] == "module" else self._tensor(name, *member)
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        if name[:2] == "__":
            raise AttributeError(name)
        more = "call super().__init__() first"
        if _nn._is_ready(self):
            more = "it has " + (", ".join([*self._members(), *settings]) or "no members")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'; {more}")

    def _at(self, name):
        return f"[{type(self).__name__}] '{name}'"

    def _kind_of(self, name):
        return (self._member(name) or (None,))[0]

    def _tensor(self, name, kind, tensor, _):
        kept = self.__dict__.setdefault("_tensors", {})
        found = kept.get(name)
        if tensor is None or found is None or hash(found) != hash(tensor):
            known = _named(Parameter, tensor) if kind == "parameter" and tensor is not None else tensor
            found = kept[name] = known if tensor is None else _known.get(hash(tensor), known)
        return found

    def _inner(self, name):
        """A module that C++ has made: a handle to it."""
        handle = self.__dict__[name] = self._child(name)
        handle.__dict__["_inside"] = type(self).__name__
        return handle

    def __setattr__(self, name, value):
        kind, member = self._kind_of(name), isinstance(value, (Module, _Member))
        if member and not _nn._is_ready(self):
            raise AttributeError(f"{self._at(name)} is assigned before super().__init__() was called; call it first")
        if hasattr(getattr(type(self), name, None), "__set__"):
            return object.__setattr__(self, name, value)
        if not kind and name in self.__dict__.get("_settings", ()):
            raise AttributeError(f"{self._at(name)} is a setting, read when the module is made; make another module")
        if kind == "parameter" or kind and not member:
            _check(self._at(name), kind, value)
        if value is None and kind == "module":
            self._clear(name)
        elif member or kind:
            kind = "module" if isinstance(value, Module) else "parameter" if isinstance(value, Parameter) else (
                kind if value is None else "buffer")
            return self._place(name, kind, value, getattr(value, "persistent", None) if kind == "buffer" else None)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name in self.__dict__.get("_settings", ()) and not self._member(name):
            raise AttributeError(f"{self._at(name)} is a setting; it can't be deleted")
        if not (self._member(name) and self._clear(name)):
            object.__delattr__(self, name)

    def __dir__(self):
        names = self._members() if _nn._is_ready(self) else ()
        return sorted({*object.__dir__(self), *names, *self.__dict__.get("_settings", ())})

    def _check_own(self, name):
        if "_inside" in self.__dict__ or "_inside" in getattr(self, name).__dict__:
            raise TypeError(f"{self._at(name)} is a part of a layer of C++, whose forward() would go on "
                            "with it; assign its parameters, or write a module of your own")

    def _clear(self, name):
        """Takes a member out; whether there was one."""
        if self._kind_of(name) == "module":
            self._check_own(name)
            del self.__dict__[name]
        self.__dict__.get("_tensors", {}).pop(name, None)
        return self._remove(name)

    def _place(self, name, kind, value, persistent=None):
        """Puts a member under a name; after an error all is as it was."""
        if isinstance(value, Module) and "_inside" in value.__dict__:
            raise TypeError(f"{self._at(name)} got a part of a {value._inside}, which runs there, in C++, and has no "
                            "forward() of its own; give the whole")
        member = self._member(name)
        if not member and hasattr(type(self), name):
            raise _ValueError(f"{self._at(name)} is an attribute of the class; choose another name")
        other = member and (member[0] != kind or persistent not in (None, member[2]))
        if other:
            self._clear(name)
        elif member and kind == "module":
            self._check_own(name)
        try:
            if other and self._member(name):
                raise TypeError(f"{self._at(name)} is a {member[0]} of a layer of C++; it stays as it is")
            if kind == "module":
                self._set_child(name, value)
            else:
                self._set_tensor(name, kind, value, persistent is not False)
        except Exception:
            if other and member[0] != "module":
                self._set_tensor(name, *member)
            raise
        self.__dict__.pop(name, None)
        (self.__dict__ if kind == "module" else self.__dict__.setdefault("_tensors", {}))[name] = value

    def register_parameter(self, name, param):
        """Adds a parameter; None where there is none."""
        _check(f"[register_parameter] '{name}'", "parameter", param)
        self._place(name, "parameter", param)

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a buffer: saved (if persistent) and moved, but not trained."""
        _check(f"[register_buffer] '{name}'", "buffer", tensor)
        self._place(name, "buffer", tensor, bool(persistent))

    def add_module(self, name, module):
        """Adds a module; None where there is none."""
        _check(f"[add_module] '{name}'", "module", module)
        setattr(self, name, module)

    register_module = add_module

    # ---- Members -----------------------------------------------------------------------------------------------------

    def _of_kind(self, kind):
        return [name for name, member in self._members().items() if member[0] == kind]

    def named_children(self):
        """The modules of this one with their names."""
        found = {}
        for name in self._of_kind("module"):
            found.setdefault(id(getattr(self, name)), (name, getattr(self, name)))
        return _Listed(found.values())

    def children(self):
        return _Listed(child for _, child in self.named_children())

    def _walk(self, prefix, seen):
        if seen is None or id(self) not in seen:
            if seen is not None:
                seen.add(id(self))
            yield prefix, self
            for name in self._of_kind("module"):
                yield from getattr(self, name)._walk(f"{prefix}.{name}".lstrip("."), seen)

    def named_modules(self, prefix="", remove_duplicate=True):
        """This module and all below it with their paths, each once."""
        return _Listed(self._walk(prefix, set() if remove_duplicate else None))

    def modules(self):
        return _Listed(module for _, module in self.named_modules())

    def _named_tensors(self, kind, prefix, recurse, once):
        seen, found = set(), _Listed()
        for path, module in self.named_modules(prefix, once) if recurse else [(prefix, self)]:
            for name, member in module._members().items():
                if member[0] == kind and member[1] is not None and not (once and hash(member[1]) in seen):
                    seen.add(hash(member[1]))
                    found.append((f"{path}.{name}".lstrip("."), module._tensor(name, *member)))
        return found

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Pairs of a path and a parameter, each tensor once."""
        return self._named_tensors("parameter", prefix, recurse, remove_duplicate)

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Pairs of a path and a buffer, each tensor once."""
        return self._named_tensors("buffer", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """The parameters, each once: a list that next() goes through as well."""
        return _Listed(tensor for _, tensor in self.named_parameters(recurse=recurse))

    def buffers(self, recurse=True):
        return _Listed(tensor for _, tensor in self.named_buffers(recurse=recurse))

    def _get_of(self, kind, target):
        module, (*path, name) = self, target.split(".")
        for part in path:
            module = module._get_of("module", part)
        if module._kind_of(name) != kind:
            raise AttributeError(f"[get_{kind}] '{target}' is no {kind}; {type(module).__name__} has "
                                 f"{', '.join(module._of_kind(kind)) or 'none'}")
        return getattr(module, name)

    get_parameter, get_buffer = _partialmethod(_get_of, "parameter"), _partialmethod(_get_of, "buffer")

    def get_submodule(self, target):
        """The module of this path ("body.0")."""
        return self._get_of("module", target) if target else self

    def get(self, path):
        """The parameter or buffer of this path ("in.weight")."""
        self._get(path)
        owner, _, name = path.rpartition(".")
        return getattr(self.get_submodule(owner), name)

    # ---- Changing all of it ----------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict, strict=True):
        """Copies values in, of tensors and arrays. Gives the names of what is missing and unexpected, which unless
        strict=False are errors."""
        return _LoadReport(*self._load(dict(state_dict), strict))

    def train(self, mode=True):
        """Training or evaluation mode, for all modules below."""
        self.training = bool(mode)
        for child in self.children():
            child.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def apply(self, fn):
        """fn(module) for all modules below, then for this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args, device=None, dtype=None, non_blocking=False):
        """to(device), to(dtype), to(device, dtype), to(tensor): moves everything to a device, what is floating to a
        dtype. Optimizers made before stay valid."""
        self._to(*args, device, dtype)
        return self

    cpu = _partialmethod(to, "cpu")

    def cuda(self, device=None):
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    float, double, half, bfloat16 = map(_partialmethod, (to,) * 4, (f32, f64, f16, bf16))

    def requires_grad_(self, requires_grad=True):
        """Whether the parameters are trained."""
        self._requires_grad_(requires_grad)
        return self

    # ---- Calls -----------------------------------------------------------------------------------------------------

    def forward(self, *inputs):
        inside = self.__dict__.get("_inside")
        raise NotImplementedError(f"[{type(self).__name__}] it has no forward(); " + (
            f"it runs inside of {inside}" if inside else "define forward(self, x)"))

    def __call__(self, *args, **more):
        hooks = self.__dict__
        if "_forward_hooks" not in hooks and "_forward_pre_hooks" not in hooks:
            return self.forward(*args, **more)
        for hook, named in list(hooks.get("_forward_pre_hooks", {}).values()):
            given = hook(self, args, more) if named else hook(self, args)
            if given is not None and named:
                args, more = given
            elif given is not None:
                args = given if isinstance(given, tuple) else (given,)
        result = self.forward(*args, **more)
        for hook, named in list(hooks.get("_forward_hooks", {}).values()):
            given = hook(self, args, more, result) if named else hook(self, args, result)
            result = result if given is None else given
        return result

    def _hook(self, kind, hook, prepend, with_kwargs):
        if not callable(hook):
            raise TypeError(f"[register_{kind[1:-1]}] got a {type(hook).__name__}; a function is wanted")
        if self.__dict__.get("_inside"):
            raise TypeError(f"[register_{kind[1:-1]}] this module runs inside of {self._inside}, in C++, which calls "
                            "no hooks of Python's; register one on the whole")
        hooks = self.__dict__.setdefault(kind, _OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle] = hook, with_kwargs
        if prepend:
            hooks.move_to_end(handle, last=False)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) is called before forward(); what it gives, if anything, takes the place of args."""
        return self._hook("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args, output) is called after forward(); what it gives, if anything, takes output's place."""
        return self._hook("_forward_hooks", hook, prepend, with_kwargs)

    # ---- Text ------------------------------------------------------------------------------------------------------

    def extra_repr(self):
        return _re.sub(r"\b(true|false)\b", lambda word: word[0].title(), self._describe())

    def __repr__(self):
        name = self._kind() if "_inside" in self.__dict__ else type(self).__name__
        parts = [f"  ({key}): " + repr(getattr(self, key)).replace("\n", "\n  ") for key in self._of_kind("module")]
        return f"{name}({self.extra_repr()}" + "".join("\n" + part for part in parts) + ("\n)" if parts else ")")

    # ---- Copies ----------------------------------------------------------------------------------------------------

    def _state(self):
        """Mode, tensors and modules; of a module that C++ has made, its own state."""
        tensors, modules = {}, {}
        for name, (kind, tensor, persistent) in self._members().items():
            if kind == "module":
                child = getattr(self, name)
                modules[name] = child._state() if "_inside" in child.__dict__ else child
            else:
                tensor = tensor if tensor is None else _named(Parameter if kind == "parameter" else _Member, tensor)
                tensors[name] = kind, tensor, persistent
        return self.training, tensors, modules

    def _restore(self, state):
        self.training, tensors, modules = state
        for name, (kind, tensor, persistent) in tensors.items():
            self._set_tensor(name, kind, tensor, persistent)
            if isinstance(tensor, (Parameter, Buffer)):
                self.__dict__.setdefault("_tensors", {})[name] = tensor
        for name, module in modules.items():
            if isinstance(module, Module):
                self._place(name, "module", module)
            else:
                getattr(self, name)._restore(module)

    def __getstate__(self):
        return dict(self.__dict__)

    def __setstate__(self, state):
        inner, attributes = state if isinstance(state, tuple) else (None, state)
        self.__dict__.update(attributes or {})
        inner and self._restore(inner)

    def __reduce_ex__(self, protocol):
        cls = type(self)
        made = self.__dict__.get("_made")
        if "_inside" in self.__dict__ or made is None and _bound_class(cls) is not Module:
            raise TypeError(f"[{cls.__name__}] only a module that a call of its class has made can be copied; this one "
                            "is a part of what C++ has made: copy the whole, or its state_dict()")
        args, named = made or ((), {})
        attributes, inner = self.__getstate__(), {"_tensors", "_inside", *self._of_kind("module")}
        if isinstance(attributes, dict):
            attributes = {name: value for name, value in attributes.items() if name not in inner}
        if cls.__setstate__ is not Module.__setstate__:  # it gets what its own __getstate__ gave
            return _rebuilt, (cls, args, named, self._state()), attributes
        return _rebuilt, (cls, args, named), (self._state(), attributes)


def _bound_class(cls):
    """The class of C++ that a class is derived from."""
    return next(base for base in cls.__mro__ if base.__module__.startswith(_core.__name__))


def _rebuilt(cls, args, named, state=None):
    """A module as it was made, without draws, and then with its values."""
    module = cls.__new__(cls)
    _nn._without_draws(lambda: _bound_class(cls).__init__(module, *args, **named))
    state and module._restore(state)
    return module


for _name, _value in vars(_Module).items():
    if _name not in ("__module__", "__dict__", "__weakref__", "__doc__"):
        setattr(Module, _name, _value)


def _attend(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, is_causal=False):
    """(output, weights): the weights [B, Tq, Tk] are averaged over the heads, and None without need_weights, which saves the
    whole matrix. As in PyTorch, True in a mask of bools is: not this key."""
    masks = {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask, "is_causal": is_causal}
    if need_weights:
        return self.forward_with_weights(query, key, value, **masks)
    return self._forward(query, key, value, **masks), None


_attend.__name__ = _attend.__qualname__ = "forward"
_nn.MultiheadAttention.forward = _attend


# ---- Containers ----------------------------------------------------------------------------------------------------


class _Container(Module):
    """Members of a kind."""

    _holds = "module"

    def _put(self, name, value):
        value = Parameter(value) if self._holds == "parameter" and not isinstance(value, Parameter) else value
        _check(self._at(name), self._holds, "None" if value is None else value)
        setattr(self, name, value)

    def _names(self):
        return self._of_kind(self._holds)

    def _items(self):
        return [getattr(self, name) for name in self._names()]

    def __len__(self):
        return len(self._names())


class _Numbered(_Container):
    """Members by number."""

    def __init__(self, values=()):
        super().__init__()
        self.extend(values)

    def _fill(self, values):
        for name in self._names():
            delattr(self, name)
        return self.extend(values)

    def append(self, value):
        self._put(str(len(self)), value)
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def insert(self, index, value):
        *values, value = self.append(value)
        values.insert(index, value)
        return self._fill(values)

    pop = _MutableSequence.pop

    def __iter__(self):
        return iter(self._items())

    def __contains__(self, value):
        return any(one is value for one in self)

    def __getitem__(self, index):
        values = self._items()[index]
        return type(self)(values) if isinstance(index, slice) else values

    def __setitem__(self, index, value):
        self._put(self._names()[_operator.index(index)], value)

    def __delitem__(self, index):
        values = self._items()
        del values[index]
        self._fill(values)


class ModuleList(_Numbered):
    """Modules by number, which the owner's forward() goes through."""


class ParameterList(_Numbered):
    """Parameters by number. A tensor is made one."""

    _holds = "parameter"


class Lambda(Module):
    """A function of tensors as a module."""

    def __init__(self, function):
        super().__init__()
        if not callable(function):
            raise TypeError(f"[Lambda] got a {type(function).__name__}; a function is wanted")
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)

    def extra_repr(self):
        return getattr(self.function, "__name__", repr(self.function))


class Sequential(_Numbered):
    """Modules, or functions of a tensor, one after the other; a dict gives them names."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], dict) else dict(enumerate(modules))
        for name, module in named.items():
            self._put(str(name), module)

    def _put(self, name, value):
        super()._put(name, value if isinstance(value, Module) or not callable(value) else Lambda(value))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)({name: getattr(self, name) for name in self._names()[index]})
        return super().__getitem__(index)

    def forward(self, x):
        for module in self:
            x = module(x)
        return x


class _ByName(_Container):
    """Members by name."""

    def __init__(self, values=()):
        super().__init__()
        self.update(values)

    def __getitem__(self, name):
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __delitem__(self, name):
        self[name]
        delattr(self, name)

    def __iter__(self):
        return iter(self._names())

    def __contains__(self, name):
        return name in self._names()

    __setitem__, pop, keys, values = _Container._put, _MutableMapping.pop, _MutableMapping.keys, _MutableMapping.values
    items, update, popitem = _MutableMapping.items, _MutableMapping.update, _MutableMapping.popitem
    clear = _MutableMapping.clear


class ModuleDict(_ByName):
    """Modules by name."""


class ParameterDict(_ByName):
    """Parameters by name. A tensor is made one."""

    _holds = "parameter"
