# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate, the real package, over tarry.torch."""

import subprocess
import sys

import pytest
import runs

pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")


def _sums(lines: list[str]) -> set[tuple[float, str]]:
    found = [line.split() for line in lines if line.startswith("sum ")]
    return {(float(words[1]), words[3]) for words in found}


@pytest.mark.parametrize(("precision", "where"), [("no", "everywhere"), ("bf16", "everywhere"), ("no", "server")])
def test_a_training_is_that_of_accelerate_alone(precision: str, where: str) -> None:
    """The step's order of addition apart: clipping, scheduler and precision are Accelerate's."""
    options = ("--straggler", "exp:0.002")
    lines = runs.succeed("accelerated", 12, precision, "--sum", where, workers=2, options=options)
    digests = {line.split()[3] for line in lines if line.startswith("end ")}
    assert len(digests) == 1 and len(lines) == 4, lines
    alone = subprocess.run(
        [sys.executable, str(runs.SCRIPTS / "accelerated.py"), "12", precision, "--alone"],
        env=runs.environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    ((ours, rate),) = _sums(lines)
    ((theirs, wanted_rate),) = _sums(alone.stdout.splitlines())
    assert rate == wanted_rate
    assert ours == pytest.approx(theirs, rel=2e-3 if precision == "bf16" else 1e-5)


def test_an_accelerator_that_sums_itself_is_refused() -> None:
    import torch

    import tarry
    import tarry.torch.accelerate

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accumulating = accelerate.Accelerator(gradient_accumulation_steps=4, cpu=True)
    with pytest.raises(tarry.ArgumentError, match="accumulates 4 steps: leave that at 1"):
        tarry.torch.accelerate.join(accumulating, model, optimizer, data=torch.zeros(8, 2), batch=8, piece=1)

    class Summing:
        num_processes = 3

    with pytest.raises(tarry.ArgumentError, match="sums over 3 processes itself: start the script by"):
        tarry.torch.accelerate.join(Summing(), model, optimizer, data=torch.zeros(8, 2), batch=8, piece=1)
