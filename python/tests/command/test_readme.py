# SPDX-License-Identifier: Apache-2.0
"""The README's PyTorch section is a promise."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

README = pathlib.Path(__file__).resolve().parents[3] / "README.md"


@pytest.mark.timeout(240)
def test_the_first_script_trains_beside_a_straggler(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    script, command = re.findall(
        r"^```(?:python)?\n(.*?)^```", README.read_text().split("## With PyTorch")[1], re.S | re.M
    )[:2]
    (tmp_path / "train.py").write_text(script)
    words = command.splitlines()[-1].split()
    assert words[:2] == ["venv/bin/tarry", "run"]
    done = subprocess.run(
        [sys.executable, "-m", "tarry", *words[1:]],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"^\[0\] \d+ (\d\S*)$", done.stdout, re.M)]
    assert losses[-1] < losses[0] / 2, done.stdout
