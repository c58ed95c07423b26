"""mypy and pyright accept docs/python.md and the examples in strict mode."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

import cotangent

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(cotangent.__file__).parent


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if not (PACKAGE / "_core" / "__init__.pyi").exists():
        pytest.skip("the package was built without stubs")
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("types")
    blocks = re.findall(r"```python\n(.*?)```", (HERE.parents[1] / "docs" / "python.md").read_text(), re.S)
    (folder / "page.py").write_text("\n".join(blocks))
    for path in (HERE / "typed_example.py", HERE / "own_op" / "train.py"):
        (folder / path.name).write_text(path.read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps(
        {"typeCheckingMode": "strict", "extraPaths": [str(PACKAGE.parent)]}))
    return folder


def checked(module, folder, *arguments):
    pytest.importorskip(module)
    return subprocess.run([sys.executable, "-m", module, *arguments], cwd=folder, capture_output=True, text=True,
                          env={"MYPYPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin", "HOME": str(folder)})


@pytest.mark.parametrize("name", ["page.py", "typed_example.py", "train.py"])
def test_mypy_accepts(programs, name):
    run = checked("mypy", programs, "--strict", "--follow-imports=silent", name)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", ["page.py", "typed_example.py"])
def test_pyright_accepts(programs, name):
    run = checked("basedpyright", programs, "--pythonpath", sys.executable, name)
    assert " error: " not in run.stdout and run.returncode == 0, run.stdout + run.stderr
