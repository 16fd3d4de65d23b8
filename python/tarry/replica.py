# SPDX-License-Identifier: Apache-2.0
"""What a worker steps where everyone gets the sum."""

from typing import Any, Protocol

from ._native import ffi, lib
from .results import SumId, fill_sum_id


class Replica(Protocol):
    """The state of a worker: all have the same after the same step. Steps are tasks (Task.is_step).

    `save` and `load` are called by threads of the library: `save` while nothing steps, but perhaps in the middle of a
    gradient; what `load` gets must be in force for the next task.

    last   the sum that it has stepped on when the worker begins; None, or no such attribute: it has the first state
    """

    @property
    def last(self) -> SumId | None: ...

    def save(self) -> bytes:
        """The state; the same state gives the same bytes at every worker."""
        ...

    def load(self, state: bytes) -> None:
        """Takes the state that another worker, or a checkpoint, had."""
        ...


class ReplicaCalls:
    """The library's calls of a replica. An exception in one of them ends the worker; `error` keeps the first."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.error: BaseException | None = None
        self.handle: Any = ffi.new_handle(self)
        self._saved = b""
        self._coming = bytearray()
        self.pointer: Any = ffi.new("tarry_replica *")
        self.pointer.user = self.handle
        self.pointer.state_size = lib.tarry_call_state_size
        self.pointer.save = lib.tarry_call_save
        self.pointer.load = lib.tarry_call_load
        self.last: Any = ffi.new("tarry_sum_id *")
        last = getattr(replica, "last", None)
        if last is not None:
            fill_sum_id(self.last, last)

    def _fail(self, error: BaseException) -> int:
        self.error = self.error or error
        return lib.TARRY_ERROR_STATE

    def state_size(self) -> int:
        """Makes the bytes, which `save` hands out."""
        try:
            self._saved = bytes(self.replica.save())
        except BaseException as error:
            self._fail(error)
            self._saved = b""
        return len(self._saved)

    def save(self, first: int, into: Any, size: int) -> int:
        if self.error is not None:
            return lib.TARRY_ERROR_STATE
        ffi.memmove(into, self._saved[first : first + size], size)
        if first + size == len(self._saved):
            self._saved = b""
        return lib.TARRY_OK

    def load(self, total: int, first: int, piece: Any, size: int) -> int:
        if first == 0 and size == total:
            state = bytes(ffi.buffer(piece, size))
        else:
            if first == 0:
                self._coming = bytearray(total)
            self._coming[first : first + size] = ffi.buffer(piece, size)
            if first + size < total:
                return lib.TARRY_OK
            state, self._coming = bytes(self._coming), bytearray()
        try:
            self.replica.load(state)
        except BaseException as error:
            return self._fail(error)
        return lib.TARRY_OK


@ffi.def_extern(error=0)
def tarry_py_state_size(user: Any) -> int:
    return ffi.from_handle(user).state_size()


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_save(user: Any, first: int, into: Any, size: int) -> int:
    return ffi.from_handle(user).save(first, into, size)


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_load(user: Any, total: int, first: int, piece: Any, size: int) -> int:
    return ffi.from_handle(user).load(total, first, piece, size)
