"""An op of a program's own, compiled against the package and loaded while it runs."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import cotangent as ct

SOURCE = pathlib.Path(__file__).parent / "own_op" / "swish.cpp"


@pytest.fixture(scope="module")
def swish(tmp_path_factory):
    if not shutil.which(os.environ.get("CXX", "c++")):
        pytest.skip("no C++ compiler")
    library = tmp_path_factory.mktemp("op") / "swish.so"
    subprocess.run(ct.compile_command(SOURCE, library), check=True)
    assert ct.load_library(str(library)) == ["swish"]
    assert ct.load_library(str(library)) == []
    return ct.swish


def test_it_is_an_op_as_all_are(swish):
    array = np.linspace(-3, 3, 50, dtype=np.float32)
    x = ct.tensor(array, requires_grad=True)
    y = swish(x, b=1.5)
    s = 1 / (1 + np.exp(-1.5 * array))
    assert np.allclose(y.detach().numpy(), array * s, atol=1e-5) and y.grad_fn == "swish"
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), s + 1.5 * array * s * (1 - s), atol=1e-5)
    assert ct.ops.swish.__doc__.startswith("y = x /") and x.swish(b=1.0).shape == (50,)
    with pytest.raises(TypeError, match="missing a required argument: 'b'"):
        swish(x)
    with pytest.raises(ct.AutogradError, match="nobody has written it down"):
        ct.grad([swish(x, b=1.5).sum()], [x], create_graph=True)


def test_inside_of_pytorch(swish):
    torch = pytest.importorskip("torch")
    from cotangent.torch import function
    x = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: function(swish)(t, b=0.5), (x,))


@pytest.fixture
def folder(tmp_path):
    """The folder that `./ct op new twin` makes."""
    if not shutil.which(os.environ.get("CXX", "c++")):
        pytest.skip("no C++ compiler")
    here = tmp_path / "twin"
    here.mkdir()
    for file in (SOURCE.parents[3] / "examples" / "op" / "template").iterdir():
        (here / file.name).write_text(file.read_text().replace("NAME", "twin"))
    return here


def test_a_folder_is_compiled_loaded_and_checked(folder, tmp_path):
    cache = str(tmp_path / "cache")
    twin = ct.load_op(folder, cache=cache)
    assert twin is ct.twin is ct.ops.twin and twin.loaded.built and not ct.load_op(folder, cache=cache).loaded.built
    x = ct.full(3, 0.5, requires_grad=True)
    x.twin().sum().backward()
    assert np.allclose(x.grad.numpy(), (1 + 0.25) ** -1.5)
    assert ct.testing.check(twin) > 50 and ct.testing.gradcheck(twin, [ct.full((2, 3), 0.5, dtype=ct.f64)])
    source = folder / "op.cpp"
    source.write_text(source.read_text().replace("return x / std::sqrt(", "return 2 * x / std::sqrt("))
    anew = ct.load_op(folder, cache=cache)
    assert anew is ct.twin is not twin and anew.loaded.built
    assert np.allclose(anew(ct.ones(1)).item(), 2 ** 0.5) and np.allclose(twin(ct.ones(1)).item(), 0.5 ** 0.5)
    with pytest.raises(AssertionError, match="sample 0 .* on cpu in f32"):
        ct.testing.check(anew)
    source.write_text("int f( {")
    with pytest.raises(ct.Error, match="op.cpp"):
        ct.load_op(folder, cache=cache)
    with pytest.raises(ct.IoError, match="nowhere"):
        ct.load_op("/nowhere")
    with pytest.raises(ct.IoError, match="compiler"):
        ct.load_op(folder, compiler="no-such-compiler")


def test_sources_and_libraries_that_are_none(tmp_path):
    broken = tmp_path / "broken.cpp"
    broken.write_text("int f( {")
    assert subprocess.run(ct.compile_command(broken, tmp_path / "b.so"), capture_output=True).returncode != 0
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ct.IoError, match="load_library"):
        ct.load_library(str(tmp_path / "text.so"))
