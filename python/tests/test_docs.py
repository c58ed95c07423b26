"""Every block of Python of docs/python.md runs, in order."""
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


def test_the_blocks_of_the_page_run_in_order():
    pytest.importorskip("torch")
    names = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(BLOCKS) >= 7 and names["w"].tolist() == [pytest.approx(-0.1), pytest.approx(-0.2)]
