# SPDX-License-Identifier: Apache-2.0
"""Starts the processes, looks after them, and ends."""

import argparse
import os
import signal
import sys
import time
from typing import Any

from ..errors import ArgumentError, Error
from ..interrupts import ENDING, signals_to_take, told
from ..results import Round
from ..straggler import Straggler
from . import options
from .cgroup import ControlGroups
from .child import Interpreters, Program, Starter
from .coordinator import Coordinator, OtherHub, OwnHub, Progress
from .failures import Errors, Failure, failure_of, summary
from .output import Output
from .preloaded import Preloaded
from .process import Process, explain

_LOOK_SECONDS = 0.05
_END_SECONDS = 5.0  # that processes have after Ctrl-C, and once more after SIGTERM
_RESTART_SECONDS = 0.5
_QUIET_SECONDS = 1.0  # of waiting for the last state, before that is said


class _Ended(Exception):
    """A signal came that ends the run."""


def _raise_ended(number: int, _frame: Any) -> None:
    _hear_second()
    raise _Ended(number)


def _hear_first() -> None:
    for number in signals_to_take(always=(signal.SIGINT, signal.SIGTERM)):
        signal.signal(number, _raise_ended)


def _hear_second() -> None:
    """The run ends already; a second Ctrl-C ends it at once, and its workers with it, which die with this process."""
    for number in ENDING:
        if signal.getsignal(number) is _raise_ended:
            signal.signal(number, _end_at_once if number == signal.SIGINT else signal.SIG_IGN)


def _end_at_once(number: int, _frame: Any) -> None:
    os.write(2, b"\ntarry run: ended at once\n")
    os._exit(128 + number)


class _Worker:
    def __init__(self, number: int) -> None:
        self.number = number
        self.process: Process | None = None
        self.errors = Errors()  # of this process
        self.failures: list[Failure] = []
        self.restarts = 0
        self.again_at: float | None = None  # to be started
        self.status: int | None = None  # of its last process, if it is not to be started again


class Launcher:
    """One run of `tarry run`."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        """Raises Error."""
        self._wanted = wanted
        self._output = Output(quiet=wanted.quiet)
        self._begun = time.monotonic()
        self._groups = ControlGroups()
        self._explained_kills = self._groups.out_of_memory_kills()
        self._hub: Coordinator
        if wanted.connect is None:
            self._output.number(wanted.workers)
            _check_straggler(wanted, wanted.workers)
            self._hub = OwnHub(wanted, self._show_round, self._output.tell, self._output.expect_failures)
        else:
            self._hub = OtherHub(wanted, self._show_progress, self._output.tell)
            self._output.number(self._hub.workers)
        self._program = Program(wanted.script, wanted.arguments, wanted.module)
        self._starter: Starter = Interpreters()
        if wanted.preload:
            self._starter = Preloaded(wanted.preload, self._environment_of_all())
        first = self._hub.first
        self._workers = [_Worker(number) for number in range(first, first + wanted.here)]
        self._hub.begin()

    def run(self) -> int:
        """The exit status."""
        try:
            _check_straggler(self._wanted, self._hub.workers)
            for worker in self._workers:
                self._start(worker)
            while self._look() or self._hub.is_used():
                why = self._hub.why_over()
                if why:
                    self._end_early(why)
                    return 1
                if self._hub.progress_if_broken() is not None:
                    break
                time.sleep(_LOOK_SECONDS)
            broken = self._hub.progress_if_broken()
            if broken is not None:
                self._give_up(broken)
                return 1
        except _Ended as ended:
            return self._end_by(int(ended.args[0]))
        except (Error, OSError) as error:
            self._end_early(str(error) if isinstance(error, Error) else f"a process can't be started: {error.strerror}")
            return 1
        finally:
            self._starter.close()
            self._output.end()
        return self._conclude()

    # ---- processes ----

    def _environment_of_all(self) -> dict[str, str]:
        wanted = self._wanted
        threads = wanted.threads or max(1, int(self._groups.processors() / wanted.here))
        found = {"PYTHONUNBUFFERED": "1"}
        if wanted.threads or "OMP_NUM_THREADS" not in os.environ:
            found["OMP_NUM_THREADS"] = str(threads)
        return found

    def _environment(self, worker: _Worker) -> dict[str, str]:
        wanted = self._wanted
        found = {
            **self._environment_of_all(),
            "TARRY_HUB": self._hub.address,
            "TARRY_WORKER": str(worker.number),
            "TARRY_WORKERS": str(self._hub.workers),
            **self._hub.security.environment(worker.number),
        }
        if wanted.straggler:
            found |= {"TARRY_STRAGGLER": wanted.straggler, "TARRY_STRAGGLER_SEED": str(wanted.straggler_seed)}
        return found

    def _start(self, worker: _Worker) -> None:
        number = worker.number
        worker.again_at = None
        worker.errors = errors = Errors()

        def line(text: str, error: bool) -> None:
            if error:
                errors.line(text)
            self._output.line(number, text, error=error)

        worker.process = Process(self._starter, self._program, self._environment(worker), line)

    def _look(self) -> bool:
        """Whether a process runs, or is to be started."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.again_at is not None and now >= worker.again_at:
                self._start(worker)
            elif worker.process is not None and worker.again_at is None and worker.status is None:
                self._look_at(worker, worker.process)
            if worker.status is not None:
                self._hub.leave_out(worker.number)
        return any(worker.status is None for worker in self._workers)

    def _look_at(self, worker: _Worker, process: Process) -> None:
        status = process.status()
        if status is None:
            return
        process.finish()
        end = self._explain(status)
        if status != 0:
            worker.failures.append(failure_of(worker.number, status, end, worker.errors))
        if status != 0 and worker.restarts < self._wanted.restarts and not self._hub.has_failed():
            worker.restarts += 1
            worker.again_at = time.monotonic() + _RESTART_SECONDS
            self._output.tell(
                f"worker {worker.number} {end}; it is started again "
                f"({worker.restarts} of {self._wanted.restarts} times)"
            )
            return
        worker.status = status
        if status != 0:
            self._output.complain(f"worker {worker.number} {end}")

    def _explain(self, status: int) -> str:
        """A worker's end, in words."""
        out_of_memory = status == -signal.SIGKILL and self._groups.out_of_memory_kills() > self._explained_kills
        self._explained_kills += out_of_memory
        return explain(status, out_of_memory=out_of_memory)

    def _end_by(self, number: int) -> int:
        """A signal came: the last state is stored while workers are there. Gives the exit status."""
        begun, is_told = time.monotonic(), False

        def waits() -> None:
            nonlocal is_told
            if not is_told and time.monotonic() - begun > _QUIET_SECONDS:
                is_told = True
                self._output.complain(f"{told(number)}; waiting for the last state (Ctrl-C ends at once)")

        self._end_early(told(number) + self._hub.take_last_state(self._wanted.grace, waits))
        return 128 + number

    def _end_early(self, why: str) -> None:
        _hear_second()
        self._output.complain(why)
        self._output.expect_the_end()
        self._end_all()
        self._hub.close(why)

    def _give_up(self, training: Progress) -> None:
        """Ends workers, since none of them can compute a piece. The first traceback is printed last."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        self._end_all()
        assert training.failure is not None and training.trace is not None
        self._hub.close(training.failure)
        self._tell_failure(training)
        worker, trace = training.trace
        for line in trace.splitlines():
            self._output.show(worker, line)

    def _tell_failure(self, training: Progress) -> None:
        self._output.complain(
            f"the training has ended after step {training.done} of {training.wanted}: {training.failure}"
        )

    def _end_all(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for worker in self._workers:
                if worker.process is not None:
                    worker.process.signal(number)
            until = time.monotonic() + _END_SECONDS
            while time.monotonic() < until:
                if all(worker.process is None or worker.process.status() is not None for worker in self._workers):
                    for worker in self._workers:
                        if worker.process is not None:
                            worker.process.finish()
                    return
                time.sleep(_LOOK_SECONDS)

    def _conclude(self) -> int:
        """After the end of all workers: the exit status. The last line names the first failure, or the hub's end."""
        failures = [worker.failures for worker in self._workers if worker.status != 0]
        training = self._hub.progress() if failures or self._wanted.connect is None else Progress()
        over = self._hub.why_over()  # workers may have noticed first
        self._hub.close()
        if training.failure is not None:
            self._tell_failure(training)
        if not failures:
            return 0
        if over and not training.complete:
            self._output.complain(over)
            return 1
        workers = len(self._workers)
        chief_failed = training.complete and any(
            worker.status != 0 and worker.number == self._hub.chief() for worker in self._workers
        )
        if chief_failed:
            self._output.complain(f"worker {self._hub.chief()}, the chief, failed: what it does last may be missing")
        self._output.complain(summary(failures, workers, complete=training.complete))
        return 0 if training.complete and len(failures) < workers and not chief_failed else 1

    def _show_round(self, result: Round, done: int, wanted: int) -> None:
        lost = f", {result.workers_lost} lost" if result.workers_lost else ""
        self._show(done, wanted, f", {result.seconds * 1e3:.0f} ms", f"{self._wanted.workers} workers{lost}")

    def _show_progress(self, told: Progress) -> None:
        if told.wanted:
            workers = self._workers
            self._show(told.done, told.wanted, "", f"workers {workers[0].number} to {workers[-1].number}")

    def _show(self, done: int, wanted: int, step: str, workers: str) -> None:
        seconds = time.monotonic() - self._begun
        self._output.progress(f"step {done} of {wanted}{step}, {workers}, {seconds:.0f} s")


def _check_straggler(wanted: argparse.Namespace, workers: int) -> None:
    """Raises ArgumentError."""
    if wanted.straggler:
        Straggler(wanted.straggler, workers, seed=wanted.straggler_seed)


def main(arguments: list[str]) -> int:
    wanted = options.parse(arguments)
    _hear_first()
    try:
        launcher = Launcher(wanted)
    except ArgumentError as error:
        options.parser().error(str(error))
    except Error as error:
        print(f"tarry run: {error}", file=sys.stderr)
        return 1
    except _Ended as ended:  # while the hub is looked for
        print(f"tarry run: {told(ended.args[0])}", file=sys.stderr)
        return 128 + int(ended.args[0])
    return launcher.run()
