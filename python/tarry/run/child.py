# SPDX-License-Identifier: Apache-2.0
"""A worker's process as the launcher sees it, and the plain way to start one: a new interpreter."""

import dataclasses
import os
import signal
import subprocess
import sys
from typing import Protocol

from .prctl import begin_child


@dataclasses.dataclass(frozen=True)
class Program:
    """What a worker runs."""

    script: str
    arguments: list[str]
    is_module: bool = False  # and script its name


class Child(Protocol):
    """A process that was started."""

    pid: int

    def status(self) -> int | None:
        """As of subprocess; None: it runs."""
        ...

    def signal(self, number: int) -> None: ...


class Starter(Protocol):
    """A way to start processes."""

    def start(self, program: Program, environment: dict[str, str], output: int, errors: int) -> Child:
        """environment: what is added to that of the launcher; output, errors: streams to write to. Raises OSError,
        Error."""
        ...

    def close(self) -> None:
        """After the end of all that it started."""
        ...


class _Interpreter:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def status(self) -> int | None:
        return self._process.poll()

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.Signals(number))


class Interpreters:
    """Starts an interpreter of its own for each process."""

    def start(self, program: Program, environment: dict[str, str], output: int, errors: int) -> Child:
        script = ["-m", program.script] if program.is_module else [program.script]
        return _Interpreter(
            subprocess.Popen(
                [sys.executable, *script, *program.arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,  # Ctrl-C comes from the launcher, once
                preexec_fn=begin_child,
            )
        )

    def close(self) -> None:
        pass
