# SPDX-License-Identifier: Apache-2.0
"""Processes of a training that are killed or stopped while it runs."""

import contextlib
import os
import pathlib
import random
import re
import signal
import threading
from collections.abc import Callable


def children(pid: int) -> list[int]:
    """Processes that a process has started; none, if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def workers_of(launcher: int) -> dict[int, int]:
    """The processes of `tarry run`'s workers by their numbers, started by it or, with --preload, forked."""
    found: dict[int, int] = {}
    for child in children(launcher):
        for pid in (child, *children(child)):
            number = _worker_of(pid)
            if number is not None:
                found[number] = pid
    return found


def _worker_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        process = pathlib.Path(f"/proc/{pid}")
        if (process / "stat").read_bytes().rpartition(b") ")[2].startswith(b"Z"):
            return None  # it has ended, and nobody has asked how
        told = re.search(rb"^tarry-worker-(\d+)$", (process / "comm").read_bytes(), re.M) or re.search(
            rb"(?:^|\0)TARRY_WORKER=(\d+)\0", (process / "environ").read_bytes()
        )
        return None if told is None else int(told[1])
    return None


class Nuisance:
    """Kills one of the workers every `kills` seconds, or stops one for good after `stop` seconds, from begin on.

    victims gives the workers' processes, without the one whose figures count. Draws are those of the seed.
    """

    def __init__(self, victims: Callable[[], list[int]], *, kills: float = 0, stop: float = 0, seed: int = 1) -> None:
        self._victims = victims
        self._kills, self._stop = kills, stop
        self._draws = random.Random(seed)
        self._begun, self._over = threading.Event(), threading.Event()
        self._stopped: list[int] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.killed = 0

    def begin(self) -> None:
        self._begun.set()

    def _run(self) -> None:
        self._begun.wait()
        while not self._over.wait(self._kills or self._stop):
            victims = sorted(self._victims())
            if not victims:
                continue
            victim = self._draws.choice(victims)
            with contextlib.suppress(OSError):
                os.kill(victim, signal.SIGKILL if self._kills else signal.SIGSTOP)
            if not self._kills:
                self._stopped.append(victim)
                return
            self.killed += 1

    def __enter__(self) -> "Nuisance":
        if self._kills or self._stop:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Who was stopped is ended."""
        self._over.set()
        self._begun.set()
        if self._thread.ident is not None:
            self._thread.join()
        for pid in self._stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
