# SPDX-License-Identifier: Apache-2.0
"""What a worker is given to do."""

from typing import Any, NamedTuple

from ._native import ffi, lib
from .errors import ArgumentError, StateError
from .lifetime import Handle
from .vectors import Floats


class Span(NamedTuple):
    """Shares first .. first + count - 1 of the `of` equal shares of the unit `origin` of the first plan.

    Unless plans change during a run that is all of it: (unit, 0, 1, 1).
    """

    origin: int
    first: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    of: int

    def samples(self, samples: int) -> range:
        """Which of the `samples` samples of that unit these are."""
        return range(self.first * samples // self.of, (self.first + self.count) * samples // self.of)


class Task:
    """A gradient to compute: fill `gradient` with the sum of the gradients of `spans` at `parameters`; give it back.

    Where steps are taken (Replica), a task may be one: `sum` is the sum to step on, and there is no gradient.
    Arrays are valid until the task is given back, and must not be used after that: their memory holds other numbers
    then. StateError: the task was given back, or its worker is closed.
    """

    def __init__(self, handle: Handle, task: Any) -> None:
        self._handle = handle
        self._task = task
        self._given = False

    def _open(self) -> Any:
        if self._given:
            raise StateError("the task was given back")
        return self._task

    def _lend(self, pointer: Any, count: int, name: str, *, writable: bool) -> Floats:
        if pointer == ffi.NULL:
            if name == ("sum" if self.is_step else "gradient"):
                raise StateError(f"the {name} is not float32 in host memory: the owner of vectors has it at its place")
            raise StateError(f"the task is {'a step' if self.is_step else 'no step'}, and has no {name}")
        return self._handle.lend(pointer, count, writable=writable)

    @property
    def is_step(self) -> bool:
        with self._handle.use():
            return self._open().step != 0

    @property
    def step(self) -> int:
        """Of a step: its number, from 1."""
        with self._handle.use():
            return self._open().step

    @property
    def place(self) -> int:
        """Of the gradient, or of the sum to step on, among the worker's vectors (tarry.Vectors)."""
        with self._handle.use():
            return self._open().place

    @property
    def worker(self) -> int:
        with self._handle.use():
            return self._open().worker

    @property
    def round(self) -> int:
        with self._handle.use():
            return self._open().round

    @property
    def unit(self) -> int:
        """The unit of work, of the present plan."""
        with self._handle.use():
            return self._open().chunk

    @property
    def spans(self) -> list[Span]:
        """Which data: one span or more; of a step none."""
        with self._handle.use():
            task = self._open()
            found = (task.spans[i] for i in range(task.span_count))
            return [Span(span.origin, span.first, span.count, span.of) for span in found]

    @property
    def dimension(self) -> int:
        with self._handle.use():
            return self._open().dimension

    @property
    def gradient(self) -> Floats:
        """To be written, all of it; what is in it before is of any kind."""
        with self._handle.use():
            task = self._open()
            return self._lend(task.gradient, task.dimension, "gradient", writable=True)

    @gradient.setter
    def gradient(self, numbers: Floats) -> None:
        """Copies numbers into it, unless they are the gradient itself: so `task.gradient += more` does what it says."""
        gradient = self.gradient
        if numbers is not gradient and numbers.ctypes.data != gradient.ctypes.data:
            gradient[:] = numbers

    @property
    def parameters(self) -> Floats | None:
        """To be read. None where workers have their own."""
        with self._handle.use():
            task = self._open()
            if task.parameters == ffi.NULL:
                return None
            return self._lend(task.parameters, task.parameter_count, "parameters", writable=False)

    @property
    def sum(self) -> Floats:
        """Of a step: to be read."""
        with self._handle.use():
            task = self._open()
            return self._lend(task.sum, task.dimension, "sum", writable=False)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more, as when the worker is closed."""
        handle = self._handle
        try:
            handle.enter()  # asked for often, as before each module of a network: no `with`
        except StateError:
            self._open()
            return True
        try:
            return lib.tarry_compute_cancelled(self._open())
        finally:
            handle.leave()

    def bind(self, digest: bytes) -> None:
        """Secure sums: 32 bytes of what the gradient depends on beside parameters and samples, as the state of a model
        that the worker keeps. Masks cancel only among workers whose tasks of the round were bound to the same.

        Raises StateError: another task of this round was bound to something else.
        """
        if len(digest) != lib.TARRY_DIGEST_SIZE:
            raise ArgumentError(f"a digest of {len(digest)} bytes: {lib.TARRY_DIGEST_SIZE} are wanted")
        with self._handle.use():
            if lib.tarry_task_bind(self._open(), digest) != lib.TARRY_OK:
                raise StateError("another task of this round was bound to something else, or the round is over")

    def give(self, *, failed: bool = False) -> bool:
        """Gives the task back, done or as one that this worker can't do. Waits for injected delays.

        False: it came too late, or the worker is closed; that is no error.
        """
        if self._given:
            raise StateError("the task was given back")
        self._given = True
        result = lib.TARRY_ERROR_STATE if failed else lib.TARRY_OK
        try:
            with self._handle.use(closed=True):  # a local runtime waits for its tasks before it ends
                return lib.tarry_task_give(self._task, result) == lib.TARRY_OK
        except StateError:
            return False

    @property
    def given(self) -> bool:
        return self._given

    def __repr__(self) -> str:
        return f"<tarry.Task{' that was given back' if self._given else ''}>"
