# SPDX-License-Identifier: Apache-2.0
"""Trainings with differential privacy: the text of `tarry train --dp`, who may see which samples are drawn, and what
stands between a sum and all who use it. tarry.torch.join(dp=...) is made of this, docs/privacy.md has the argument.
"""

import dataclasses
import os
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic
from .vectors import Floats

KEY_BYTES: int = lib.TARRY_DP_KEY_BYTES


@dataclasses.dataclass(frozen=True)
class Terms:
    """What `clip:C,noise:SIGMA,sample:Q[,delta:D][,budget:EPS][,seed:N]` says."""

    text: str
    clip: float  # the most that an example adds to a sum
    noise: float  # standard deviation of the noise over clip
    sample: float  # the probability with which an example is in a step
    delta: float
    budget: float  # the largest epsilon; infinity: none
    secret: bool  # else draws and noise are those of a seed, for tests: nothing is private

    @classmethod
    def read(cls, text: str) -> Self:
        """By the library, as the tool does. Raises FormatError."""
        read = _read(text)
        return cls(text, read.clip, read.noise, read.sample, read.delta, read.budget, not read.seeded)


def _read(text: str) -> Any:
    terms, why = ffi.new("tarry_dp_terms *"), Diagnostic()
    lib.tarry_dp_terms_init_sized(terms, ffi.sizeof("tarry_dp_terms"))
    why.check(lib.tarry_dp_terms_read(text.encode(), terms, why.pointer))
    return terms


@dataclasses.dataclass(frozen=True)
class Mark:
    """Where a ledger is after so many releases, as a checkpoint keeps it. Seal 0: not known."""

    releases: int = 0
    seal: int = 0


class Releases:
    """For who owns the sums: counts each release, on disk where there is a ledger, and gives the sum its noise.

    samples  of the data
    ledger   the file that counts; None: what this process counts ends with it
    goes_on  whether the ledger has to be there, or is made

    One thread at a time. Raises ArgumentError, FileError, FormatError, StateError, SystemResourceError.
    """

    def __init__(
        self, terms: Terms, samples: int, ledger: str | os.PathLike[str] | None = None, *, goes_on: bool = False
    ) -> None:
        made, why = ffi.new("tarry_dp **"), Diagnostic()
        path = ffi.NULL if ledger is None else ffi.new("char[]", os.fsencode(ledger))
        why.check(lib.tarry_dp_create(_read(terms.text), samples, path, goes_on, made, why.pointer))
        self.terms = terms
        self._owner: Any = ffi.gc(made[0], lib.tarry_dp_free)

    @property
    def count(self) -> int:
        """Of all that the ledger has."""
        return lib.tarry_dp_releases(self._owner)

    @property
    def spent(self) -> bool:
        """Whether one more would exceed the budget. May take some seconds, once."""
        spent, why = ffi.new("bool *"), Diagnostic()
        why.check(lib.tarry_dp_spent(self._owner, spent, why.pointer))
        return spent[0]

    def epsilon(self) -> float:
        """For what was released so far; takes some tenths of a second."""
        found, why = ffi.new("double *"), Diagnostic()
        why.check(lib.tarry_dp_epsilon(self._owner, found, why.pointer))
        return found[0]

    def release(self, sum: Floats) -> None:
        """The sum, which has to be exact, is counted and has its noise afterwards. If that fails it must not be used.
        Raises FileError; NumericalError if a number is NaN or infinite: the sum is counted, and becomes zeros."""
        if sum.dtype != np.float32 or not sum.flags.c_contiguous or not sum.flags.writeable:
            raise ArgumentError("float32 numbers that lie together and can be written are wanted")
        why = Diagnostic()
        why.check(lib.tarry_dp_release(self._owner, ffi.from_buffer("float[]", sum), sum.size, why.pointer))

    @property
    def mark(self) -> Mark:
        """After the last release; without a ledger zeros."""
        found = ffi.new("tarry_dp_mark *")
        lib.tarry_dp_mark_get(self._owner, found)
        return Mark(found.releases, found.seal)

    def check(self, mark: Mark, rounds: int) -> None:
        """The ledger has to have the releases of a checkpoint that was written at `mark`, after so many rounds. Raises
        FormatError (it has fewer, or it is another run's: do not resume), FileError, StateError."""
        why = Diagnostic()
        at = ffi.new("tarry_dp_mark *", dataclasses.asdict(mark))
        why.check(lib.tarry_dp_mark_check(self._owner, at, rounds, why.pointer))

    def key_of(self, piece: int) -> bytes:
        """By which the samples of a piece of the data are drawn."""
        key, why = ffi.new("uint8_t[]", KEY_BYTES), Diagnostic()
        why.check(lib.tarry_dp_piece_key(self._owner, piece, key, why.pointer))
        return bytes(ffi.buffer(key))

    def close(self) -> None:
        """Another process may use the ledger."""
        ffi.release(self._owner)


def draw(key: bytes, sample: float, step: int, candidates: range) -> npt.NDArray[np.int64]:
    """Those of the candidates, numbers in a row, that are in the step: each by itself with the probability `sample`."""
    if len(key) != KEY_BYTES or candidates.step != 1:
        raise ArgumentError(
            f"a key of {len(key)} bytes for {candidates}: {KEY_BYTES}, and numbers in a row, are wanted"
        )
    found, drawn, why = ffi.new("size_t[]", max(1, len(candidates))), ffi.new("size_t *"), Diagnostic()
    why.check(lib.tarry_dp_draw(key, sample, step, candidates.start, len(candidates), found, drawn, why.pointer))
    numbers = np.frombuffer(ffi.buffer(found), dtype=np.uintp)
    return numbers[: drawn[0]].astype(np.int64)
