# SPDX-License-Identifier: Apache-2.0
"""Runs of scripts/ under `tarry run`, or alone."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import warm
from nuisances import children, workers_of

__all__ = ["children"]
# The scripts' own, imported once for a run's processes.
PRELOADED = ("--preload", "tarry.torch")
SCRIPTS = pathlib.Path(__file__).parent / "scripts"
LIMIT_SECONDS = 300
PATIENT = ("--silence", 20)  # longer than the machine holds a process up while it has much else to do


def environment(**more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
    return known | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | more


def words(script: str, *arguments: object, workers: int, options: tuple[object, ...] = ()) -> list[str]:
    """Of `tarry run`, which loses nobody whom the machine merely holds up."""
    return [str(word) for word in ("-n", workers, *PATIENT, *options, SCRIPTS / f"{script}.py", *arguments)]


def command(script: str, *arguments: object, workers: int, options: tuple[object, ...] = ()) -> list[str]:
    return [sys.executable, "-m", "tarry.run", *words(script, *arguments, workers=workers, options=options)]


def run(
    script: str,
    *arguments: object,
    workers: int,
    options: tuple[object, ...] = (),
    seconds: float = LIMIT_SECONDS,
) -> "subprocess.CompletedProcess[str]":
    with warm.start(
        words(script, *arguments, workers=workers, options=(*PRELOADED, *options)), environment()
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:  # of pytest-timeout, too
            print(_stacks(process), file=sys.stderr)
            raise
    ended = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    assert "\nTraceback" not in "\n" + ended.stderr, ended.stderr  # of the launcher; workers' have numbers before them
    return ended


def _stacks(process: "subprocess.Popen[str]") -> str:
    """Ends a run that was waited for in vain; gives back what it has written, with where each of its processes was."""
    for pid in (*workers(process).values(), process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGABRT)
        time.sleep(1)
    try:
        return "".join(process.communicate(timeout=10))
    finally:
        process.kill()


def succeed(script: str, *arguments: object, workers: int, options: tuple[object, ...] = ()) -> list[str]:
    """The lines of a run that ends well, without the workers' numbers."""
    ended = run(script, *arguments, workers=workers, options=options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [line.partition("] ")[2] for line in ended.stdout.splitlines()]


@contextlib.contextmanager
def running(
    script: str,
    *arguments: object,
    workers: int,
    options: tuple[object, ...] = (),
    around: tuple[str, ...] = (),
    preloaded: bool = True,
    **more: str,
) -> "Generator[subprocess.Popen[str]]":
    """A run in the background; it is ended if it still runs. `around`: the command that runs it."""
    options = (*PRELOADED, *options) if preloaded else options
    if preloaded and not around:
        process = warm.start(words(script, *arguments, workers=workers, options=options), environment(**more))
    else:
        process = subprocess.Popen(
            [*around, *command(script, *arguments, workers=workers, options=options)],
            env=environment(**more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=30)
        process.kill()


def await_line(process: "subprocess.Popen[str]", text: str) -> str:
    """Reads the run's output up to a line with the text."""
    return lines_to(process, text)[-1]


def lines_to(process: "subprocess.Popen[str]", text: str) -> list[str]:
    """The run's output up to a line with the text."""
    assert process.stdout is not None
    found: list[str] = []
    for line in process.stdout:
        found.append(line)
        if text in line:
            return found
    raise AssertionError(f"the run ended without {text!r}: {process.stderr.read() if process.stderr else ''}")


def workers(process: "subprocess.Popen[str]") -> dict[int, int]:
    """The processes of the run's workers by their numbers."""
    return workers_of(process.pid)


def await_true(what: str, holds: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(what)
