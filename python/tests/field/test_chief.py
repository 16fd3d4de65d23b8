# SPDX-License-Identifier: Apache-2.0
"""If the chief's script fails, another worker logs and saves; if it fails too late for that, the run fails."""

import pathlib
import sys
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

torch: Any = pytest.importorskip("torch")

from tarry.hub.chief import Chief  # noqa: E402

SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "leaving")


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_another_worker_becomes_the_chief(where: str) -> None:
    ended = runs.run(SCRIPT, "fail", "--who", 0, "--steps", 1_000_000, "--sum", where, workers=3)
    assert ended.returncode == 0, ended.stderr
    words = [line.partition("] ")[2].split() for line in ended.stdout.splitlines()]
    chiefs = [line[1] for line in words if line[0] == "chief"]
    assert chiefs[0] == "0" and chiefs[-1] == "1" and set(chiefs) == {"0", "1"}
    assert [line[1] for line in words if line[0] == "last"] == ["1"]
    assert "[0] RuntimeError: in its loop" in ended.stderr


def test_a_chief_that_fails_at_the_end_fails_the_run() -> None:
    ended = runs.run(SCRIPT, "fail-last", "--who", 0, workers=2)
    assert ended.returncode == 1
    assert "tarry run: worker 0, the chief, failed: what it does last may be missing\n" in ended.stderr
    ended = runs.run(SCRIPT, "fail-last", "--who", 1, workers=2)
    assert ended.returncode == 0, ended.stderr


def test_the_next_chief_is_the_lowest_that_may_come() -> None:
    chief = Chief(4)
    assert chief.find({1}) == 0 and chief.find({0, 1}) == 2
    assert chief.find({1}) == 2  # worker 0 has come back: it is not the chief again
    assert chief.find({1, 2}) == 0
    assert chief.find({0, 1, 2, 3}) == 0  # nobody is left


def test_a_chief_that_has_done_all_steps_stays_it() -> None:
    chief = Chief(3)
    chief.finish(0)
    assert chief.find({0}) == 0
    chief = Chief(3)
    chief.finish(1)
    assert chief.find(set(), asks=1) == 0
    assert chief.find({0}) == 0  # worker 1 has ended, and did not do what the chief does last
