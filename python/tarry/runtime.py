# SPDX-License-Identifier: Apache-2.0
"""What servers over the network and local runtimes have in common: rounds, who is there, checkpoints."""

import contextlib
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic, StateError, error_of, keep_error
from .lifetime import Handle, abandon, watch_for_abandoned
from .names import nanoseconds
from .plan import Plan
from .results import Round, SumId, round_of, sum_id_of
from .vectors import Bytes, Floats, Vector, as_floats, pointer_to

# A wait that does not hear of interrupts is made of pieces of so long.
_PIECE_NS = 50_000_000
# More than a round that is interrupted ever takes to end.
_INTERRUPT_SECONDS = 5.0


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


class RuntimeHandle(Handle):
    """The library's runtime."""

    def __init__(self, what: str, pointer: Any, kept: object) -> None:
        super().__init__(what, pointer, kept)
        self.finished = True
        self._wanted: list[None] = []  # interrupts that somebody asked for, and nobody has heard of
        self._waiting: list[None] = []  # calls in progress that hear of them

    def stop(self, pointer: Any, limit: float | None) -> bool:
        """Rounds in progress are over when it returns; they end at once, unless this is called by one of their own."""
        lib.tarry_runtime_interrupt(pointer)
        until = time.monotonic() + _INTERRUPT_SECONDS
        while self._waiting and time.monotonic() < until:
            time.sleep(0.001)
        return True

    def free(self, pointer: Any) -> None:
        lib.tarry_runtime_free(pointer, self.finished)

    def interrupt(self) -> None:
        with self.use() as runtime:
            self._wanted.append(None)
            lib.tarry_runtime_interrupt(runtime)

    def take_interrupt(self) -> bool:
        """Whether an interrupt was asked for; it is not any more."""
        wanted = bool(self._wanted)
        self._wanted.clear()
        return wanted

    def call(self, function: Callable[[Any], int]) -> int:
        """Makes a call that waits. If it hears of an interrupt that was meant for one before, it is made again."""

        def calls() -> int:
            self._waiting.append(None)
            try:
                with self.use() as runtime:
                    while (code := function(runtime)) == lib.TARRY_ERROR_INTERRUPTED:
                        if self.take_interrupt() or self.closed:
                            break
                    return code
            finally:
                self._waiting.pop()

        with self.use():  # a closed one needs no thread
            pass
        try:
            return self.caller.call(calls, self._interrupt_if_open)
        except BaseException:
            self.take_interrupt()
            raise

    def call_in_pieces(self, function: Callable[[Any, int], int], limit_ns: int) -> int:
        """Calls a function that copies something from a worker, waits for so many nanoseconds, does not hear of
        interrupts, and continues the same transfer when it is called again. The limit is for a time without progress.
        """

        def calls(runtime: Any) -> int:
            copied = lib.tarry_runtime_copied(runtime)
            until = time.monotonic_ns() + limit_ns
            while True:
                began = time.monotonic_ns()
                piece = max(0, min(until - began, _PIECE_NS))
                code = function(runtime, piece)
                now = time.monotonic_ns()
                if code != lib.TARRY_ERROR_STATE or now - began < piece:
                    return code
                if (moved := lib.tarry_runtime_copied(runtime)) != copied:
                    copied, until = moved, now + limit_ns
                if now >= until:
                    return code
                if self._wanted or self.closed:
                    return lib.TARRY_ERROR_INTERRUPTED

        return self.call(calls)

    def _interrupt_if_open(self) -> None:
        with contextlib.suppress(StateError):  # closed meanwhile, which interrupts, too
            self.interrupt()


class Runtime:
    """The server's side of workers, wherever they are. For one thread at a time, but `interrupt` and `close` for any.

    StateError: it is closed.
    """

    _handle: RuntimeHandle

    def __init__(self, plan: Plan, parameters: int, dimension: int, *, everywhere: bool) -> None:
        self.plan = plan
        self.parameters = parameters
        self.dimension = dimension
        self.everywhere = everywhere

    def _begin(self, handle: RuntimeHandle) -> None:
        self._handle = handle
        watch_for_abandoned()
        weakref.finalize(self, abandon, handle).atexit = False

    def wait(self, workers: int | None = None, timeout: float | None = None) -> None:
        """Waits until so many workers are there (None: all of the plan). Raises StateError when the time is over."""
        count = self.plan.workers if workers is None else workers
        if not 0 <= count <= self.plan.workers:
            raise ArgumentError(f"workers is {workers}, and the plan has {self.plan.workers}")
        why, limit = Diagnostic(), nanoseconds(timeout, "timeout")
        why.check(self._handle.call(lambda runtime: lib.tarry_runtime_wait(runtime, count, limit, why.pointer)))

    def round(self, parameters: Vector | None = None, out: Vector | None = None) -> Round:
        """Runs a round: the sum of the chunks' gradients at `parameters`, or the estimate that the stop rule allows.

        parameters  float32 numbers, read until it returns: a NumPy array, a tensor on the CPU, ..
        out         `dimension` numbers to be written; None: a new array. The result's `sum` is an array over it.

        Where everyone gets the sum both are None. Raises CoverageError, LinksError: more workers may come, and another
        round be run; InterruptedByCaller; NumericalError; what a function of the caller's raised.
        """
        why, result = Diagnostic(), ffi.new("tarry_round_result *")
        given, vector = self._vectors_of_round(parameters, out)
        numbers, into = (ffi.NULL if one is None else pointer_to(one) for one in (given, vector))
        code = self._handle.call(
            lambda runtime: lib.tarry_runtime_round(runtime, numbers, into, result, why.pointer)
        )  # fmt: skip
        self._raise_own()
        if code != lib.TARRY_OK:
            raise error_of(code, why.text)
        return round_of(result, vector)

    def _vectors_of_round(self, parameters: Vector | None, out: Vector | None) -> tuple[Floats | None, Floats | None]:
        if self.everywhere:
            if parameters is not None or out is not None:
                raise ArgumentError("where everyone gets the sum, workers have the parameters, and get it")
            return None, None
        if parameters is None:
            raise ArgumentError("a round needs parameters")
        given = as_floats(parameters, self.parameters, "parameters")
        if out is None:
            return given, np.empty(self.dimension, dtype=np.float32)
        vector = as_floats(out, self.dimension, "out", writable=True)
        if np.may_share_memory(given, vector):
            raise ArgumentError("out lies where the parameters do, which are read until the round is over")
        return given, vector

    def interrupt(self) -> None:
        """Makes the round or another call that waits, or the next one, raise InterruptedByCaller. Any thread."""
        self._handle.interrupt()

    def costs(self, costs: Vector | Sequence[float] | None) -> None:
        """What each unit costs from now on, relative to each other; None: learned. Raises ArgumentError."""
        if costs is None:
            known, pointer = None, ffi.NULL
        else:
            known = np.ascontiguousarray(np.asarray(costs, dtype=np.float64))
            if known.size != self.plan.units:
                raise ArgumentError(f"costs has {known.size} numbers, and the plan {self.plan.units} units")
            if not np.all(np.isfinite(known) & (known >= 0)):
                raise ArgumentError("costs must be finite, and none below 0")
            pointer = ffi.cast("double *", known.ctypes.data)
        with self._handle.use() as runtime:
            code = lib.tarry_runtime_costs(runtime, pointer)
        if code != lib.TARRY_OK:
            raise error_of(code)

    def workers(self) -> list[WorkerState]:
        """Each worker's state. Of a tarry.Server also during rounds, for any thread."""
        return [self._state(worker) for worker in range(self.plan.workers)]

    def _state(self, worker: int) -> WorkerState:
        with self._handle.use() as runtime:
            found = lib.tarry_runtime_worker(runtime, worker)
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
        own = _Look(look)
        handle = ffi.new_handle(own)
        with self._handle.use() as runtime:
            lib.tarry_runtime_visit(runtime, lib.tarry_call_look, handle)
        return own.result()

    def checkpoint(self) -> bytes:
        """What a server for the same plan and settings needs to go on from here; between rounds."""
        size = self._look(lib.tarry_server_checkpoint_size)
        bytes_ = ffi.new("uint8_t[]", size)
        with self._handle.use() as runtime:
            code = lib.tarry_runtime_checkpoint(runtime, bytes_)
        if code != lib.TARRY_OK:
            raise error_of(code)
        return bytes(ffi.buffer(bytes_))

    def stored(self, checkpoint: bytes) -> None:
        """Says that the checkpoint lies where a restart reads it. Raises ArgumentError: it is none of this runtime."""
        size = self._look(lib.tarry_server_checkpoint_size)
        if len(checkpoint) != size:
            raise ArgumentError(f"a checkpoint of {len(checkpoint)} bytes, and those of this runtime have {size}")
        with self._handle.use() as runtime:
            lib.tarry_runtime_stored(runtime, ffi.from_buffer("uint8_t[]", checkpoint))

    def state(self, timeout: float | None = None) -> tuple[SumId, bytes]:
        """Where everyone gets the sum: the state after the last committed sum, of a worker that has it.

        Raises StateError: nothing of it has arrived for `timeout` seconds, or the server makes the sum;
        InterruptedByCaller.
        """
        after, state = self.state_view(timeout)
        return after, state.tobytes()

    def state_view(self, timeout: float | None = None) -> tuple[SumId, Bytes]:
        """As `state`, without a copy: a read-only array of bytes over the state's memory, which is freed with it."""
        after, held, size = ffi.new("tarry_sum_id *"), ffi.new("void **"), ffi.new("uint64_t *")
        why, limit = Diagnostic(), nanoseconds(timeout, "timeout")
        why.check(
            self._handle.call_in_pieces(
                lambda runtime, piece: lib.tarry_runtime_state(runtime, piece, after, held, size, why.pointer), limit
            )
        )
        owner = ffi.gc(held[0], lib.tarry_py_release, size[0])
        # No memoryview: Python 3.11 crashes if its garbage collector clears one, as it does at the interpreter's end.
        state = np.frombuffer(ffi.buffer(owner, size[0]), dtype=np.uint8)
        state.flags.writeable = False
        return sum_id_of(after), state

    def sum(self, timeout: float | None = None) -> Floats:
        """Where everyone gets the sum: the last committed one, of a worker that holds it. Raises as `state`."""
        vector = np.empty(self.dimension, dtype=np.float32)
        why, limit = Diagnostic(), nanoseconds(timeout, "timeout")
        numbers = pointer_to(vector)
        why.check(
            self._handle.call_in_pieces(
                lambda runtime, piece: lib.tarry_runtime_sum(runtime, piece, numbers, why.pointer), limit
            )
        )
        return vector

    def close(self, *, finished: bool = True) -> None:
        """Ends the runtime: workers hear that the run is over (`finished`), or that it will be resumed. Any thread.

        Waits for functions of the caller's that compute in this process. A call in progress in another thread raises
        StateError or InterruptedByCaller, and the runtime ends with it.
        """
        self._handle.finished = finished
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise_own(self) -> None:
        """Raises what went wrong in this process, if anything did."""


class _Look:
    """A look at the server's machine, and what it found."""

    def __init__(self, look: Callable[[Any], Any]) -> None:
        self._look = look
        self._found: list[Any] = []
        self._error: BaseException | None = None

    def see(self, machine: Any) -> None:
        self._found.append(self._look(machine))

    def fail(self, error: BaseException) -> None:
        self._error = error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._found[0]


@ffi.def_extern(error=0, onerror=keep_error)
def tarry_py_look(user: Any, machine: Any) -> int:
    ffi.from_handle(user).see(machine)
    return 0
