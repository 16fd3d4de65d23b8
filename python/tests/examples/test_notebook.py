# SPDX-License-Identifier: Apache-2.0
"""The notebook's cells run, one after the other, and print what stands in it."""

import contextlib
import io
import json
import pathlib
from typing import Any

import pytest

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "schemes.ipynb"


def test_the_notebook_prints_what_stands_in_it() -> None:
    matplotlib: Any = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = pytest.importorskip("matplotlib.pyplot")
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    pictures = 0
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
        outputs = cell["outputs"]
        assert printed.getvalue() == "".join("".join(one["text"]) for one in outputs if one["output_type"] == "stream")
        shown = sum("image/png" in one["data"] for one in outputs if one["output_type"] == "display_data")
        assert len(pyplot.get_fignums()) == shown
        pictures += shown
        pyplot.close("all")
    assert pictures == 4
