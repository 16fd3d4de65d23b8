#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An owner of vectors in NumPy: what an owner on a GPU does, in a page (include/tarry/vectors.h).

Run by itself it compares its digest with the one that docs/wire.md defines by loops.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

_PHI = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _mix(word: int) -> int:
    """MurmurHash3's 64-bit finalizer."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = (word ^ word >> 33) * factor & 0xFFFFFFFFFFFFFFFF
    return word ^ word >> 33


def digest_of(numbers: npt.NDArray[Any], step: int) -> int:
    """A few operations on 64-bit integers, and one sum."""
    words = np.zeros(-(-numbers.nbytes // 8), dtype=np.uint64)
    words.view(np.uint8)[: numbers.nbytes] = numbers.view(np.uint8)
    key = _mix(step)
    places = np.arange(len(words), dtype=np.uint64)
    mixed = words + np.uint64(key) + places * _PHI
    terms = (mixed & _LOW) * (mixed >> _HALF) + (words << _HALF | words >> _HALF)
    total = int(np.sum(terms, dtype=np.uint64))
    return _mix(total ^ _mix((key + len(numbers)) % (1 << 64)))


class NumpyVectors:
    """Each place is an array of its own."""

    name = "numpy"

    def __init__(self) -> None:
        self._places: list[npt.NDArray[Any]] = []

    def reserve(self, places: int, dimension: int, dtype: npt.DTypeLike) -> None:
        if self._places and (self._places[0].shape != (dimension,) or self._places[0].dtype != dtype):
            self._places.clear()
        while len(self._places) < places:
            self._places.append(np.empty(dimension, dtype=dtype))

    def combine(
        self, into: int, base: int | None, places: npt.NDArray[np.uint32], coefficients: npt.NDArray[np.float32]
    ) -> None:
        total: Any = self._places[into]
        if base is None:
            total[:] = 0
        elif base != into:
            total[:] = self._places[base]
        for place, coefficient in zip(places, coefficients, strict=True):
            numbers: Any = self._places[int(place)]
            total += numbers if coefficient == 1 else numbers * coefficient.astype(numbers.dtype)

    def digest(self, place: int, step: int) -> int:
        return digest_of(self._places[place], step)

    def read(self, place: int, first: int, into: npt.NDArray[Any]) -> None:
        into[:] = self._places[place][first : first + len(into)]

    def write(self, place: int, first: int, numbers: npt.NDArray[Any]) -> None:
        self._places[place][first : first + len(numbers)] = numbers

    def host(self, place: int) -> npt.NDArray[Any]:
        return self._places[place]


def _by_loops(numbers: npt.NDArray[Any], step: int) -> int:
    raw = numbers.tobytes()
    raw += bytes(-len(raw) % 8)
    key, total = _mix(step), 0
    for place in range(len(raw) // 8):
        word = int.from_bytes(raw[8 * place : 8 * place + 8], "little")
        mixed = (word + key + place * int(_PHI)) % (1 << 64)
        total += (mixed & 0xFFFFFFFF) * (mixed >> 32) + (word << 32 & 0xFFFFFFFFFFFFFFFF | word >> 32)
    return _mix(total % (1 << 64) ^ _mix((key + len(numbers)) % (1 << 64)))


if __name__ == "__main__":
    for kind in (np.float32, np.float64):
        for length in (1, 2, 7, 1000):
            drawn = np.random.default_rng(length).standard_normal(length).astype(kind)
            assert digest_of(drawn, 3) == _by_loops(drawn, 3)
    print("digests agree")
