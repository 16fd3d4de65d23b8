# SPDX-License-Identifier: Apache-2.0
"""One worker's process, which is started anew when it dies."""

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import IO

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def explain(status: int) -> str:
    """A process's end, in words."""
    if status < 0:
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"
    return f"ended with status {status}"


class Process:
    """Hands each line of its output on, by threads of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], line: Callable[[str, bool], None]) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C comes from the launcher, once
            preexec_fn=_die_with_parent,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=_read, args=(stream, line, error), daemon=True)
            for stream, error in ((self._process.stdout, False), (self._process.stderr, True))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self) -> int | None:
        """None: it runs."""
        return self._process.poll()

    def finish(self) -> None:
        """After its end: all its lines are out."""
        for reader in self._readers:
            reader.join(timeout=5)

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)


def _read(stream: IO[bytes], line: Callable[[str, bool], None], error: bool) -> None:
    for text in stream:
        line(text.decode(errors="replace").rstrip("\n"), error)
    stream.close()
