#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The process that warm.py has launchers forked from. Its argument is the number of the socket to the tests."""

import atexit
import faulthandler
import functools
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from tarry.run import forkserver, launcher, preloaded
from tarry.run.messages import receive, send
from tarry.run.prctl import die_with_parent


def main(number: int) -> None:
    die_with_parent()
    importlib.import_module("tarry.torch")
    forkserver.import_for_optimizers()
    faulthandler.enable()  # a test that waits in vain ends processes by a signal that shows where they are
    gc.collect()
    gc.freeze()
    tests = socket.socket(fileno=number)
    while (order := receive(tests))[0] is not None:
        told, streams = order
        _fork(tests, told or {}, streams)


def _fork(tests: socket.socket, told: dict[str, Any], streams: list[int]) -> None:
    """Its parent ends at once, so that the launcher becomes a child of who adopts orphans."""
    between = os.fork()
    if between == 0:
        launched = os.fork()
        if launched:
            send(tests, pid=launched)
            os._exit(0)
        _become(tests, told, streams)
    for stream in streams:
        os.close(stream)
    os.waitpid(between, 0)
    send(tests, orphaned=True)


def _become(tests: socket.socket, told: dict[str, Any], streams: list[int]) -> NoReturn:
    """In the launcher's process, in the place of another interpreter."""
    tests.close()
    for number, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.path[0] = os.getcwd()  # as of `python -m`
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    _, *arguments = told["arguments"]
    _end(functools.partial(_launch, arguments))


def _end(program: Callable[[], int]) -> NoReturn:
    """As an interpreter ends."""
    atexit._clear()  # pyright: ignore[reportPrivateUsage]
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    try:
        status: object = program()
    except SystemExit as ended:
        status = ended.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except KeyboardInterrupt:
        traceback.print_exc()
        status = 128 + signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0)


def _launch(arguments: list[str]) -> int:
    first = _FirstServer()
    launcher.Preloaded = functools.partial(_Preloaded, first)  # type: ignore[assignment,misc]
    return launcher.main(arguments)


class _Preloaded(preloaded.Preloaded):
    def __init__(self, first: "_FirstServer", modules: list[str], environment: dict[str, str]) -> None:
        super().__init__(modules, environment)
        first.begin(modules, environment)
        self._servers.append(first)


class _FirstServer(preloaded.ForkServer):
    """One that is forked from this process, and begins once it is told its environment."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended = {}
        number = theirs.fileno()

        def serve() -> NoReturn:
            die_with_parent()
            # By one of these files the launcher learns that this process has begun.
            os.closerange(3, number)
            os.closerange(number + 1, os.sysconf("SC_OPEN_MAX"))
            _end(functools.partial(_serve, number))

        with theirs:
            self._process = subprocess.Popen(
                ["tarry-forkserver"], stdin=subprocess.DEVNULL, pass_fds=[number], start_new_session=True,
                restore_signals=False, preexec_fn=serve,
            )  # fmt: skip

    def begin(self, modules: list[str], environment: dict[str, str]) -> None:
        send(self._socket, modules=modules, environment=environment)
        told, _ = receive(self._socket)
        assert told == {"imported": modules}, told


def _serve(number: int) -> int:
    with socket.socket(fileno=os.dup(number)) as own:
        told, _ = receive(own)
    if told is None:
        return 0
    os.environ.update(told["environment"])
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    forkserver.main([str(number), *told["modules"]])
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
