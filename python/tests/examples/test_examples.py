# SPDX-License-Identifier: Apache-2.0
"""Each of the examples trains beside a straggler, and its loss falls. Here they are shorter than by themselves."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits", ["--epochs", "2"]),
        ("gpt", ["--steps", "40", "--batch", "32"]),
        ("resnet", ["--steps", "10", "--width", "8"]),
    ],
)
def test_it_trains(name: str, options: list[str], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    done = subprocess.run(
        [sys.executable, "-m", "tarry.run", "-n", "2", "--straggler", "slow:1,3",
         str(EXAMPLES / f"{name}.py"), *options, "--checkpoint", str(file)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for loss in re.findall(r"^\[0\] step \d+: loss ([\d.]+)", done.stdout, re.M)]
    assert len(losses) > 1 and losses[-1] < losses[0], done.stdout
    assert not re.search(r"^\[1\]", done.stdout, re.M), done.stdout  # the first worker speaks for all
    assert file.exists()


def test_digests_agree() -> None:
    subprocess.run([sys.executable, EXAMPLES / "numpy_vectors.py"], check=True, timeout=60)


def test_the_examples_are_all_tried() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {"digits", "gpt", "numpy_vectors", "resnet"}
