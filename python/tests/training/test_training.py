# SPDX-License-Identifier: Apache-2.0
"""Trainings of several processes: exact, the same to the bit on all workers, through deaths and resumes."""

import os
import pathlib
import re
import signal
import subprocess

import pytest
import runs

pytest.importorskip("torch")
WORKERS = 3
EACH_SUM = pytest.mark.parametrize("where", ["everywhere", "server"])


def ends(lines: list[str]) -> dict[str, tuple[str, str]]:
    """By worker: steps, and the digest of its state."""
    found = [line.split() for line in lines if line.startswith("end ")]
    return {worker: (steps, digest) for _, worker, steps, digest in found}


def same(lines: list[str], steps: int, workers: int = WORKERS) -> str:
    """The digest that all workers have."""
    found = ends(lines)
    assert len(found) == workers and len(set(found.values())) == 1, lines
    assert next(iter(found.values()))[0] == str(steps)
    return next(iter(found.values()))[1]


def assert_few_lost(lines: list[str]) -> None:
    """A worker that the machine holds up, since it has other work, loses a step at times; what goes wrong with deaths
    would cost steps again and again."""
    told = [line.endswith(" True") for line in lines if line.startswith("step ")]
    assert told and 10 * sum(told) <= len(told), lines


def assert_survivor(lines: list[str], steps: int) -> None:
    """What a worker that lived on said of its steps: each comes once, and few are missing: who loses one begins at the
    next one that the others have not begun."""
    numbers = [int(line.split()[2]) for line in lines]
    assert numbers == sorted(set(numbers)) and numbers[-1] == steps - 1 and 10 * len(numbers) >= 9 * steps, numbers
    assert_few_lost(lines)


def worst(lines: list[str]) -> float:
    return max(float(line.split()[1]) for line in lines if line.startswith("worst "))


@EACH_SUM
def test_gradients_are_those_of_one_process(where: str) -> None:
    lines = runs.succeed(
        "small", 25, "--check", "--sum", where, workers=WORKERS, options=("--straggler", "exp:0.01+slow:1,5")
    )
    same(lines, 25)
    assert worst(lines) < 1e-6


@EACH_SUM
def test_steps_come_by_several_calls(where: str) -> None:
    """And who is through with the first does not wait for others who are in the second."""
    lines = runs.succeed("small", 20, "--check", "--halves", "--sum", where, workers=WORKERS)
    same(lines, 20)
    assert worst(lines) < 1e-6


@EACH_SUM
def test_two_parts_are_exact(where: str) -> None:
    lines = runs.succeed("small", 10, "--check", "--parts", 2, "--sum", where, workers=WORKERS)
    same(lines, 10)
    assert worst(lines) < 1e-5


def test_alone_it_is_the_same_training() -> None:
    """Up to the order in which float32 numbers are added."""
    lines = runs.succeed("small", 10, "--check", workers=1)
    same(lines, 10, workers=1)
    assert worst(lines) < 1e-6


def lines_with_a_kill(*arguments: object) -> list[str]:
    """Of 150 checked steps in which a worker is killed, and is started again, which costs the others none."""
    with runs.running(
        "small", 150, "--seconds", 0.01, "--check", "--report", 1, *arguments,
        workers=WORKERS, options=("--restarts", 3),
    ) as process:  # fmt: skip
        runs.await_line(process, "step 0 20 ")
        os.kill(max(runs.workers(process).items())[1], signal.SIGKILL)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, output + errors
    assert "is started again (1 of 3 times)" in errors
    lines = [line.partition("] ")[2] for line in output.splitlines()]
    same(lines, 150)
    assert_few_lost(lines)
    return lines


@EACH_SUM
def test_a_killed_worker_costs_no_step_and_comes_back(where: str) -> None:
    assert worst(lines_with_a_kill("--sum", where)) < 1e-6


@EACH_SUM
def test_a_busy_worker_loses_steps_and_has_the_metrics_of_the_others(where: str) -> None:
    lines = runs.succeed("wrong", "busy", "--seconds", 0.01, "--steps", 60, "--sum", where, workers=WORKERS)
    assert {line for line in lines if line.startswith("end ")} == {"end 0 60", "end 1 60", "end 2 60"}
    made = {line.split()[2] for line in lines if line.startswith("loss False ")}
    lost = [line.split()[2] for line in lines if line.startswith("loss True ")]
    assert len(made) == 60 and lost and set(lost) <= made


def test_a_worker_that_is_a_little_behind_loses_nothing_at_the_server() -> None:
    """The hub has the last sums."""
    lines = runs.succeed("wrong", "busy", "--seconds", 0.01, "--steps", 30, "--sum", "server", workers=WORKERS)
    losses = [line.split() for line in lines if line.startswith("loss ")]
    assert {lost for _, lost, _ in losses} == {"False"} and len(losses) == 30 * WORKERS
    assert len({loss for _, _, loss in losses}) == 30


@EACH_SUM
def test_it_goes_on_from_its_checkpoint_to_the_bit(tmp_path: pathlib.Path, where: str) -> None:
    """With sums in an order of their own a training that was killed ends like one that was not."""
    file = tmp_path / "run.ckpt"
    whole = same(runs.succeed("small", 60, "--reproducible", "--sum", where, workers=WORKERS), 60)
    arguments = ("--reproducible", "--sum", where, "--checkpoint", file)
    with runs.running("small", 100_000, "--report", 1, "--seconds", 0.01, *arguments, workers=WORKERS) as process:
        runs.await_line(process, "step 0 5")
        runs.await_true("no checkpoint was written", file.exists)
        for child in runs.workers(process).values():
            os.kill(child, signal.SIGKILL)
        process.kill()
    lines = runs.succeed("small", 60, *arguments, workers=WORKERS)
    begun = {int(line.split()[2]) for line in lines if line.startswith("begins ")}
    assert len(begun) == 1 and 0 < begun.pop() < 60
    assert same(lines, 60) == whole


@EACH_SUM
def test_a_finished_training_is_over_at_once_and_goes_on_with_more_workers(tmp_path: pathlib.Path, where: str) -> None:
    arguments = ("--checkpoint", tmp_path / "run.ckpt", "--sum", where)
    first = same(runs.succeed("small", 10, *arguments, workers=2), 10, workers=2)
    assert same(runs.succeed("small", 10, *arguments, workers=2), 10, workers=2) == first
    lines = runs.succeed("small", 20, *arguments, "--check", workers=WORKERS)
    same(lines, 20)
    assert worst(lines) < 1e-6


def test_a_checkpoint_goes_on_with_sums_made_elsewhere(tmp_path: pathlib.Path) -> None:
    """And back again."""
    for steps, where in ((5, "everywhere"), (10, "server"), (15, "everywhere")):
        lines = runs.succeed(
            "small", steps, "--checkpoint", tmp_path / "run.ckpt", "--check", "--sum", where, workers=2
        )
        assert {line.split()[2] for line in lines if line.startswith("begins ")} == {str(steps - 5)}
        same(lines, steps, workers=2)
        assert worst(lines) < 1e-6


@EACH_SUM
def test_ctrl_c_ends_all_processes_and_leaves_a_checkpoint(tmp_path: pathlib.Path, where: str) -> None:
    file = tmp_path / "run.ckpt"
    arguments = ("--report", 1, "--seconds", 0.01, "--checkpoint", file, "--sum", where)
    with runs.running("small", 100_000, *arguments, workers=2) as process:
        runs.await_line(process, "step 0 5")
        children = list(runs.workers(process).values())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert not any(pathlib.Path(f"/proc/{child}").exists() for child in children)
    assert file.exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("--samples", "this worker has data of 400 samples where the others have 500"),
        ("--engine", "this worker has the engine 'gloo' where the others have 'direct'"),
        (
            "--hidden",
            "this worker has another model: 0.weight (8, 10) float32, strides (10, 1) "
            "where the others have 0.weight (16, 10) float32, strides (10, 1)",
        ),
    ],
)
def test_who_trains_something_else_is_refused(change: str, why: str) -> None:
    """And the others go on."""
    with runs.running("small", 100_000, "--report", 1, "--seconds", 0.02, workers=2, preloaded=False) as process:
        runs.await_line(process, "step 0 1")
        hub = [
            word.partition(b"=")[2].decode()
            for word in pathlib.Path(f"/proc/{runs.workers(process)[0]}/environ").read_bytes().split(b"\0")
            if word.startswith(b"TARRY_HUB=")
        ]
        value = {"--samples": "400", "--hidden": "8", "--engine": "gloo"}[change]
        other = subprocess.run(
            [runs.sys.executable, str(runs.SCRIPTS / "small.py"), "100000", change, value],
            env=runs.environment(TARRY_HUB=hub[0], TARRY_WORKER="1", TARRY_WORKERS="2"),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert other.returncode == 1
        assert f"tarry.hub.client.Refused: {why} (it is worker 1; worker " in other.stderr.strip().splitlines()[-1]
        done = int(runs.await_line(process, "step 0").split()[3])
        runs.await_line(process, f"step 0 {done + 2}")


def test_sigterm_ends_all_processes() -> None:
    with runs.running("small", 100_000, "--report", 1, workers=2, preloaded=False) as process:
        runs.await_line(process, "step 0 1")
        children = list(runs.workers(process).values())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 143
    assert not any(pathlib.Path(f"/proc/{child}").exists() for child in children)


@EACH_SUM
def test_a_checkpoint_that_can_not_be_written_is_told(tmp_path: pathlib.Path, where: str) -> None:
    """And the training goes on; at its end it is an error."""
    folder = tmp_path / "gone"
    folder.mkdir()
    with runs.running(
        "small", 40, "--report", 1, "--seconds", 0.02, "--checkpoint", folder / "run.ckpt", "--sum", where, workers=2
    ) as process:
        runs.await_line(process, "step 0 1")
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 1
    assert "no checkpoint after step" in errors and "can't be written" in errors
    assert "step 0 39" in output


@pytest.mark.parametrize("noise", [1, 1000])
@EACH_SUM
def test_copies_that_differ_are_told(where: str, noise: float) -> None:
    """With two parts they would make a wrong sum, of weights, too; with one part any copy will do."""
    ended = runs.run("small", 40, "--parts", 2, "--noise", noise, "--sum", where, workers=WORKERS)
    assert ended.returncode == 1
    # The copies are compared, or a wrong sum is seen before.
    compared = r"Error: piece \d+ of step \d+ is not the same at workers \d and \d\. With 2 parts"
    seen = r"Error: step \d+: the sum looks as if .* With 2 parts that has two causes\. Copies of a piece differ"
    assert re.search(f"{compared}|{seen}", ended.stderr)
    same(runs.succeed("small", 5, "--noise", noise, "--sum", where, workers=2), 5, workers=2)
