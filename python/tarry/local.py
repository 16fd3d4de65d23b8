# SPDX-License-Identifier: Apache-2.0
"""Server and workers in this process, each worker with a thread that computes."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic
from .names import NEVER, SUMS
from .plan import Plan
from .replica import Replica, ReplicaCalls
from .runtime import Runtime
from .settings import ServerSettings, server_settings
from .straggler import Straggler
from .task import Task


class Local(Runtime):
    """A server and the plan's workers in this process; `compute` is called in a thread of each worker.

        def compute(task):
            task.gradient[:] = ...

        with tarry.Local(plan, d, compute) as local:
            result = local.round(parameters)

    compute     fills the task's gradient. An exception in it ends the round, which raises it
    parameters  numbers in the parameters (None: as in a gradient)
    straggler   delays that are injected
    replicas    where everyone gets the sum: what each worker steps; `compute` gets its steps, too (Task.is_step)

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
        settings.parameters, settings.dimension = self.parameters, dimension
        settings.straggler = straggler.pointer if straggler is not None else ffi.NULL
        settings.server = server
        settings.server.stripe_length = stripe_length
        stored = ffi.from_buffer("uint8_t[]", checkpoint or b"")
        if checkpoint is not None:
            settings.checkpoint, settings.checkpoint_size = stored, len(checkpoint)
        self._straggler = straggler
        self._calls = [ReplicaCalls(replica) for replica in replicas or ()]
        held = ffi.new("tarry_replica[]", max(1, len(self._calls)))
        for place, calls in enumerate(self._calls):
            held[place] = calls.pointer[0]
        settings.replicas = held if everywhere else ffi.NULL
        last = ffi.new("tarry_sum_id[]", max(1, len(self._calls)))
        for place, calls in enumerate(self._calls):
            last[place] = calls.last[0]
        settings.last = last if any(calls.last.step for calls in self._calls) else ffi.NULL
        self._compute = compute
        self._error: BaseException | None = None
        made, why = ffi.new("tarry_runtime **"), Diagnostic()
        why.check(lib.tarry_local_create(plan.pointer, settings, ffi.NULL, made, why.pointer))
        self._begin(made[0], self._dismiss)
        self._threads = [
            threading.Thread(target=self._work, args=(made[0], worker), name=f"tarry-worker-{worker}", daemon=True)
            for worker in range(plan.workers)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, runtime: Any, worker: int) -> None:
        found = ffi.new("const tarry_task **")
        while lib.tarry_local_take(runtime, worker, NEVER, found) == lib.TARRY_OK and found[0] != ffi.NULL:
            task = Task(self._handle, found[0])
            try:
                self._compute(task)
                failed = False
            except BaseException as error:
                self._fail(error)
                failed = True
            if not task.given:
                task.give(failed=failed)

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            self.interrupt()

    def _raise_own(self) -> None:
        for error in (self._error, *(calls.error for calls in self._calls)):
            if error is not None:
                self._error = None
                raise error

    def _dismiss(self, runtime: Any) -> None:
        lib.tarry_local_dismiss(runtime)
        for thread in self._threads:
            thread.join()
