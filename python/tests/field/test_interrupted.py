# SPDX-License-Identifier: Apache-2.0
"""Signals that end a run, or a process that trains alone: a last state is stored before, wherever the training is."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from test_leaving import steps_of

torch: Any = pytest.importorskip("torch")

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "interrupted"
AT, LAST = 6, 8


@contextlib.contextmanager
def started(place: str, file: pathlib.Path, where: str, *, alone: bool) -> "Generator[subprocess.Popen[str]]":
    """A run of two workers, or a process that trains alone, at the place."""
    if not alone:
        with runs.running(str(SCRIPT), place, file, where, workers=2) as process:
            runs.await_true("it gets there", pathlib.Path(f"{file}.there").exists)
            yield process
        return
    with plain([sys.executable, f"{SCRIPT}.py", place, str(file), where]) as process:
        runs.await_true("it gets there", pathlib.Path(f"{file}.there").exists)
        yield process


def go(file: pathlib.Path) -> None:
    """Nobody stays there any longer."""
    pathlib.Path(f"{file}.go").touch()


@contextlib.contextmanager
def plain(words: list[str], begin: Callable[[], object] | None = None) -> "Generator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        words, env=runs.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=begin,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "place", "where", "alone", "steps"),
    [
        (signal.SIGINT, "steps", "everywhere", False, range(AT, 100_000)),
        (signal.SIGTERM, "piece", "everywhere", False, range(AT, AT + 1)),
        (signal.SIGUSR1, "evaluation", "everywhere", False, range(AT + 1, AT + 2)),
        (signal.SIGHUP, "last", "everywhere", False, range(LAST, LAST + 1)),
        (signal.SIGTERM, "steps", "server", False, range(AT, 100_000)),
        (signal.SIGINT, "evaluation", "server", False, range(AT + 1, AT + 2)),
        (signal.SIGINT, "piece", "everywhere", True, range(AT, AT + 2)),
        (signal.SIGTERM, "evaluation", "server", True, range(AT + 1, AT + 2)),
        (signal.SIGUSR1, "last", "everywhere", True, range(LAST, LAST + 1)),
    ],
)
def test_a_last_state_is_stored(
    number: signal.Signals, place: str, where: str, alone: bool, steps: range, tmp_path: pathlib.Path
) -> None:
    """And the last line says with which step the next run goes on. Nothing of the script behind its loop is run."""
    file = tmp_path / "run.ckpt"
    with started(place, file, where, alone=alone) as process:
        process.send_signal(number)
        if not alone:
            runs.await_true("it is heard", lambda: process.poll() is not None or heard(process))
        if alone or place != "piece":  # a piece of several workers is not waited for
            go(file)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    done = steps_of(file)
    assert process.returncode in (128 + number, -number), errors
    assert done in steps and "over" not in output, errors
    assert f"; the next run continues after step {done} from {file}\n" in errors


def test_a_second_ctrl_c_ends_at_once(tmp_path: pathlib.Path) -> None:
    """Workers make the state with the server, so that it has to wait for their pieces."""
    file = tmp_path / "run.ckpt"
    with started("piece", file, "server", alone=False) as process:
        children = list(runs.workers(process).values())
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # perhaps both are one
        runs.await_true("the first is heard", lambda: process.poll() is not None or heard(process))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=runs.LIMIT_SECONDS)
        assert process.returncode == 130
        gone = lambda: not any(pathlib.Path(f"/proc/{child}/fd").exists() and is_alive(child) for child in children)  # noqa: E731
        runs.await_true("its workers are gone", gone)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


def heard(process: "subprocess.Popen[str]") -> bool:
    """True if the launcher has no handler that begins the end any more: of HUP, which is ignored then."""
    ignored = re.search(r"SigIgn:\s*([0-9a-f]+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
    return ignored is not None and bool(int(ignored[1], 16) >> (signal.SIGHUP - 1) & 1)


def test_hup_stays_ignored_under_nohup_and_workers_leave_signals_to_the_launcher(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    words = runs.command(str(SCRIPT), "last", file, workers=2, options=runs.PRELOADED)

    def as_nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with plain(words, as_nohup) as process:
        runs.await_true("it gets there", pathlib.Path(f"{file}.there").exists)
        for child in runs.workers(process).values():
            for number in (signal.SIGHUP, signal.SIGUSR1):
                runs.os.kill(child, number)
        process.send_signal(signal.SIGHUP)
        go(file)
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 0, errors
    assert output.count("over") == 2 and steps_of(file) == LAST


def test_before_the_first_step_there_is_nothing_to_store(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.ckpt"
    with started("begin", file, "everywhere", alone=False) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
    assert process.returncode == 143 and not file.exists()
    assert errors.endswith(f"; the next run begins with step 0, since {file} was not written\n")
