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

# The scripts' own, imported once for a run's processes; who looks for these in the system sees interpreters.
PRELOADED = ("--preload", "tarry.torch")
SCRIPTS = pathlib.Path(__file__).parent / "scripts"
LIMIT_SECONDS = 300


def environment(**more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
    return known | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | more


def command(script: str, *arguments: object, workers: int, options: tuple[object, ...] = ()) -> list[str]:
    words = [sys.executable, "-m", "tarry.run", "-n", workers, *options, SCRIPTS / f"{script}.py", *arguments]
    return [str(word) for word in words]


def run(
    script: str,
    *arguments: object,
    workers: int,
    options: tuple[object, ...] = (),
    seconds: float = LIMIT_SECONDS,
) -> "subprocess.CompletedProcess[str]":
    ended = subprocess.run(
        command(script, *arguments, workers=workers, options=(*PRELOADED, *options)),
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
        check=False,
    )  # fmt: skip
    assert "\nTraceback" not in "\n" + ended.stderr, ended.stderr  # of the launcher; workers' have numbers before them
    return ended


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
    **more: str,
) -> "Generator[subprocess.Popen[str]]":
    """A run in the background; it is ended if it still runs. `around`: the command that runs it."""
    process = subprocess.Popen(
        [*around, *command(script, *arguments, workers=workers, options=options)],
        env=environment(**more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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


def children(process: "subprocess.Popen[str]") -> list[int]:
    """Processes that it started."""
    return children_of(process.pid)


def children_of(pid: int) -> list[int]:
    path = pathlib.Path(f"/proc/{pid}/task")
    found: list[int] = []
    for task in path.iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return sorted(found)


def variable_of(pid: int, name: str) -> str | None:
    """A variable of the process's environment."""
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next((word.partition(b"=")[2].decode() for word in words if word.startswith(f"{name}=".encode())), None)
    return None


def await_true(what: str, holds: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(what)
