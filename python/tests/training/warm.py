# SPDX-License-Identifier: Apache-2.0
"""`tarry run --preload tarry.torch` without importing PyTorch, which most tests of trainings would spend their time on.

One process per process of tests, forks.py, has imported it, and has one thread. Launchers are forked from it, and
become children of the tests' process, which has threads and may not be forked itself: what another thread has locked
stays locked in a child. From the launcher, before it has threads, the process is forked that it forks workers from; a
second one of these, after the death of the first, is an interpreter of its own, as ever.
"""

import ctypes
import functools
import os
import pathlib
import socket
import subprocess
import sys

from tarry.run.messages import receive, send

_FORKS = pathlib.Path(__file__).parent / "forks.py"
_PR_SET_CHILD_SUBREAPER = 36


def start(arguments: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
    """As `python -m tarry.run ARGUMENTS` without a standard input; its outputs are pipes."""
    return _Launcher(
        ["tarry-run", *arguments], env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@functools.cache
def _forks() -> socket.socket:
    """To the process that forks; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, _FORKS, str(theirs.fileno())],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
    return ours


def _adopt_orphans(adopts: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts))


class _Launcher(subprocess.Popen[str]):
    def _execute_child(self, *given: object) -> None:
        """In the place of fork and exec of CPython 3.9 to 3.14, whose tenth to fifteenth are the ends of pipes."""
        arguments, environment, pipes = given[0], given[6], given[10:16]
        _adopt_orphans(True)
        try:
            send(_forks(), [pipes[3], pipes[5]], arguments=arguments, environment=environment)  # type: ignore[list-item]
            told, _ = receive(_forks())
            orphaned, _ = receive(_forks())
        finally:
            _adopt_orphans(False)
        assert told is not None and orphaned is not None, "the process that forks launchers has ended"
        self.pid = told["pid"]
        self._child_created = True
        self._close_pipe_fds(*pipes)  # pyright: ignore
