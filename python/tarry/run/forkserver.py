# SPDX-License-Identifier: Apache-2.0
"""The process of `tarry run --preload`: it imports modules once, and is forked for each worker.

It has one thread, so that a child has all that there is.
"""

import builtins
import contextlib
import gc
import importlib
import importlib.machinery
import io
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import types
from types import TracebackType
from typing import Any, cast

from .messages import receive, send
from .prctl import die_with_parent, set_name


class _ForkServer:
    """Ends when the launcher does, and its children with it."""

    def __init__(self, launcher: socket.socket) -> None:
        self._launcher = launcher
        self._children: dict[int, int] = {}  # what tells of the child's end, and its process
        self._selector = selectors.DefaultSelector()
        self._selector.register(launcher, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any]:
        """Gives back in children alone: what they are to run."""
        while True:
            for key, _ in self._selector.select():
                if key.fd != self._launcher.fileno():
                    self._tell_end(key.fd)
                    continue
                told, streams = receive(self._launcher)
                if told is None:
                    sys.exit(0)
                if "signal" in told:
                    self._signal(told["pid"], told["signal"])
                elif self._fork(streams):
                    return told

    def _fork(self, streams: list[int]) -> bool:
        """Whether this is the child."""
        try:
            pid = os.fork()
        except OSError as error:
            pid = None
            send(self._launcher, error=error.errno)
        if pid == 0:
            self._become_child(streams)
            return True
        for stream in streams:
            os.close(stream)
        if pid is not None:
            ended = os.pidfd_open(pid)
            self._children[ended] = pid
            self._selector.register(ended, selectors.EVENT_READ)
            send(self._launcher, pid=pid)
        return False

    def _become_child(self, streams: list[int]) -> None:
        os.setsid()  # Ctrl-C comes from the launcher, once
        die_with_parent()
        for number, stream in zip((1, 2), streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        self._selector.close()
        self._launcher.close()
        for ended in self._children:
            os.close(ended)

    def _signal(self, pid: int, number: int) -> None:
        for ended, child in self._children.items():
            if child == pid:  # it is not waited for yet: the number is still its own
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(ended, number)

    def _tell_end(self, ended: int) -> None:
        pid = self._children.pop(ended)
        self._selector.unregister(ended)
        os.close(ended)
        _, status = os.waitpid(pid, 0)
        send(self._launcher, pid=pid, status=os.waitstatus_to_exitcode(status))


def _part_from_siblings() -> None:
    """Numbers drawn without a seed are a process's own. Python's random sees to that itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _without_frames_of_ours(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Shows what a script did not catch, from the script on."""
    ours = {__file__, "<frozen runpy>"}
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _run(told: dict[str, Any]) -> None:
    """Runs a script or a module as the interpreter does: in a `__main__` that lasts until the interpreter ends, which
    then flushes and closes the files that the script left open."""
    script: str = told["script"]
    os.environ.update(told["environment"])
    set_name("tarry-worker-" + os.environ["TARRY_WORKER"])  # its command line is this module's
    _part_from_siblings()
    sys.argv = [script, *told["arguments"]]
    sys.excepthook = _without_frames_of_ours
    main = types.ModuleType("__main__")
    main.__dict__.update(__annotations__={}, __builtins__=builtins)
    sys.modules["__main__"] = main
    run_as_main: Any = cast(Any, runpy)._run_module_as_main
    if told["is_module"]:
        run_as_main(script)
    elif pkgutil.get_importer(script) is not None:  # an archive with a __main__.py
        sys.path[0] = script
        run_as_main("__main__", alter_argv=False)
    else:
        if not sys.flags.safe_path:
            sys.path[0] = os.path.dirname(os.path.realpath(script))
        path = os.path.abspath(script)
        main.__file__ = path
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec")
        exec(code, main.__dict__)


def _import(modules: list[str], launcher: socket.socket) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever an import does
            send(launcher, failure=f"--preload {module}: {type(error).__name__}: {error}")
            sys.exit(1)
    import_for_optimizers()
    send(launcher, imported=modules)


def import_for_optimizers() -> None:
    """PyTorch 2 imports nearly as much again once the first optimizer is made. Where it can use GPUs that is left to
    workers: what is imported then might ask for them, and they do not go with forks."""
    torch = sys.modules.get("torch")
    if torch is not None and not torch.backends.cuda.is_built():
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)


def main(arguments: list[str]) -> None:
    """arguments: the number of the socket, then the modules."""
    launcher = socket.socket(fileno=int(arguments[0]))
    launcher.set_inheritable(False)
    _import(arguments[1:], launcher)
    gc.collect()
    gc.freeze()  # what is shared stays where it is: children need no memory of their own for it
    _run(_ForkServer(launcher).serve())


if __name__ == "__main__":
    main(sys.argv[1:])
