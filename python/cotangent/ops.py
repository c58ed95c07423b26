"""Every op of the registry as a function, made when the package is loaded: an op that is new is there by itself."""
import ctypes as _ctypes

from . import _core
from ._functions import function_of as _function_of


def _refresh():
    names = [op.name for op in _core.registry() if op.name not in globals()]
    globals().update((op.name, _function_of(op)) for op in _core.registry() if op.name in names)
    return names


def load_library(path):
    """Loads a shared library that registers ops (ct::register_op), as functions of this module and the package.

    Gives the names of the ops that are new. Throws IoError where it can't be loaded.
    """
    import cotangent
    try:
        _ctypes.CDLL(path, mode=_ctypes.RTLD_LOCAL)
    except OSError as error:
        raise _core.IoError(f"[load_library] {error}; a shared library linked with Cotangent's is wanted") from None
    names = _refresh()
    cotangent._publish()
    return names


_refresh()
