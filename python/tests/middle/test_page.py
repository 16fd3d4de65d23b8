# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: its examples, one after the other, print what it says."""

import pathlib
import re
import subprocess
import sys

import pytest

import tarry

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "python.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples_print_what_the_page_says(tmp_path: pathlib.Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert [kind for kind, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    assert len(blocks) >= 10
    program = "\n".join(text for kind, text in blocks if kind == "python")
    (tmp_path / "page.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    # Numbers are set apart by one space, however wide NumPy makes them.
    said, told = (
        re.sub(r" +", " ", text.replace("[ ", "["))
        for text in (ended.stdout, "".join(b for k, b in blocks if k == "text"))
    )
    assert said == told


@pytest.mark.parametrize("name", sorted(tarry.ServerSettings.__annotations__))
def test_each_setting_is_on_the_page_and_in_the_docstring(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()
    assert name in (tarry.ServerSettings.__doc__ or "")
