# SPDX-License-Identifier: Apache-2.0
"""What a worker is given to do."""

from typing import Any, NamedTuple

from ._native import ffi, lib
from .errors import StateError
from .lifetime import Handle
from .vectors import Floats


class Span(NamedTuple):
    """Units first .. first + count - 1 of `of` equal units of the original chunk `origin`."""

    origin: int
    first: int
    count: int
    of: int

    def samples(self, samples: int) -> range:
        """Which of the `samples` samples of its original chunk these are."""
        return range(self.first * samples // self.of, (self.first + self.count) * samples // self.of)


class Task:
    """A gradient to compute: fill `gradient` with the sum of the gradients of `spans` at `parameters`, and give it back.

    Where steps are taken (Replica), a task may be one: `sum` is the sum to step on.
    Arrays are valid until the task is given back, and must not be used after that.
    """

    def __init__(self, handle: Handle, task: Any) -> None:
        self._handle = handle
        self._task = task
        self._given = False

    def _open(self) -> Any:
        if self._given:
            raise StateError("the task was given back")
        return self._task

    @property
    def is_step(self) -> bool:
        return self._open().sum != ffi.NULL

    @property
    def step(self) -> int:
        """Of a step: its number, from 1."""
        return self._open().step

    @property
    def worker(self) -> int:
        return self._open().worker

    @property
    def round(self) -> int:
        return self._open().round

    @property
    def unit(self) -> int:
        """The unit of work, of the present plan."""
        return self._open().chunk

    @property
    def spans(self) -> list[Span]:
        task = self._open()
        found = (task.spans[i] for i in range(task.span_count))
        return [Span(span.origin, span.first, span.count, span.of) for span in found]

    @property
    def dimension(self) -> int:
        return self._open().dimension

    @property
    def gradient(self) -> Floats:
        """To be written, all of it."""
        task = self._open()
        return self._handle.lend(task.gradient, task.dimension, writable=True)

    @property
    def gradient_address(self) -> int:
        """Where the gradient lies: the same few places come again and again."""
        return int(ffi.cast("uintptr_t", self._open().gradient))

    @property
    def parameters(self) -> Floats | None:
        """None where workers have their own."""
        task = self._open()
        if task.parameters == ffi.NULL:
            return None
        return self._handle.lend(task.parameters, task.parameter_count, writable=False)

    @property
    def sum(self) -> Floats:
        """Of a step."""
        task = self._open()
        return self._handle.lend(task.sum, task.dimension, writable=False)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return lib.tarry_compute_cancelled(self._open())

    def give(self, *, failed: bool = False) -> bool:
        """Gives the task back, done or as one that this worker can't do. False: it came too late, which is no error."""
        task = self._open()
        self._given = True
        result = lib.TARRY_ERROR_STATE if failed else 0
        return lib.tarry_task_give(task, result) == lib.TARRY_OK

    @property
    def given(self) -> bool:
        return self._given
