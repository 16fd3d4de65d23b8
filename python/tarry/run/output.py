# SPDX-License-Identifier: Apache-2.0
"""What workers print, line by line with their numbers, above one line of progress."""

import errno
import os
import sys
import threading
import time
from typing import IO

_INTERVAL = 0.2


class _Hush:
    """Takes KeyboardInterrupt's traceback out of a worker's lines: it was ended by Ctrl-C, and so are all."""

    def __init__(self) -> None:
        self._held: list[str] = []  # a traceback whose last line has not come

    def line(self, text: str) -> list[str]:
        """The lines that are to be shown now."""
        if text.startswith("Traceback ("):
            shown, self._held = self._held, [text]
            return shown
        if not self._held:
            return [text]
        self._held.append(text)
        if text == "" or text[0].isspace():
            return []
        shown, self._held = self._held, []
        return [] if text.startswith("KeyboardInterrupt") else shown


def _write_nowhere(stream: IO[str]) -> None:
    """The terminal is closed, or the reader of a pipe has ended: the run continues, or ends as its signal wants."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Output:
    """Lines of all workers go to stdout and stderr as they come; the progress line is on a terminal's stderr alone."""

    def __init__(self, *, quiet: bool) -> None:
        self._width = 1  # of the workers' numbers
        self._lock = threading.Lock()
        self._quiet = quiet
        self._terminal = sys.stderr.isatty() and not quiet
        self._progress = ""
        self._shown_at = 0.0
        self._hushes: dict[int, _Hush] | None = None
        self._errors = True  # of workers are shown

    def number(self, workers: int) -> None:
        """There are so many."""
        self._width = len(str(workers - 1))

    def expect_the_end(self) -> None:
        """From now on it is no news that workers are interrupted, nor that they are lost."""
        self._hushes = {}

    def expect_failures(self) -> None:
        """From now on workers fail for a reason that the launcher tells: it is the only one to write errors."""
        self._errors = False
        self.expect_the_end()

    def line(self, worker: int, text: str, *, error: bool) -> None:
        shown = [text]
        if error and self._hushes is not None:
            shown = self._hushes.setdefault(worker, _Hush()).line(text) if self._errors else []
        for one in shown:
            self._print(sys.stderr if error else sys.stdout, f"[{worker:{self._width}d}] {one}")

    def show(self, worker: int, text: str) -> None:
        """A line of what a worker wrote before."""
        self._print(sys.stderr, f"[{worker:{self._width}d}] {text}")

    def tell(self, text: str) -> None:
        """What the launcher says itself."""
        if not self._quiet and self._hushes is None:
            self._print(sys.stderr, f"tarry run: {text}")

    def complain(self, text: str) -> None:
        self._print(sys.stderr, f"tarry run: {text}")

    def progress(self, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            if not self._terminal or now - self._shown_at < _INTERVAL:
                return
            self._shown_at = now
            self._wipe()
            self._progress = text
            self._show()

    def end(self) -> None:
        with self._lock:
            self._wipe()
            self._progress = ""

    def _print(self, stream: IO[str], text: str) -> None:
        with self._lock:
            try:
                self._wipe()
                print(text + "\n", end="", file=stream, flush=True)  # in one piece: others may write there, too
                self._show()
            except OSError as error:
                if error.errno not in (errno.EIO, errno.EPIPE):
                    raise
                self._terminal = False
                _write_nowhere(stream)

    def _wipe(self) -> None:
        if self._terminal and self._progress:
            sys.stderr.write("\r\x1b[K")

    def _show(self) -> None:
        if self._terminal and self._progress:
            sys.stderr.write(self._progress)
            sys.stderr.flush()
