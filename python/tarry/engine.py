# SPDX-License-Identifier: Apache-2.0
"""Engines in Python: what makes the sum where everyone gets it, in the place of the library's own."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ._native import ffi, lib
from .errors import ArgumentError
from .names import NEVER
from .owner import DTYPES, Numbers
from .results import SumId, sum_id_of
from .vectors import Floats

IDLE, RUNNING, DONE, FAILED = "idle", "running", "done", "failed"
_STATES = {
    IDLE: lib.TARRY_ENGINE_IDLE,
    RUNNING: lib.TARRY_ENGINE_RUNNING,
    DONE: lib.TARRY_ENGINE_DONE,
    FAILED: lib.TARRY_ENGINE_FAILED,
}


class Member(NamedTuple):
    """One who takes part in a sum."""

    worker: int
    address: bytes  # that its engine gave


class Group(NamedTuple):
    """Those who take part in a sum, in ascending order of workers: the same at all of them."""

    epoch: int  # never the same for two groups
    place: int  # the own one among the members
    members: tuple[Member, ...]


class Progress(NamedTuple):
    """How far a sum is."""

    state: str
    why: str = ""  # FAILED: a few words
    suspect: int | None = None  # FAILED: the worker because of which, if the engine knows


UP, DOWN = int(lib.TARRY_WAY_UP), int(lib.TARRY_WAY_DOWN)  # to those who sum, and back


class SumForms:
    """The forms in which numbers of a sum travel, as Tarry's own engine has them (include/tarry/sum_form.h).

    `UP` are those of coded parts on their way to who sums them, and `DOWN` of the sum on its way back. Not of the
    library's memory: it may be used when the sum is over.

    Numbers have the places that they have in the sum; `first` is a multiple of 16.
    """

    def __init__(self, wanted: Any) -> None:
        self._sum = ffi.new("tarry_engine_sum *")
        self._sum.name.step = wanted.name.step
        for field in ("dimension", "parts", "compress", "compress_down", "compress_seed", "compress_exact"):
            setattr(self._sum, field, getattr(wanted, field))

    def rounds(self, way: int) -> bool:
        """Whether numbers are in another form than float32."""
        return bool(lib.tarry_sum_form_rounds(self._sum, way))

    def bytes(self, way: int, first: int, count: int) -> int:
        return int(lib.tarry_sum_form_bytes(self._sum, way, first, count))

    def encode(self, way: int, worker: int, first: int, numbers: Floats) -> npt.NDArray[np.uint8]:
        """As that worker sends them."""
        own = np.ascontiguousarray(numbers, dtype=np.float32)
        into = np.empty(self.bytes(way, first, len(own)), dtype=np.uint8)
        source, found = ffi.from_buffer("float[]", own), ffi.from_buffer("uint8_t[]", into, require_writable=True)
        lib.tarry_sum_form_encode(self._sum, way, worker, first, len(own), source, found)
        return into

    def decode(self, way: int, first: int, count: int, found: npt.NDArray[np.uint8]) -> Floats:
        """Raises ArgumentError, if these are not the bytes of so many numbers."""
        if len(found) != self.bytes(way, first, count):
            raise ArgumentError(f"{len(found)} bytes, where {count} numbers take {self.bytes(way, first, count)}")
        into = np.empty(count, dtype=np.float32)
        source, numbers = ffi.from_buffer("uint8_t[]", found), ffi.from_buffer("float[]", into, require_writable=True)
        lib.tarry_sum_form_decode(self._sum, way, first, count, source, numbers)
        return into


class EngineSum:
    """A sum to be made: in part p, number i is sum over members m of weights[p, m] * (m's part)[i].

    Its arrays are the library's memory: not to be touched any more once the sum is DONE, FAILED or abandoned.

    name    which sum it is, the same at all members; its digest says nothing
    part    the own coded part; None: zeros
    weights parts x members, the same at all members
    sum     to be written: all parts, one behind the other; the last one may be shorter than the others
    dtype   of part and sum: float32, or float64 at an engine with `owners`
    vectors the owner's of part and sum (include/tarry/vectors.h), as the library has it, if these are not float32 in
            host memory: at part_place (None: zeros) and sum_place. `part` and `sum` are empty then, and `fill` and
            `take` do what has to be done with them. None: `part` and `sum` are all there is
    forms   in which numbers travel, the same at all members, with one part; None: float32 both ways. An engine that
            does not say that it knows them is asked for none
    """

    def __init__(self, wanted: Any, members: int) -> None:
        self.name: SumId = sum_id_of(wanted.name)
        self.parts = int(wanted.parts)
        self._stride = -(-wanted.dimension // self.parts)
        self.part: Floats | None = _floats(wanted.part, self._stride) if wanted.part else None
        self.weights: Floats = _floats(wanted.weights, self.parts * members).reshape(self.parts, members)
        self.dimension = int(wanted.dimension)
        self.dtype: Any = DTYPES[wanted.element]
        self.vectors: Any = wanted.vectors if wanted.vectors != ffi.NULL else None
        self.part_place = None if wanted.part_place == lib.TARRY_NO_PLACE else int(wanted.part_place)
        self.sum_place = int(wanted.sum_place)
        self.sum: Floats = _floats(wanted.sum, self.dimension) if self.vectors is None else np.empty(0, np.float32)
        forms = SumForms(wanted)
        self.forms: SumForms | None = forms if forms.rounds(UP) or forms.rounds(DOWN) else None

    def fill(self, place: int, into: Numbers) -> None:
        """What the member at `place`, which is this one, adds to the numbers of the sum."""
        if self.vectors is not None:
            self._fill_elsewhere(into, self.weights[0, place])
            return
        for part, span in enumerate(self._spans()):
            if self.part is None:
                into[span] = 0
            else:
                own = self.part[: len(into[span])]
                np.multiply(own, self.weights[part, place], out=into[span])

    def take(self, numbers: Numbers) -> None:
        """These are the numbers of the sum."""
        if self.vectors is None:
            self.sum[:] = numbers
            return
        own = np.ascontiguousarray(numbers, dtype=self.dtype)
        self._check(self.vectors.methods.write(self.vectors, self.sum_place, 0, len(own), _address(own)))

    def _fill_elsewhere(self, into: Numbers, weight: np.float32) -> None:
        if self.part_place is None:
            into[:] = 0
            return
        self._check(self.vectors.methods.read(self.vectors, self.part_place, 0, len(into), _address(into)))
        if weight != 1:
            into *= self.dtype(weight)

    def _check(self, error: int) -> None:
        if error != lib.TARRY_OK:
            raise ArgumentError("the owner of the vectors failed")

    def _spans(self) -> list[slice]:
        starts = range(0, self.parts * self._stride, self._stride)
        return [slice(start, min(start + self._stride, len(self.sum))) for start in starts]


class Engine(Protocol):
    """Makes sums among workers; all are given the same one, by its name (include/tarry/engine.h has the contract).

    It may fail, and need not find out that a member is dead, slow or stopped: the server does, and the sum is
    abandoned. But it must never give a sum of only some members, or of numbers of another group than that which was
    formed.

    Threads of the library call it, one at a time, but for `wake`. What it raises is a failure of the sum.

    name    1 to 32 characters, without blanks
    forms   True: it goes by EngineSum.forms. It may be left out, as by one that sums float32
    owners  True: it goes by EngineSum.dtype and .vectors. It may be left out, as by one that sums float32 in memory
    """

    @property
    def name(self) -> str: ...

    def address(self) -> bytes:
        """How others reach it: 200 bytes at most, and always the same ones."""
        ...

    def form(self, group: Group) -> None:
        """The next sums are of this group. Does not wait for others; what runs is abandoned."""
        ...

    def start(self, wanted: EngineSum) -> None:
        """Starts a sum of the group, and does not wait."""
        ...

    def wait(self, until: float | None) -> Progress:
        """Waits until the sum is DONE or FAILED, or until that time (of time.monotonic(); None: no limit), or for
        `wake`; says how far it is."""
        ...

    def wake(self) -> None:
        """Ends the wait in progress, or the next one. Any thread."""
        ...

    def abandon(self) -> None:
        """Ends what runs, and does not wait for others: nothing of the sum is read or written any more."""
        ...


def _floats(pointer: Any, count: int) -> Floats:
    return np.frombuffer(ffi.buffer(pointer, count * 4), dtype=np.float32)


def _address(array: Numbers) -> Any:
    return ffi.cast("void *", array.ctypes.data)


def _write(text: str, into: Any) -> None:
    """As a string of C, cut to the room that there is."""
    found = text.encode()[: ffi.sizeof(into) - 1] + b"\0"
    ffi.memmove(into, found, len(found))


class EngineCalls:
    """The library's calls of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._members = 0  # of the group
        self._failed: Progress | None = None  # a sum that was not even begun
        self._name = ffi.new("char[]", engine.name.encode())
        self._methods = ffi.new("tarry_engine_methods *")
        self._methods.name = self._name
        self._methods.address = lib.tarry_call_engine_address
        self._methods.form = lib.tarry_call_engine_form
        self._methods.start = lib.tarry_call_engine_start
        self._methods.wait = lib.tarry_call_engine_wait
        self._methods.wake = lib.tarry_call_engine_wake
        self._methods.abandon = lib.tarry_call_engine_abandon  # its owner frees it
        self._methods.forms = bool(getattr(engine, "forms", False))
        self._methods.owners = bool(getattr(engine, "owners", False))
        self._handle = ffi.new_handle(self)
        self._own = ffi.new("tarry_py_engine *")
        self._own.base.methods = self._methods
        self._own.user = self._handle
        self.pointer: Any = ffi.addressof(self._own.base)

    def form(self, group: Any) -> None:
        members = (group.members[place] for place in range(group.count))
        told = tuple(Member(one.worker, bytes(ffi.buffer(one.address, one.address_size))) for one in members)
        self._members = len(told)
        self._failed = None
        self.engine.form(Group(group.epoch, group.place, told))

    def start(self, wanted: Any) -> None:
        try:
            self.engine.start(EngineSum(wanted, self._members))
        except Exception as error:
            self._failed = Progress(FAILED, _words(error))

    def wait(self, until_ns: int) -> Progress:
        if self._failed is not None:
            return self._failed
        try:
            return self.engine.wait(None if until_ns == NEVER else until_ns / 1e9)
        except Exception as error:
            return Progress(FAILED, _words(error))

    def abandon(self) -> None:
        self._failed = None
        self.engine.abandon()


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _calls_of(engine: Any) -> EngineCalls:
    return ffi.from_handle(ffi.cast("tarry_py_engine *", engine).user)


@ffi.def_extern()
def tarry_py_engine_address(engine: Any, into: Any, size: Any) -> None:
    found = _calls_of(engine).engine.address()
    size[0] = len(found)
    ffi.memmove(into, found, min(len(found), lib.TARRY_ENGINE_ADDRESS_MOST))


@ffi.def_extern(error=lib.TARRY_ERROR_SYSTEM)
def tarry_py_engine_form(engine: Any, group: Any, diagnostic: Any) -> int:
    try:
        _calls_of(engine).form(group)
    except Exception as error:
        if diagnostic:
            _write(_words(error), diagnostic.text)
        return lib.TARRY_ERROR_SYSTEM
    return lib.TARRY_OK


@ffi.def_extern(error=lib.TARRY_ERROR_SYSTEM)
def tarry_py_engine_start(engine: Any, wanted: Any) -> int:
    _calls_of(engine).start(wanted)
    return lib.TARRY_OK


@ffi.def_extern()
def tarry_py_engine_wait(engine: Any, until_ns: int, into: Any) -> None:
    found = _calls_of(engine).wait(until_ns)
    ffi.buffer(into, ffi.sizeof("tarry_engine_progress"))[:] = bytes(ffi.sizeof("tarry_engine_progress"))
    into.suspect = lib.TARRY_ENGINE_NOBODY if found.suspect is None else found.suspect
    into.state = _STATES.get(found.state, lib.TARRY_ENGINE_FAILED)
    _write(found.why, into.why)


@ffi.def_extern()
def tarry_py_engine_wake(engine: Any) -> None:
    _calls_of(engine).engine.wake()


@ffi.def_extern()
def tarry_py_engine_abandon(engine: Any) -> None:
    _calls_of(engine).abandon()
