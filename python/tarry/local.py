# SPDX-License-Identifier: Apache-2.0
"""Server and workers in this process, each worker with a thread that computes."""

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic, StateError
from .names import NEVER, SUMS, put
from .owner import Vectors, VectorsCalls
from .plan import Plan
from .replica import Replica, ReplicaCalls
from .runtime import Runtime, RuntimeHandle
from .settings import ServerSettings, server_settings
from .straggler import Straggler
from .task import Task


class _Computing:
    """What the workers' threads share; they don't hold the runtime, which so ends when nobody has it any more."""

    def __init__(self, compute: Callable[[Task], None], calls: list[ReplicaCalls | VectorsCalls]) -> None:
        self.compute = compute
        self.calls = calls
        self._failed: list[tuple[int, BaseException]] = []
        self._raised = -1  # the last round that an error was raised of

    def work(self, handle: "LocalHandle", worker: int) -> None:
        """A worker's thread."""
        found = ffi.new("const tarry_task **")
        while handle.take(worker, found):
            task = Task(handle, found[0])
            number = found[0].round
            try:
                self.compute(task)
                failed = False
            except BaseException as error:
                self._fail(handle, number, error)
                failed = True
            if not task.given:
                task.give(failed=failed)

    def _fail(self, handle: "LocalHandle", number: int, error: BaseException) -> None:
        if number > self._raised and not handle.closed:
            self._failed.append((number, error))
            handle.interrupt()

    def raise_own(self, handle: "LocalHandle") -> None:
        """Raises the first error since the last one that was raised; others of the same round are no news."""
        if self._failed:
            failed, self._failed = self._failed, []
            self._raised = max(number for number, _ in failed)
            handle.take_interrupt()
            raise failed[0][1]
        for calls in self.calls:
            if calls.error is not None:
                raise calls.error


class LocalHandle(RuntimeHandle):
    """A runtime whose workers' threads are Python's."""

    def __init__(self, pointer: Any, computing: _Computing, workers: int, kept: object) -> None:
        super().__init__("the local runtime", pointer, kept)
        self._threads = [
            threading.Thread(target=computing.work, args=(self, worker), name=f"tarry-worker-{worker}", daemon=True)
            for worker in range(workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def take(self, worker: int, found: Any) -> bool:
        """The worker's next task; False: there is none any more."""
        try:
            with self.use() as runtime:
                return lib.tarry_local_take(runtime, worker, NEVER, found) == lib.TARRY_OK and found[0] != ffi.NULL
        except StateError:
            return False

    def close(self, limit: float | None = None) -> None:
        if threading.current_thread() in self._threads:
            raise StateError("a compute function can't close the runtime that waits for it")
        super().close(limit)

    def stop(self, pointer: Any, limit: float | None) -> bool:
        super().stop(pointer, limit)
        lib.tarry_local_dismiss(pointer)
        until = None if limit is None else time.monotonic() + limit
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


class Local(Runtime):
    """A server and the plan's workers in this process; `compute` is called in a thread of each worker.

        def compute(task):
            task.gradient[:] = ...

        with tarry.Local(plan, d, compute) as local:
            result = local.round(parameters)

    compute     fills the task's gradient. An exception in it ends the round, which raises it; if that round is over,
                the next one does
    parameters  numbers in the parameters (None: as in a gradient)
    straggler   delays that are injected
    replicas    where everyone gets the sum: what each worker steps; `compute` gets its steps, too (Task.is_step)
    checkpoint  of a runtime before, to go on from
    vectors     the owners of the workers' vectors, one each; None: they are in the library's memory

    Further settings are those of ServerSettings.
    """

    def __init__(
        self,
        plan: Plan,
        dimension: int,
        compute: Callable[[Task], None],
        *,
        parameters: int | None = None,
        straggler: Straggler | None = None,
        replicas: Sequence[Replica] | None = None,
        checkpoint: bytes | None = None,
        vectors: Sequence[Vectors] | None = None,
        **wanted: Unpack[ServerSettings],
    ) -> None:
        server = server_settings(plan, dimension, wanted)
        everywhere = server.sum == SUMS["everywhere"]
        super().__init__(
            plan, dimension if parameters is None else parameters, dimension, everywhere=everywhere
        )  # fmt: skip
        if everywhere and (replicas is None or len(replicas) != plan.workers):
            raise ArgumentError(f"where everyone gets the sum, each of the {plan.workers} workers needs a replica")
        settings = ffi.new("tarry_local_settings *")
        lib.tarry_local_settings_init_sized(settings, ffi.sizeof("tarry_local_settings"))
        stripe_length = settings.server.stripe_length
        put(settings, "parameters", self.parameters)
        put(settings, "dimension", dimension)
        settings.straggler = straggler.pointer if straggler is not None else ffi.NULL
        settings.server = server
        settings.server.stripe_length = stripe_length
        stored = ffi.from_buffer("uint8_t[]", checkpoint or b"")
        if checkpoint is not None:
            settings.checkpoint, settings.checkpoint_size = stored, len(checkpoint)
        calls = [ReplicaCalls(replica) for replica in replicas or ()]
        held = ffi.new("tarry_replica[]", max(1, len(calls)))
        for place, one in enumerate(calls):
            held[place] = one.pointer[0]
        settings.replicas = held if everywhere else ffi.NULL
        last = ffi.new("tarry_sum_id[]", max(1, len(calls)))
        for place, one in enumerate(calls):
            last[place] = one.last[0]
        settings.last = last if any(one.last.step for one in calls) else ffi.NULL
        owners = [VectorsCalls(owner) for owner in vectors or ()]
        if vectors is not None and len(owners) != plan.workers:
            raise ArgumentError(f"each of the {plan.workers} workers needs an owner of vectors")
        owned = ffi.new("tarry_vectors *[]", [one.pointer for one in owners] or 1)
        settings.vectors = owned if owners else ffi.NULL
        made, why = ffi.new("tarry_runtime **"), Diagnostic()
        why.check(lib.tarry_local_create(plan.pointer, settings, ffi.NULL, made, why.pointer))
        computing = _Computing(compute, [*calls, *owners])
        handle = LocalHandle(made[0], computing, plan.workers, (plan, straggler, calls, owners))
        self._raise = functools.partial(computing.raise_own, handle)
        self._begin(handle)
        try:
            handle.start()
        except BaseException:
            handle.close()
            raise

    def _raise_own(self) -> None:
        self._raise()
