# SPDX-License-Identifier: Apache-2.0
"""Secure sums: the server learns the sum of a round, and nothing of any single worker's (docs/privacy.md says against
whom). Server(secure=SecureRules(...)) announces rules, Worker(secure=SecureMember(...)) holds the server to its own.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic, error_of
from .names import put

DIGEST_BYTES: int = lib.TARRY_DIGEST_SIZE
LEAST_UNIT_SAMPLES = 32
CLAMPED_MOST = 0.001  # TARRY_SECURE_CLAMPED_MOST: the share of numbers that may be beyond the bound


@dataclasses.dataclass(frozen=True)
class SecureRules:
    """By which rules a server wants sums made. Workers have to have the same bound and bits (SecureMember).

    bound       numbers of a unit's gradient are clamped to -bound..bound
    least       samples that no colluders hold under the plan, at least
    colluders   so many workers may tell the server all that they know
    bits        of a masked number: 32 or 64
    """

    bound: float
    least: int
    colluders: int = 1
    bits: int = 32

    def fill(self, rules: Any, units: int) -> None:
        """With the finest grid on which sums over so many units can't wrap. Raises ArgumentError."""
        put(rules, "colluders", self.colluders)
        put(rules, "least", self.least)
        known = self.bits in (32, 64)
        if not known or lib.tarry_secure_rules_choose(self.bits, self.bound, units, rules) != lib.TARRY_OK:
            raise ArgumentError(
                f"secure sums: {self.bits} bits for {units} units of numbers up to {self.bound}: there is no such grid"
            )


class SecureMember:
    """What a worker insists on: it takes part in secure sums over its samples alone, all of them in each sum.

    credentials  the worker's folder; beside them, in `secure`, it remembers what it agreed to in its first job, and
                 ends rather than agree to something else. One process at a time has it
    samples      how many there are
    digest       32 bytes of their content, the same at all workers
    begins       unit i has the samples begins[i] .. begins[i + 1] - 1; None: equal shares, floor(i samples / units)
    colluders    so many the server has to reckon with, at least
    least        samples that it has to leave to one sum, at least; 0: an eighth of all
    bound        the server's bound has to be this one; 0: four times the samples of the largest unit. With more than
                 0.1 % of its numbers beyond the bound in a round the worker ends, and sends nothing
    bits         the server's bits have to be these
    unit_samples samples that each unit of a plan has at least: a sum shows a small unit if all others are at the bound
    numerics     all that decides which bits come out of a computation, in words: workers with others are not taken
    names        what messages call colluders, least, bound, bits and unit_samples
    tell         called with a line for what is remembered from now on, by a thread of the library

    Raises StateError (another process has it), FileError.
    """

    def __init__(
        self,
        credentials: str | os.PathLike[str],
        samples: int,
        digest: bytes,
        *,
        begins: Sequence[int] | None = None,
        colluders: int = 1,
        least: int = 0,
        bound: float = 0.0,
        bits: int = 32,
        unit_samples: int = LEAST_UNIT_SAMPLES,
        numerics: str = "",
        names: tuple[str, str, str, str, str] = ("colluders", "least", "bound", "bits", "unit_samples"),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        if len(digest) != DIGEST_BYTES or not any(digest):
            raise ArgumentError(f"a digest of {len(digest)} bytes: {DIGEST_BYTES} are wanted, not all zero")
        if bits not in (32, 64) or not 0 <= bound < float("inf") or unit_samples < 1:
            raise ArgumentError(
                f"bits must be 32 or 64, not {bits}; bound finite and at least 0, not {bound}; and unit_samples at "
                f"least 1, not {unit_samples}"
            )
        if samples < 1 or (begins is not None and (len(begins) < 2 or begins[0] != 0 or begins[-1] != samples)):
            raise ArgumentError(f"{samples} samples, and units that begin at {begins}")
        self.samples, self.digest, self._begins = samples, digest, None if begins is None else list(begins)
        import hashlib  # which brings a library of the system: for those alone who come here

        self._numerics = int.from_bytes(hashlib.sha256(numerics.encode()).digest()[:8], "little") or 1
        settings = ffi.new("tarry_secure_memory_settings *")
        lib.tarry_secure_memory_settings_init_sized(settings, ffi.sizeof("tarry_secure_memory_settings"))
        folder = ffi.new("char[]", os.fsencode(credentials))
        self._names = [ffi.new("char[]", name.encode()) for name in names]
        self._tell = ffi.new_handle(tell) if tell is not None else None
        settings.credentials = folder
        put(settings, "colluders", colluders)
        put(settings, "least", least)
        put(settings, "bits", bits)
        settings.bound = bound
        put(settings, "chunk_samples", unit_samples)
        settings.colluders_name, settings.least_name, settings.bound_name, *others = self._names
        settings.bits_name, settings.chunk_samples_name = others
        if self._tell is not None:
            settings.tell, settings.user = lib.tarry_call_tell, self._tell
        made, why = ffi.new("tarry_secure_memory **"), Diagnostic()
        why.check(lib.tarry_secure_memory_open(settings, made, why.pointer))
        self._memory: Any = ffi.gc(made[0], lib.tarry_secure_memory_close)

    def fill(self, member: Any) -> None:
        """What the library calls, in C."""
        member.required = True
        member.agree = ffi.addressof(lib, "tarry_secure_memory_agree")
        member.lock = ffi.addressof(lib, "tarry_secure_memory_lock")
        member.user = self._memory
        member.bound_name = self._names[2]

    def begin(self, worker: Any, job: Any, data: Any) -> None:
        """Before the first task of a job."""
        begins = ffi.NULL if self._begins is None else ffi.new("uint64_t[]", self._begins)
        units = lib.tarry_plan_origins(job.plan) if self._begins is None else len(self._begins) - 1
        code = lib.tarry_secure_memory_samples(self._memory, self.samples, units, begins)
        if code != lib.TARRY_OK:
            raise error_of(code, f"secure sums over {self.samples} samples in {units} units")
        lib.tarry_tcp_worker_numerics(worker, self._numerics)
        ffi.memmove(data, self.digest, DIGEST_BYTES)

    def close(self) -> None:
        """Another process may use the credentials. After the worker was closed."""
        ffi.release(self._memory)


@ffi.def_extern()
def tarry_py_tell(user: Any, line: Any) -> None:
    ffi.from_handle(user)(ffi.string(line).decode(errors="replace"))
