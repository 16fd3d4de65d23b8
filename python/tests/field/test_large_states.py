# SPDX-License-Identifier: Apache-2.0
"""Trainings whose state takes long to move or to write: checkpoints, the end, a resume, workers that come later."""

import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from conftest import FULL

from tarry.hub import storage

pytest.importorskip("torch")
SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "large")
# Moving 5e7 float32 numbers takes longer than the 50 ms that the package waits in one call.
PARAMETERS = 120_000_000 if FULL else 50_000_000
FACTOR = 1 - 2 * 0.01  # of a step
WORKERS = 2


def ends(lines: list[str], steps: int) -> None:
    """All workers have taken the steps, and have the model after them."""
    told = [line.split() for line in lines if line.startswith("ends ")]
    assert sorted(words[1] for words in told) == [str(worker) for worker in range(WORKERS)], lines
    for _, _, done, *numbers in told:
        assert int(done) == steps
        for number in numbers:
            assert float(number) == pytest.approx(FACTOR**steps, rel=1e-4)


def stored(path: pathlib.Path) -> int:
    """The steps that the checkpoint has."""
    found = storage.read(str(path))
    assert found is not None
    return found.base + found.after.step


def has_no_trouble(errors: str) -> None:
    assert "no checkpoint" not in errors and "not all of" not in errors, errors


def test_a_large_training_stores_takes_a_worker_in_resumes_and_ends(tmp_path: pathlib.Path) -> None:
    """Worker 1 is killed, comes back and gets the state; the run is interrupted; another run resumes from the
    checkpoint, and ends."""
    file = tmp_path / "large.ckpt"
    with runs.running(
        SCRIPT, PARAMETERS, 1000, "--checkpoint", file, workers=WORKERS, options=("--restarts", 1)
    ) as process:
        runs.await_line(process, "step 1 1\n")
        os.kill(runs.workers(process)[1], signal.SIGKILL)
        runs.await_line(process, "begins 1 ")
        runs.await_line(process, "step 1 ")
        runs.await_true("there is no checkpoint", file.exists)
        process.send_signal(signal.SIGINT)  # perhaps in the middle of a transfer
        _, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    has_no_trouble(errors)
    before = stored(file)
    assert before > 0
    steps = before + 2
    ended = runs.run(SCRIPT, PARAMETERS, steps, "--checkpoint", file, "--each", 0, workers=WORKERS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    has_no_trouble(ended.stderr)
    ends([line.partition("] ")[2] for line in ended.stdout.splitlines()], steps)
    assert f"resumed after step {before} " in ended.stderr
    assert stored(file) == steps


def test_a_worker_that_dies_while_it_writes_its_state_costs_no_checkpoint(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "slow.ckpt"
    with runs.running(SCRIPT, 1000, 60, "--checkpoint", file, "--write", 1, "--each", 0.5, workers=WORKERS) as process:
        runs.await_line(process, "step 0 0\n")
        writing = int(runs.await_line(process, "writes ").split()[-1])
        os.kill(writing, signal.SIGKILL)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    has_no_trouble(errors)
    assert f"ends {1 if '[0] ends' not in output else 0} 60 " in output, output + errors
    assert stored(file) == 60


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_an_end_waits_for_states_that_are_written_slowly(tmp_path: pathlib.Path, where: str) -> None:
    """Longer than the limit of silence; and a worker is in its last step meanwhile."""
    file = tmp_path / "slow.ckpt"
    ended = runs.run(
        SCRIPT, 1000, 5, "--checkpoint", file, "--write", 2.5, "--each", 60, "--last", 1, "--sum", where,
        workers=WORKERS, options=("--silence", 1),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    has_no_trouble(ended.stderr)
    ends([line.partition("] ")[2] for line in ended.stdout.splitlines()], 5)
    assert stored(file) == 5
