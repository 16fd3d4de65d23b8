# SPDX-License-Identifier: Apache-2.0
"""Owners of vectors in Python: where a worker's gradients and sums are, in place of the library's host memory."""

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ._native import ffi, lib

Numbers: TypeAlias = npt.NDArray[Any]  # of float32 or float64
Places: TypeAlias = npt.NDArray[np.uint32]

DTYPES: dict[int, Any] = {lib.TARRY_ELEMENT_FLOAT32: np.float32, lib.TARRY_ELEMENT_FLOAT64: np.float64}
PLACE_SUM = int(lib.TARRY_PLACE_SUM)  # the sum's, where everyone gets the sum


class Vectors(Protocol):
    """Owns the vectors of one worker, and does what is done to them (include/tarry/vectors.h has the contract).

    A vector is named by its place, a number from 0 on. Threads of the library call the owner, several at a time, but
    never while another one writes to a place that is read or written. What it raises ends the worker. It may also have

        def host(self, place: int) -> Numbers

    which gives all numbers of a place as an array in this machine's memory, always the same one. An owner without it
    goes with sums among workers, one part, and an engine with `owners`.

    name    1 to 32 characters, without blanks
    """

    @property
    def name(self) -> str: ...

    def reserve(self, places: int, dimension: int, dtype: npt.DTypeLike) -> None:
        """Room for the places 0 to places - 1. What is there of the same dimension and dtype stays as it is, though it
        is in use; fewer places than there are change nothing. An exception: there is no room."""
        ...

    def combine(self, into: int, base: int | None, places: Places, coefficients: npt.NDArray[np.float32]) -> None:
        """into = base + coefficients[0] * places[0] + .., in this order; each term is rounded when it is added.

        base may be `into`, another place, or None: zeros. `into` is none of the places, which may be none at all.
        Arrays are for the call.
        """
        ...

    def digest(self, place: int, step: int) -> int:
        """The digest of all of a place as the sum of `step` (docs/wire.md): the same with every owner."""
        ...

    def read(self, place: int, first: int, into: Numbers) -> None:
        """Copies len(into) numbers, from number `first` on."""
        ...

    def write(self, place: int, first: int, numbers: Numbers) -> None: ...


def array_over(pointer: Any, count: int, element: int) -> Numbers:
    """Numbers of the library's, or behind a pointer that it was given."""
    dtype = np.dtype(DTYPES[element])
    return np.frombuffer(ffi.buffer(ffi.cast("char *", pointer), count * dtype.itemsize), dtype=dtype)


class VectorsCalls:
    """The library's calls of an owner; `error` keeps the first exception that ended the worker."""

    def __init__(self, owner: Vectors) -> None:
        self.owner = owner
        self.error: BaseException | None = None
        self.element = int(lib.TARRY_ELEMENT_FLOAT32)
        self._name = ffi.new("char[]", owner.name.encode())
        self._methods = ffi.new("tarry_vectors_methods *")
        self._methods.name = self._name
        self._methods.reserve = lib.tarry_call_vectors_reserve
        self._methods.combine = lib.tarry_call_vectors_combine
        self._methods.digest = lib.tarry_call_vectors_digest
        self._methods.read = lib.tarry_call_vectors_read
        self._methods.write = lib.tarry_call_vectors_write
        if hasattr(owner, "host"):
            self._methods.host = lib.tarry_call_vectors_host
        self._handle = ffi.new_handle(self)
        self._own = ffi.new("tarry_py_vectors *")
        self._own.base.methods = self._methods
        self._own.user = self._handle
        self.pointer: Any = ffi.addressof(self._own.base)

    def fail(self, error: BaseException) -> int:
        self.error = self.error or error
        return lib.TARRY_ERROR_STATE


def calls_of(vectors: Any) -> VectorsCalls:
    return ffi.from_handle(ffi.cast("tarry_py_vectors *", vectors).user)


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_vectors_reserve(vectors: Any, places: int, dimension: int, element: int) -> int:
    calls = calls_of(vectors)
    try:
        calls.owner.reserve(places, dimension, DTYPES[element])
    except MemoryError:
        return lib.TARRY_ERROR_NO_MEMORY
    except BaseException as error:
        return calls.fail(error)
    calls.element = element
    return lib.TARRY_OK


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_vectors_combine(vectors: Any, into: int, base: int, places: Any, coefficients: Any, count: int) -> int:
    calls = calls_of(vectors)
    named = np.frombuffer(ffi.buffer(places, count * 4), dtype=np.uint32) if count else np.empty(0, np.uint32)
    times = np.frombuffer(ffi.buffer(coefficients, count * 4), dtype=np.float32) if count else np.empty(0, np.float32)
    try:
        calls.owner.combine(into, None if base == lib.TARRY_NO_PLACE else base, named, times)
    except BaseException as error:
        return calls.fail(error)
    return lib.TARRY_OK


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_vectors_digest(vectors: Any, place: int, step: int, digest: Any) -> int:
    calls = calls_of(vectors)
    try:
        digest[0] = calls.owner.digest(place, step)
    except BaseException as error:
        return calls.fail(error)
    return lib.TARRY_OK


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_vectors_read(vectors: Any, place: int, first: int, count: int, numbers: Any) -> int:
    calls = calls_of(vectors)
    try:
        if count:
            calls.owner.read(place, first, array_over(numbers, count, calls.element))
    except BaseException as error:
        return calls.fail(error)
    return lib.TARRY_OK


@ffi.def_extern(error=lib.TARRY_ERROR_STATE)
def tarry_py_vectors_write(vectors: Any, place: int, first: int, count: int, numbers: Any) -> int:
    calls = calls_of(vectors)
    try:
        if count:
            calls.owner.write(place, first, array_over(numbers, count, calls.element))
    except BaseException as error:
        return calls.fail(error)
    return lib.TARRY_OK


@ffi.def_extern(error=ffi.NULL)
def tarry_py_vectors_host(vectors: Any, place: int) -> Any:
    host: Any = getattr(calls_of(vectors).owner, "host")  # noqa: B009 (not every owner has it)
    return ffi.cast("void *", host(place).ctypes.data)
