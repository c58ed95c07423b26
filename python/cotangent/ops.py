"""Every op of the registry as a function, made when the package is loaded: an op that is new is there by itself."""
import ctypes as _ctypes

from . import _core
from ._build import include_folder as _include_folder
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


def load_op(path, compiler="", flags="", cache=""):
    """The op of a folder that `./ct op new` has made, compiled if need be: its function, one of this module too.

    A folder that has changed is compiled and loaded anew. What is left out is the library's: compiler, flags, and where
    it keeps what it compiled (nn/plugin/README.md); function.loaded says what came of it. Throws IoError where there is
    no op or no compiler, and Error with the compiler's messages.
    """
    import cotangent
    loaded = _core._load_op(str(path), compiler, flags, cache, _include_folder())
    function = globals()[loaded.op.name] = _function_of(loaded.op)
    function.loaded = loaded
    cotangent._publish()
    return function


_refresh()
