# SPDX-License-Identifier: Apache-2.0
"""One worker's process, which is started anew when it dies."""

import os
import signal
import threading
from collections.abc import Callable
from typing import IO

from .child import Program, Starter


def explain(status: int, *, out_of_memory: bool = False) -> str:
    """A process's end, in words. out_of_memory: the kernel killed it for that."""
    if out_of_memory:
        return "was killed by the kernel's OOM killer: memory ran out"
    if status < 0:
        try:
            return f"was killed by signal {-status} ({signal.Signals(-status).name})"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"ended with status {status}"


class Process:
    """Hands each line of its output on, by threads of its own."""

    def __init__(
        self, starter: Starter, program: Program, environment: dict[str, str], line: Callable[[str, bool], None]
    ) -> None:
        """Raises OSError, Error."""
        written: list[int] = []
        self._readers: list[threading.Thread] = []
        try:
            for error in (False, True):
                read, write = os.pipe()
                written.append(write)
                self._readers.append(
                    threading.Thread(target=_read, args=(os.fdopen(read, "rb"), line, error), daemon=True)
                )
                self._readers[-1].start()  # before there is a line, or a signal that ends the launcher
            self._child = starter.start(program, environment, *written)
        finally:
            for write in written:
                os.close(write)

    @property
    def pid(self) -> int:
        return self._child.pid

    def status(self) -> int | None:
        """None: it runs."""
        return self._child.status()

    def finish(self) -> None:
        """After its end: all its lines are out."""
        for reader in self._readers:
            reader.join(timeout=5)

    def signal(self, number: int) -> None:
        self._child.signal(number)


def _read(stream: IO[bytes], line: Callable[[str, bool], None], error: bool) -> None:
    for text in stream:
        line(text.decode(errors="replace").rstrip("\n"), error)
    stream.close()
