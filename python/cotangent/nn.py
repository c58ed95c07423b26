"""Modules: the library's layers, and what a program's own are made with.

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(784, 10)

        def forward(self, x):
            return self.fc(x)

Names of parameters are those of PyTorch's modules. What a module's attributes are is what is trained, saved and moved:
an assignment registers or replaces, or it is an error.
"""
import itertools as _itertools
import operator as _operator
import re as _re
import sys as _sys
import weakref as _weakref
from collections import namedtuple as _namedtuple
from collections.abc import MutableMapping as _MutableMapping
from functools import partialmethod as _partialmethod

from . import functional
from ._core import Tensor, _nn, bf16, f16, f32, f64
from ._core import ValueError as _ValueError
from ._core._nn import *  # noqa: F403  the layers
from ._core import _init as init
from ._core._nn import Module, utils

__all__ = [name for name in vars(_nn) if not name.startswith("_")] + [
    "Parameter", "Buffer", "Lambda", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
    ]

for _part in (init, utils, functional):  # `import cotangent.nn.functional as F` finds them
    _sys.modules[f"{__name__}.{_part.__name__.rpartition('.')[2].strip('_')}"] = _part
init.calculate_gain = init.gain
_known = _weakref.WeakValueDictionary()  # tensors of modules as Python's objects, one for each


def _named(cls, tensor):
    """The object of this class that stands for a tensor: the same one as long as it lives."""
    found = _known.get(_nn._key(tensor))
    if found is None or _nn._key(found) != _nn._key(tensor):
        found = _known[_nn._key(tensor)] = _nn._as(cls, tensor)
    return found


def _remade(cls, tensor, requires_grad, more):
    made = cls(tensor, **more)
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

    def _more(self):
        return {}

    def __copy__(self):
        return _remade(type(self), self, self.requires_grad, self._more())

    def __deepcopy__(self, memo):
        made = _remade(type(self), self.detach().clone(), self.requires_grad, self._more())
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        return _remade, (type(self), self.detach(), self.requires_grad, self._more()), self.__dict__ or None

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

    def _more(self):
        return {"persistent": getattr(self, "persistent", True)}


class _Listed(list):
    """A list that next() goes through as well."""

    _at = 0

    def __next__(self):
        if self._at >= len(self):
            raise StopIteration
        self._at += 1
        return self[self._at - 1]

    def __iter__(self):
        return _itertools.islice(list.__iter__(self), self._at, None)


class RemovableHandle:
    """A hook that was registered; remove() takes it away, and so does the end of a `with`."""

    def __init__(self, hooks):
        self._hooks = hooks

    def remove(self):
        self._hooks.pop(self, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


_LoadReport = _namedtuple("LoadReport", ["missing_keys", "unexpected_keys"])


def _join(path, name):
    return f"{path}.{name}" if path else name


class _Module:
    """What Python adds to the modules of C++: attributes, walks, hooks, copies."""

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
            more = "it has " + (", ".join(_itertools.chain(self._members(), settings)) or "no members")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'; {more}")

    def _at(self, name):
        return f"[{type(self).__name__}] '{name}'"

    def _tensor(self, name, kind, tensor, _):
        kept = self.__dict__.setdefault("_tensors", {})
        if tensor is None:
            kept.pop(name, None)
            return None
        found = kept.get(name)
        if found is None or _nn._key(found) != _nn._key(tensor):
            found = _named(Parameter, tensor) if kind == "parameter" else _known.get(_nn._key(tensor), tensor)
            kept[name] = found
        return found

    def _inner(self, name):
        """A module that C++ has made: a handle to it."""
        handle = self._child(name)
        handle.__dict__["_inside"] = type(self).__name__
        self.__dict__[name] = handle
        return handle

    def __setattr__(self, name, value):
        kind = (self._member(name) or (None,))[0]
        if kind is None and isinstance(value, (Module, _Member)) and not _nn._is_ready(self):
            raise AttributeError(f"{self._at(name)} is assigned before super().__init__() was called; call it first")
        if hasattr(getattr(type(self), name, None), "__set__"):
            return object.__setattr__(self, name, value)
        if kind is None and name in self.__dict__.get("_settings", ()):
            raise AttributeError(f"{self._at(name)} is a setting, read when the module is made; make another module")
        if kind == "parameter" and value is not None and not isinstance(value, Parameter):
            raise TypeError(f"{self._at(name)} is a parameter, and got a {type(value).__name__}; assign "
                            "nn.Parameter(...) or None, or write into it by .copy_() under no_grad()")
        if isinstance(value, Parameter):
            self._place(name, "parameter", value)
        elif isinstance(value, Module):
            self._place_module(name, value)
        elif isinstance(value, Buffer) or (kind == "buffer" and isinstance(value, Tensor)):
            self._place(name, "buffer", value, getattr(value, "persistent", None))
        elif kind is not None and value is None:
            self._place(name, kind, None) if kind != "module" else self._clear(name)
        elif kind is not None:
            wanted = "an nn.Module" if kind == "module" else "a Tensor"
            raise TypeError(f"{self._at(name)} is a {kind}, and got a {type(value).__name__}; {wanted} or None is "
                            "wanted")
        else:
            object.__setattr__(self, name, value)
        if kind == "module" and value is None:
            object.__setattr__(self, name, None)

    def __delattr__(self, name):
        if name in self.__dict__.get("_settings", ()) and not self._member(name):
            raise AttributeError(f"{self._at(name)} is a setting; it can't be deleted")
        if not (self._member(name) and self._clear(name)):
            object.__delattr__(self, name)

    def __dir__(self):
        names = self._members() if _nn._is_ready(self) else ()
        return sorted({*object.__dir__(self), *names, *self.__dict__.get("_settings", ())})

    def _check_new(self, name):
        if hasattr(type(self), name):
            raise _ValueError(f"{self._at(name)} is an attribute of the class; choose another name")

    def _check_own(self, name):
        owner = self.__dict__.get("_inside")
        inside = getattr(self.__dict__.get(name), "__dict__", {}).get("_inside")
        if owner or inside or (self._member(name) or ("",))[0] == "module" and name not in self.__dict__:
            raise TypeError(f"{self._at(name)} is a part of a layer of C++, whose forward() would go on "
                            "with it; assign its parameters, or write a module of your own")

    def _clear(self, name):
        """Takes a member out; whether there was one."""
        kind = (self._member(name) or (None,))[0]
        if kind == "module":
            self._check_own(name)
            del self.__dict__[name]
        self.__dict__.get("_tensors", {}).pop(name, None)
        return self._remove(name)

    def _replace(self, name, member, put, *given):
        """Puts another kind of member under a name; after an error all is as it was."""
        self._clear(name)
        try:
            if self._member(name):
                raise TypeError(f"{self._at(name)} is a {member[0]} of a layer of C++; it stays as it is")
            put(name, *given)
        except Exception:
            if member[0] != "module":
                self._set_tensor(name, *member)
            raise

    def _place(self, name, kind, tensor, persistent=None):
        member = self._member(name)
        given = kind, tensor, persistent is not False
        if member and (member[0] != kind or persistent not in (None, member[2])):
            self._replace(name, member, self._set_tensor, *given)
        else:
            member or self._check_new(name)
            self._set_tensor(name, *given)
        self.__dict__.pop(name, None)
        self.__dict__.setdefault("_tensors", {})[name] = tensor

    def _place_module(self, name, module):
        if "_inside" in module.__dict__:
            raise TypeError(f"{self._at(name)} got a part of a {module._inside}, which runs there, in C++, and has no "
                            "forward() of its own; give the whole")
        member = self._member(name)
        if member and member[0] != "module":
            self._replace(name, member, self._set_child, module)
        else:
            self._check_own(name) if member else self._check_new(name)
            self._set_child(name, module)
        object.__setattr__(self, name, module)

    def register_parameter(self, name, param):
        """Adds a parameter; None where there is none."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"[register_parameter] '{name}' is a {type(param).__name__}; an nn.Parameter or None is "
                            "wanted")
        self._place(name, "parameter", param)

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a buffer: saved (if persistent) and moved, but not trained."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"[register_buffer] '{name}' is a {type(tensor).__name__}; a Tensor or None is wanted")
        self._place(name, "buffer", tensor, bool(persistent))

    def add_module(self, name, module):
        """Adds a module; None where there is none."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"[add_module] '{name}' is a {type(module).__name__}; an nn.Module or None is wanted")
        setattr(self, name, module)

    register_module = add_module

    # ---- What there is ---------------------------------------------------------------------------------------------

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
                yield from getattr(self, name)._walk(_join(prefix, name), seen)

    def named_modules(self, prefix="", remove_duplicate=True):
        """This module and all below it with their paths, each once."""
        return _Listed(self._walk(prefix, set() if remove_duplicate else None))

    def modules(self):
        return _Listed(module for _, module in self.named_modules())

    def _named_tensors(self, kind, prefix, recurse, once):
        seen, found = set(), _Listed()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else [(prefix, self)]:
            for name, member in module._members().items():
                if member[0] != kind or member[1] is None or once and _nn._key(member[1]) in seen:
                    continue
                seen.add(_nn._key(member[1]))
                found.append((_join(path, name), module._tensor(name, *member)))
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

    def get_submodule(self, target):
        """The module of this path ("body.0")."""
        module = self
        for name in target.split(".") if target else ():
            if (module._member(name) or ("",))[0] != "module":
                raise AttributeError(f"[get_submodule] there is no module '{name}' on the path '{target}'; "
                                     f"{type(module).__name__} has {', '.join(module._of_kind('module')) or 'none'}")
            module = getattr(module, name)
        return module

    def get(self, path):
        """The parameter or buffer of this path ("in.weight")."""
        self._get(path)
        owner, _, name = path.rpartition(".")
        module = self.get_submodule(owner)
        return module._tensor(name, *module._member(name))

    def _get_of(self, kind, target):
        owner, _, name = target.rpartition(".")
        module = self.get_submodule(owner)
        if (module._member(name) or ("",))[0] != kind:
            raise AttributeError(f"[get_{kind}] '{target}' is no {kind}; {type(module).__name__} has "
                                 f"{', '.join(module._of_kind(kind)) or 'none'}")
        return module._tensor(name, *module._member(name))

    get_parameter, get_buffer = _partialmethod(_get_of, "parameter"), _partialmethod(_get_of, "buffer")

    # ---- Changing all of it ----------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict, strict=True):
        """Copies values in, of tensors and arrays. Gives the names of what is missing and unexpected, which unless
        strict=False are errors."""
        try:
            return _LoadReport(*self._load(dict(state_dict), strict))
        except _ValueError as error:
            raise type(error)(str(error).replace("{.strict = false}", "strict=False")) from None

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
        hooks = self.__dict__.setdefault(kind, {})
        handle, before = RemovableHandle(hooks), dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[handle] = (hook, with_kwargs)
        hooks.update(before)
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
                self._place_module(name, module)
            else:
                getattr(self, name)._restore(module)

    def __getstate__(self):
        return dict(self.__dict__)

    def __setstate__(self, state):
        state, attributes = state if isinstance(state, tuple) else (None, state)
        self.__dict__.update(attributes or {})
        if state is not None:
            self._restore(state)

    def __reduce_ex__(self, protocol):
        cls = type(self)
        made = self.__dict__.get("_made")
        if "_inside" in self.__dict__ or made is None and _nn._bound_class(cls) is not Module:
            raise TypeError(f"[{cls.__name__}] only a module that a call of its class has made can be copied; this one "
                            "is a part of what C++ has made: copy the whole, or its state_dict()")
        args, named = made or ((), {})
        attributes, inner = self.__getstate__(), {"_tensors", "_inside", *self._of_kind("module")}
        if isinstance(attributes, dict):
            attributes = {name: value for name, value in attributes.items() if name not in inner}
        if cls.__setstate__ is not Module.__setstate__:  # it gets what its own __getstate__ gave
            return _rebuilt, (cls, args, named, self._state()), attributes
        return _rebuilt, (cls, args, named), (self._state(), attributes)


def _rebuilt(cls, args, named, state=None):
    module = _nn._rebuild(cls, args, named)
    if state is not None:
        module._restore(state)
    return module


for _name, _value in vars(_Module).items():
    if _name not in ("__module__", "__dict__", "__weakref__", "__doc__"):
        setattr(Module, _name, _value)


# ---- Containers ----------------------------------------------------------------------------------------------------


class _Numbered(Module):
    """Members of a kind by number."""

    _holds = "module"

    def _made_of(self, value):
        if not isinstance(value, Module):
            raise TypeError(f"[{type(self).__name__}] got a {type(value).__name__}; a module is wanted")
        return value

    def _fill(self, values):
        values = [self._made_of(value) for value in values]
        for name in self._of_kind(self._holds):
            delattr(self, name)
        for i, value in enumerate(values):
            setattr(self, str(i), value)
        return self

    def _items(self):
        return [getattr(self, name) for name in self._of_kind(self._holds)]

    def append(self, value):
        setattr(self, str(len(self)), self._made_of(value))
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def insert(self, index, value):
        values = self._items()
        values.insert(index, value)
        return self._fill(values)

    def pop(self, index=-1):
        value = self[index]
        del self[index]
        return value

    def __len__(self):
        return len(self._of_kind(self._holds))

    def __iter__(self):
        return iter(self._items())

    def __contains__(self, value):
        return any(one is value for one in self._items())

    def __getitem__(self, index):
        values = self._items()[index]
        return type(self)(values) if isinstance(index, slice) else values

    def __setitem__(self, index, value):
        name = self._of_kind(self._holds)[_operator.index(index)]
        setattr(self, name, self._made_of(value))

    def __delitem__(self, index):
        values = self._items()
        del values[index]
        self._fill(values)


class ModuleList(_Numbered):
    """Modules by number, which the owner's forward() goes through."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)


class ParameterList(_Numbered):
    """Parameters by number. A tensor is made one."""

    _holds = "parameter"

    def __init__(self, values=()):
        super().__init__()
        self.extend(values)

    def _made_of(self, value):
        return value if isinstance(value, Parameter) else Parameter(value)


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
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                setattr(self, name, self._made_of(module))
        else:
            self.extend(modules)

    def _made_of(self, value):
        if not isinstance(value, Module) and not callable(value):
            raise TypeError(f"[Sequential] got a {type(value).__name__}; modules and functions are wanted")
        return value if isinstance(value, Module) else Lambda(value)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)({name: getattr(self, name) for name in self._of_kind("module")[index]})
        return super().__getitem__(index)

    def forward(self, x):
        for module in self._items():
            x = module(x)
        return x


class _ByName(Module):
    """Members of a kind by name."""

    def __init__(self, values=()):
        super().__init__()
        self.update(values)

    def __setitem__(self, name, value):
        if self._holds == "parameter":
            self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))
        else:
            self.add_module(name, value)

    def __getitem__(self, name):
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __delitem__(self, name):
        self[name]
        delattr(self, name)

    def __len__(self):
        return len(self._of_kind(self._holds))

    def __iter__(self):
        return iter(self._of_kind(self._holds))

    def __contains__(self, name):
        return name in self._of_kind(self._holds)

    def pop(self, name):
        value = self[name]
        del self[name]
        return value

    keys, values, items = _MutableMapping.keys, _MutableMapping.values, _MutableMapping.items
    update, popitem, clear = _MutableMapping.update, _MutableMapping.popitem, _MutableMapping.clear


class ModuleDict(_ByName):
    """Modules by name."""

    _holds = "module"


class ParameterDict(_ByName):
    """Parameters by name. A tensor is made one."""

    _holds = "parameter"


# ---- Losses --------------------------------------------------------------------------------------------------------
