# SPDX-License-Identifier: Apache-2.0
"""The launcher's side of `--preload`: processes are forked from one that has the modules already."""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys

from ..errors import Error
from .child import Child, Program
from .messages import receive, send
from .prctl import begin_child

_END_SECONDS = 5.0


class _Forked:
    def __init__(self, server: "ForkServer", pid: int) -> None:
        self._server = server
        self.pid = pid

    def status(self) -> int | None:
        return self._server.status(self.pid)

    def signal(self, number: int) -> None:
        self._server.signal(self.pid, number)


class ForkServer:
    """The process that is forked, as the launcher has it. Where it dies, all its children do."""

    def __init__(self, modules: list[str], environment: dict[str, str]) -> None:
        """Imports them; raises Error, OSError."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended: dict[int, int] = {}  # statuses by process
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tarry.run.forkserver", str(theirs.fileno()), *modules],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=begin_child,
            )
        told, _ = receive(self._socket)
        if told is None or "failure" in told:
            self.close()
            raise Error(told["failure"] if told else "--preload: the process that imports the modules has ended")

    @property
    def is_alive(self) -> bool:
        self._hear()
        return self._process.poll() is None

    def fork(self, program: Program, environment: dict[str, str], streams: list[int]) -> Child | None:
        """None: it died. Raises OSError."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(self._socket, streams, **dataclasses.asdict(program), environment=environment)
        while True:
            answer, _ = receive(self._socket)
            if answer is None:
                return None
            if "error" in answer:
                raise OSError(answer["error"], os.strerror(answer["error"]))
            if "status" not in answer:
                return _Forked(self, answer["pid"])
            self._ended[answer["pid"]] = answer["status"]

    def status(self, pid: int) -> int | None:
        self._hear()
        if pid in self._ended:
            return self._ended[pid]
        return None if self._process.poll() is None else -signal.SIGKILL

    def signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(self._socket, pid=pid, signal=number)

    def close(self) -> None:
        self._socket.close()
        try:
            self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _hear(self) -> None:
        """Of all ends that have been told."""
        self._socket.setblocking(False)
        try:
            while (told := receive(self._socket)[0]) is not None:
                self._ended[told["pid"]] = told["status"]
        except BlockingIOError:
            pass
        finally:
            self._socket.setblocking(True)


class Preloaded:
    """Starts processes by forking one that has imported the modules; anew where it was ended."""

    def __init__(self, modules: list[str], environment: dict[str, str]) -> None:
        """environment: what all processes have, since modules may read it when they are imported."""
        self._modules = modules
        self._environment = environment
        self._servers: list[ForkServer] = []  # one, unless earlier ones were ended

    def start(self, program: Program, environment: dict[str, str], output: int, errors: int) -> Child:
        while True:
            if not self._servers or not self._servers[-1].is_alive:
                self._servers.append(ForkServer(self._modules, self._environment))
            child = self._servers[-1].fork(program, environment, [output, errors])
            if child is not None:
                return child

    def close(self) -> None:
        for server in self._servers:
            server.close()
