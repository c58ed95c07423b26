"""Files: safetensors (what load() and save() read and write), npy and npz."""
import json as _json
import os as _os
from collections.abc import Mapping as _Mapping
from typing import Any

from ._core import IoError as _IoError
from . import _core
from ._core import _io
from ._core._io import load_npy, load_npz, save_npy

__all__ = ["load", "load_npy", "load_npz", "save", "save_npy"]

_TREE = "python.tree"  # of a file that is no flat dict: where its entries go, as JSON


def _flatten(value: Any, name: str, flat: dict[str, Any]) -> Any:
    inner = name + "." if name else ""
    if isinstance(value, _Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"[save] the key {key!r} is a {type(key).__name__}; names of a file are str: str(key)")
        return {key: _flatten(one, inner + key, flat) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_flatten(one, f"{inner}{i}", flat) for i, one in enumerate(value)]
    if value is None:
        return None
    if hasattr(value, "state_dict"):
        raise TypeError(f"[save] {name or 'the object'} is a {type(value).__name__}; save its state_dict()")
    name = name or "tensor"
    if name in flat or name == _TREE:
        raise _core.ValueError(f"[save] two entries would have the name {name!r}; rename one")
    flat[name] = value
    return name


class _Missing(_IoError, FileNotFoundError):
    """No file of that name, as Python's open() says it."""


def save(obj: Any, path: Any) -> None:
    """Writes a state_dict, a tensor, or dicts and lists of such, as safetensors; all of the file, or none.

    {"model": model.state_dict(), "optimizer": .., "epoch": 3} is written with names that are joined by ".", and load()
    gives it back. Tuples come back as lists. Other programs read the tensors. save(path, obj) is the same.
    """
    if isinstance(obj, (str, _os.PathLike)) and not isinstance(path, (str, _os.PathLike)):
        obj, path = path, obj
    flat: dict[str, Any] = {}
    tree = _flatten(obj, "", flat)
    if tree != {name: name for name in flat}:
        flat[_TREE] = _json.dumps(tree)
    _io.save(path, flat)


def load(path: Any, map_location: Any = None, weights_only: bool = True) -> Any:
    """Reads what save(), or another program, wrote as safetensors: tensors on the CPU, or on the device map_location.

    Throws IoError for a file that is missing, damaged or malformed. No file runs code: weights_only is always so.
    """
    try:
        flat = _io.load(path)
    except _IoError as error:
        raise (error if _os.path.exists(path) else _Missing(str(error))) from None
    tree = flat.pop(_TREE, None)
    if map_location is not None:
        flat = {name: one.to(map_location) if isinstance(one, _core.Tensor) else one for name, one in flat.items()}

    def build(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: build(one) for key, one in node.items()}
        return [build(one) for one in node] if isinstance(node, list) else None if node is None else flat[node]

    return flat if tree is None else build(_json.loads(tree))
