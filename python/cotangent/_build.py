"""How an op of one's own is compiled against this package."""
import os
from typing import Any

from . import _core

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def include_folder() -> str:
    """The headers: in an installed package beside this file; in a build tree two folders above it."""
    for root in (_FOLDER, os.path.dirname(os.path.dirname(_FOLDER))):
        if os.path.isdir(os.path.join(root, "include", "cotangent")):
            return os.path.join(root, "include")
    raise _core.IoError(f"[compile_command] {_FOLDER} has no headers; install the package with `pip install .`")


def compile_command(source: Any, output: Any, cuda: bool = False) -> list[str]:
    """The command that makes a shared library of a source file that registers ops, for load_library().

    By $CXX, or with `cuda` by nvcc ($NVCC); a list for subprocess.run().
    """
    flags = ["-std=c++20", "-O3", "-shared", f"-I{include_folder()}", str(source), "-o", str(output)]
    library = os.path.realpath(_core.__file__)
    if cuda:
        return [os.environ.get("NVCC", "nvcc"), "-x", "cu", "-arch=native", "--expt-relaxed-constexpr",
                "-Xcompiler=-fPIC,-march=native", *flags, "-Xlinker", library, "-Xlinker", "--exclude-libs=libstdc++.a"]
    return [os.environ.get("CXX", "c++"), "-march=native", "-fPIC", *flags, library, "-Wl,--exclude-libs,libstdc++.a"]
