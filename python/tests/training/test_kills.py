# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at times that nobody chose: of one worker after the other, and of everything, again and again."""

import os
import pathlib
import random
import signal
import time

import pytest
import runs
from conftest import LONG, SEED
from test_training import EACH_SUM, assert_survivor, same, worst

pytest.importorskip("torch")
WORKERS = 3
KILLS, LIVES = (100, 40) if LONG else (3, 2)


@EACH_SUM
def test_survivors_lose_no_step(where: str) -> None:
    """Worker 0 lives; others are killed and come back: in interpreters of their own, which takes them a while."""
    draws = random.Random(SEED)
    print("seed", SEED)
    steps = 60 + 40 * KILLS
    with runs.running(
        "small", steps, "--seconds", 0.015, "--check", "--report", 1, "--sum", where,
        workers=WORKERS, options=("--restarts", KILLS), preloaded=False,
    ) as process:  # fmt: skip
        lines: list[str] = []
        number, killed = 5, 0
        for _ in range(KILLS):
            lines += runs.lines_to(process, f"step 0 {number} ")
            time.sleep(draws.random() / 20)
            victims = [pid for worker, pid in runs.workers(process).items() if worker != 0]
            for victim in draws.sample(victims, min(1, len(victims))):  # both may be starting again
                os.kill(victim, signal.SIGKILL)
                killed += 1
            number += draws.randrange(1, 40)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    assert errors.count("is started again") == killed > 0, errors
    told = [line.partition("] ")[2].strip() for line in [*lines, *output.splitlines()]]
    same(told, steps)
    assert worst(told) < 1e-6
    assert_survivor([line for line in told if line.startswith("step 0 ")], steps)


@EACH_SUM
def test_a_training_that_is_killed_again_and_again_ends_as_if_it_were_not(tmp_path: pathlib.Path, where: str) -> None:
    draws = random.Random(SEED)
    print("seed", SEED)
    steps = 60 * (LIVES + 1)
    arguments = ("--reproducible", "--sum", where)
    whole = same(runs.succeed("small", steps, *arguments, workers=WORKERS), steps)
    file = tmp_path / "run.ckpt"
    arguments += ("--checkpoint", str(file))
    begun: list[int] = []
    for _ in range(LIVES):
        with runs.running("small", steps, "--seconds", 0.002, "--report", 5, *arguments, workers=WORKERS) as process:
            begun.append(int(runs.await_line(process, "begins").split()[-1]))
            for _ in range(draws.randrange(1, 10)):
                runs.await_line(process, "step 0 ")
            runs.await_true("there is no checkpoint", file.exists)
            time.sleep(draws.random() / 20)
            for child in runs.workers(process).values():
                os.kill(child, signal.SIGKILL)
            process.kill()
    lines = runs.succeed("small", steps, *arguments, workers=WORKERS)
    assert same(lines, steps) == whole
    assert begun == sorted(begun) and begun[-1] > 0, begun
