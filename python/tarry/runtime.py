# SPDX-License-Identifier: Apache-2.0
"""What servers over the network and local runtimes have in common: rounds, who is there, checkpoints."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from ._native import ffi, lib
from .calls import Caller
from .errors import ArgumentError, Diagnostic, error_of
from .lifetime import Handle
from .names import nanoseconds
from .plan import Plan
from .results import Round, SumId, round_of, sum_id_of
from .vectors import Floats, Vector, as_floats, pointer_to


class WorkerState(NamedTuple):
    """What a worker did so far, over all rounds."""

    worker: int
    present: bool
    units: int  # that it finished, as the server heard
    pace: float  # seconds that a unit of mean cost takes it; 0: not known
    arrivals: int
    silent: int  # how often the server went on without it: it did not answer,
    gone: int  # its connection was lost,
    late: int  # it was late with its part,
    failed: int  # it could not compute


class Runtime:
    """The server's side of workers, wherever they are. One thread at a time uses it; `interrupt` is for any."""

    def __init__(self, plan: Plan, parameters: int, dimension: int, *, everywhere: bool) -> None:
        self.plan = plan
        self.parameters = parameters
        self.dimension = dimension
        self.everywhere = everywhere
        self._handle: Handle
        self._caller = Caller(self.interrupt)
        self._finished = True

    def _begin(self, pointer: Any, stop: Callable[[Any], None]) -> None:
        self._handle = Handle(pointer, stop, lambda runtime: lib.tarry_runtime_free(runtime, self._finished))

    def wait(self, workers: int | None = None, timeout: float | None = None) -> None:
        """Waits until so many workers are there (None: all of the plan). Raises StateError when the time is over."""
        count = self.plan.workers if workers is None else workers
        why, limit = Diagnostic(), nanoseconds(timeout, "timeout")
        runtime = self._handle.pointer
        why.check(self._caller.call(lambda: lib.tarry_runtime_wait(runtime, count, limit, why.pointer)))

    def round(self, parameters: Vector | None = None, out: Vector | None = None) -> Round:
        """Runs a round: the sum of the chunks' gradients at `parameters`, or the estimate that the stop rule allows.

        parameters  float32 numbers, read until it returns: a NumPy array, a tensor on the CPU, ..
        out         `dimension` numbers to be written; None: a new array. The result's `sum` is it.

        Where everyone gets the sum both are None. Raises CoverageError, LinksError: more workers may come, and another
        round be run; InterruptedByCaller; NumericalError.
        """
        runtime, why = self._handle.pointer, Diagnostic()
        result = ffi.new("tarry_round_result *")
        given = vector = None
        if self.everywhere:
            if parameters is not None or out is not None:
                raise ArgumentError("where everyone gets the sum, workers have the parameters, and get it")
            numbers = into = ffi.NULL
        else:
            if parameters is None:
                raise ArgumentError("a round needs parameters")
            given = as_floats(parameters, self.parameters, "parameters")
            vector = (
                np.empty(self.dimension, dtype=np.float32)
                if out is None
                else as_floats(out, self.dimension, "out", writable=True)
            )
            numbers, into = pointer_to(given), pointer_to(vector)
        code = self._caller.call(lambda: lib.tarry_runtime_round(runtime, numbers, into, result, why.pointer))
        self._raise_own()
        if code != lib.TARRY_OK:
            raise error_of(code, why.text)
        return round_of(result, vector)

    def interrupt(self) -> None:
        """Makes the round or wait in progress, or the next one, raise InterruptedByCaller. Any thread."""
        lib.tarry_runtime_interrupt(self._handle.pointer)

    def costs(self, costs: Vector | None) -> None:
        """What each unit costs from now on, relative to each other; None: learned."""
        if costs is None:
            code = lib.tarry_runtime_costs(self._handle.pointer, ffi.NULL)
        else:
            known = np.ascontiguousarray(np.asarray(costs, dtype=np.float64))
            if known.size != self.plan.units:
                raise ValueError(f"costs has {known.size} numbers, and the plan {self.plan.units} units")
            code = lib.tarry_runtime_costs(self._handle.pointer, ffi.cast("double *", known.ctypes.data))
        if code != lib.TARRY_OK:
            raise error_of(code)

    def workers(self) -> list[WorkerState]:
        """Each worker's state."""
        return [self._state(worker) for worker in range(self.plan.workers)]

    def _state(self, worker: int) -> WorkerState:
        found = lib.tarry_runtime_worker(self._handle.pointer, worker)
        return WorkerState(
            worker,
            found.present,
            found.chunks,
            found.pace,
            found.arrivals,
            found.silent,
            found.gone,
            found.late,
            found.failed,
        )

    def _look(self, look: Callable[[Any], Any]) -> Any:
        handle = ffi.new_handle(look)
        found: list[Any] = []
        _looks[handle] = found
        try:
            lib.tarry_runtime_visit(self._handle.pointer, lib.tarry_py_look, handle)
        finally:
            del _looks[handle]
        return found[0]

    def checkpoint(self) -> bytes:
        """What a server for the same plan and settings needs to go on from here; between rounds."""
        size = self._look(lib.tarry_server_checkpoint_size)
        bytes_ = ffi.new("uint8_t[]", size)
        code = lib.tarry_runtime_checkpoint(self._handle.pointer, bytes_)
        if code != lib.TARRY_OK:
            raise error_of(code)
        return bytes(ffi.buffer(bytes_))

    def stored(self, checkpoint: bytes) -> None:
        """Says that the checkpoint lies where a restart reads it."""
        lib.tarry_runtime_stored(self._handle.pointer, ffi.from_buffer("uint8_t[]", checkpoint))

    def state(self, timeout: float | None = None) -> tuple[SumId, bytes]:
        """Where everyone gets the sum: the state after the last committed sum, of a worker that has it."""
        after, held, size = ffi.new("tarry_sum_id *"), ffi.new("void **"), ffi.new("uint64_t *")
        runtime, why, limit = self._handle.pointer, Diagnostic(), nanoseconds(timeout, "timeout")
        why.check(self._caller.call(lambda: lib.tarry_runtime_state(runtime, limit, after, held, size, why.pointer)))
        state = bytes(ffi.buffer(held[0], size[0]))
        lib.tarry_runtime_release_state(runtime, held[0])
        return sum_id_of(after), state

    def sum(self, timeout: float | None = None) -> Floats:
        """Where everyone gets the sum: the last committed one, of a worker that holds it."""
        vector = np.empty(self.dimension, dtype=np.float32)
        runtime, why, limit = self._handle.pointer, Diagnostic(), nanoseconds(timeout, "timeout")
        numbers = pointer_to(vector)
        why.check(self._caller.call(lambda: lib.tarry_runtime_sum(runtime, limit, numbers, why.pointer)))
        return vector

    def close(self, *, finished: bool = True) -> None:
        """Ends the runtime: workers hear that the run is over (`finished`), or that it will be resumed."""
        self._finished = finished
        self._caller.close()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise_own(self) -> None:
        """Raises what went wrong in this process, if anything did."""


_looks: dict[Any, list[Any]] = {}


@ffi.def_extern(error=0)
def tarry_py_look(user: Any, machine: Any) -> int:
    _looks[user].append(ffi.from_handle(user)(machine))
    return 0
