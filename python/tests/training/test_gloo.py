# SPDX-License-Identifier: Apache-2.0
"""Trainings whose sums are Gloo's: as exact as those of Tarry's own engine, through deaths and stops."""

import os
import pathlib
import signal

import pytest
import runs
from conftest import LONG
from test_training import assert_survivor, same, worst

pytest.importorskip("torch")
WORKERS = 4
DEATHS = 20 if LONG else 2
GLOO = ("--engine", "gloo")


def test_gradients_are_those_of_one_process() -> None:
    lines = runs.succeed("small", 25, "--check", *GLOO, workers=WORKERS, options=("--straggler", "exp:0.01"))
    same(lines, 25, WORKERS)
    assert worst(lines) < 1e-6


def test_gradients_in_int8_are_what_the_form_gives() -> None:
    """Both ways; all have the same bits."""
    forms = ("--compress", "int8", "--down", "int8")
    lines = runs.succeed("small", 25, "--check", *GLOO, *forms, workers=WORKERS, options=("--straggler", "exp:0.01"))
    same(lines, 25, WORKERS)
    assert 1e-4 < worst(lines) < 0.1


def test_two_parts_are_exact() -> None:
    lines = runs.succeed("small", 10, "--check", "--parts", 2, *GLOO, workers=WORKERS)
    same(lines, 10, WORKERS)
    assert worst(lines) < 1e-5


def test_workers_that_die_in_the_middle_of_sums_cost_none(tmp_path: pathlib.Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.touch()
    steps = 100 + 50 * DEATHS
    arguments = ("--check", "--seconds", 0.01, "--report", 1, "--deaths", deaths, "--most-deaths", DEATHS)
    ended = runs.run(
        "small", steps, *arguments, "--hidden", 2000, *GLOO, workers=WORKERS, options=("--restarts", DEATHS)
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr.count("is started again") == deaths.stat().st_size == DEATHS, ended.stderr
    lines = [line.partition("] ")[2] for line in ended.stdout.splitlines()]
    same(lines, steps, WORKERS)
    assert worst(lines) < 1e-6
    assert_survivor([line for line in lines if line.startswith("step 0 ")], steps)


def test_a_stopped_worker_is_not_waited_for_and_comes_back() -> None:
    with runs.running(
        "small", 300, "--check", "--seconds", 0.01, "--report", 1, *GLOO, workers=WORKERS, options=("--silence", 2)
    ) as process:
        lines = runs.lines_to(process, "step 0 10 ")
        stopped = runs.workers(process)[2]
        os.kill(stopped, signal.SIGSTOP)
        lines += runs.lines_to(process, "step 0 60 ")
        os.kill(stopped, signal.SIGCONT)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    told = [line.partition("] ")[2].strip() for line in [*lines, *output.splitlines()]]
    same(told, 300, WORKERS)
    assert worst(told) < 1e-6
    assert sum(line.startswith("step 2 ") and line.endswith(" True") for line in told) > 0
