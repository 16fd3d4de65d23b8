# SPDX-License-Identifier: Apache-2.0
"""Loops over job.steps that are left before their last step end well: on all workers, on one, by stop and by break."""

import pathlib
import sys
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

torch: Any = pytest.importorskip("torch")

from tarry.hub import blob  # noqa: E402
from tarry.hub.leaving import Leaving  # noqa: E402

SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "leaving")
AT, STEPS = 7, 20


def steps_of(file: pathlib.Path) -> int:
    return int(blob.metadata(file.read_bytes())["steps"])


def leave(how: str, file: pathlib.Path, *arguments: object, workers: int = 3) -> dict[int, tuple[int, str]]:
    """What each worker has at its end: steps, and its weights."""
    lines = [
        line.split(maxsplit=3) for line in runs.succeed(SCRIPT, how, *arguments, "--checkpoint", file, workers=workers)
    ]
    ends = {int(words[1]): (int(words[2]), words[3]) for words in lines if words[0] == "end"}
    assert ends.keys() == set(range(workers)), lines
    return ends


@pytest.mark.parametrize(
    ("how", "steps", "options"),
    [
        ("break", AT + 1, ()),
        ("break", AT + 1, ("--sum", "server")),
        ("inside", AT, ("--engine", "gloo")),
        ("walk", AT + 1, ()),
        ("phases", STEPS, ()),
    ],
)
def test_all_break_and_one_is_held_up(
    how: str, steps: int, options: tuple[object, ...], tmp_path: pathlib.Path
) -> None:
    """It has not made the step at which the others left, and it ends with their state. (`walk` holds no worker up.)"""
    file = tmp_path / "run.ckpt"
    ends = leave(how, file, "--held", 1, *options)
    assert {end[0] for end in ends.values()} == {steps}
    assert len(set(ends.values())) == 1
    assert steps_of(file) == steps


@pytest.mark.parametrize(("who", "options"), [(0, ("--sum", "server")), (2, ("--local",))])
def test_stop_ends_all_at_the_same_step(who: int, options: tuple[object, ...], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    ends = leave("stop", file, "--who", who, "--held", 1, "--steps", 100_000, *options)
    assert len(set(ends.values())) == 1
    steps = ends[0][0]
    # The step in progress is the last one; a worker that the machine holds up is behind it.
    assert AT + 1 <= steps < 100_000 and steps_of(file) == steps


def test_a_worker_that_leaves_alone_stops_nobody(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    ends = leave("break", file, "--who", 1)
    assert ends[0] == ends[2] and ends[0][0] == steps_of(file) == STEPS
    assert ends[1][0] < STEPS


# ---- who is waited for ----


def test_all_that_are_there_have_left() -> None:
    leaving = Leaving()
    leaving.leave(0, 8)
    assert not leaving.is_over({0, 1, 2}) and leaving.is_over({0})
    leaving.leave(1, 8)
    assert not leaving.is_over({0, 1, 2}) and leaving.is_over({0, 1}) and not leaving.is_over(set())
    assert leaving.may_follow(2, 8, {0, 1, 2})
    assert leaving.is_over({0, 1, 2})
    leaving.go_on(2, 8)
    assert not leaving.is_over({0, 1, 2}) and leaving.others_go_on(8, 8)


def test_only_a_worker_with_the_same_state_follows() -> None:
    leaving = Leaving()
    leaving.leave(0, 8)
    assert not leaving.may_follow(1, 7, {0, 1})  # it makes the step that 0 has made, and decides by itself
    assert not leaving.may_follow(1, 9, {0, 1})
    assert not leaving.may_follow(1, 8, {1})  # worker 0 is gone
    assert not leaving.is_over({0, 1})


def test_others_go_on_if_a_step_is_made_or_begun() -> None:
    leaving = Leaving()
    leaving.leave(0, 8)
    leaving.go_on(1, 7)
    assert not leaving.others_go_on(8, 8) and leaving.others_go_on(8, 9)
    leaving.go_on(1, 8)
    assert leaving.others_go_on(8, 8)
    leaving.forget(1)
    assert not leaving.others_go_on(8, 8)
