"""first_page.py runs under PyTorch, and unchanged but for its imports under the package; what it prints is the same."""
import contextlib
import io
import pathlib
import re

import pytest

TEXT = (pathlib.Path(__file__).parent / "first_page.py").read_text()
CELLS = dict(re.findall(r"^# %% (.*)\n((?:(?!# %%).*\n)*)", TEXT, re.M))
REPLACED = [(r"^import torch$", "import cotangent as torch"), (r"^import torch\.(.*) as ", r"import cotangent.\1 as "),
            (r"^from torch\.utils\.data ", "from cotangent.data "), (r"^from torch(\.[\w.]+)? import", r"from cotangent\1 import")]
# Differences by design: a shape is a tuple, a dtype and a report have a text of their own, a layer prints its sizes
# shorter.
THEIRS = [(r"torch\.Size\(\[(\d+)\]\)", r"(\1,)"), (r"torch\.Size\(\[(.*?)\]\)", r"(\1)"), (r"torch\.float32", "cotangent.f32"),
          (r"<All keys matched successfully>", "LoadReport(missing_keys=[], unexpected_keys=[])"),
          (r"in_features=(\d+), out_features=(\d+)", r"in=\1, out=\2")]


def substituted(text, pairs):
    for pattern, other in pairs:
        text = re.sub(pattern, other, text, flags=re.M)
    return text


def printed(cell, name):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(cell, name, "exec"), {"__name__": "__main__"})
    return out.getvalue()


def test_the_page_has_28_cells():
    assert len(CELLS) == 28


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_runs_unchanged_but_for_its_imports(name):
    pytest.importorskip("torch")
    found = printed(substituted(CELLS[name], REPLACED), name)
    assert found == substituted(printed(CELLS[name], name), THEIRS)
