# SPDX-License-Identifier: Apache-2.0
"""Plans: which worker holds which chunk, in which order, and the weights with which sums are decoded."""

import os
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic
from .gone import names_gone
from .names import DESIGNS, ORDERS, put, value_of


class Conditioning(NamedTuple):
    """How well sets of workers can be decoded: 1/sigma_min over the sets of `parts` workers that share a chunk."""

    worst: float
    median: float
    subsets: int  # sets that were looked at
    complete: bool  # whether these were all that can occur; otherwise a seeded sample


class Plan:
    """An assignment of chunks to workers; a pure function of its settings, the same to the bit on every machine.

    workers     m >= 1
    chunks      N >= 1 chunks of the data
    pieces      P >= 1 pieces that each chunk is cut into: the units of work, of which there are N P
    replication workers that hold each unit, 1..workers; None: 3, or all where they are fewer
    parts       l: a coded part has 1/l of the numbers of a gradient, 1..replication
    design      'random', 'cyclic', 'fractional', or 'file' with `file`
    order       in which a worker computes what it holds: 'optimal', 'random' or 'as-is'
    racks       workers per rack, in the order of their numbers, or a file with a rack's name per worker: copies of a
                unit are spread over racks (random design)

    Raises ArgumentError, FileError, FormatError. Immutable, and any thread may use it.
    """

    @names_gone
    def __init__(
        self,
        workers: int = 8,
        chunks: int | None = None,
        *,
        pieces: int = 1,
        replication: int | None = None,
        parts: int = 1,
        design: str = "random",
        file: str | os.PathLike[str] | None = None,
        order: str = "optimal",
        racks: int | str | os.PathLike[str] | None = None,
        seed: int = 1,
    ) -> None:
        self._plan: Any = None
        settings = ffi.new("tarry_plan_settings *")
        lib.tarry_plan_settings_init_sized(settings, ffi.sizeof("tarry_plan_settings"))
        kept: list[Any] = []
        put(settings, "workers", workers)
        put(settings, "chunks", workers if chunks is None else chunks)
        put(settings, "pieces", pieces)
        put(settings, "replication", min(3, settings.workers) if replication is None else replication)
        put(settings, "parts", parts)
        put(settings, "seed", seed)
        settings.design = value_of(DESIGNS, "file" if file is not None else design, "design")
        settings.order = value_of(ORDERS, order, "order")
        if file is not None:
            kept.append(ffi.new("char[]", os.fsencode(file)))
            settings.file = kept[-1]
        elif design == "file":
            raise ArgumentError("design 'file' needs file")
        if isinstance(racks, int):
            put(settings, "rack_size", racks, "racks")
        elif racks is not None:
            kept.append(ffi.new("char[]", os.fsencode(racks)))
            settings.rack_file = kept[-1]
        made, why = ffi.new("tarry_plan **"), Diagnostic()
        why.check(lib.tarry_plan_create(settings, ffi.NULL, made, why.pointer))
        self._plan = ffi.gc(made[0], lib.tarry_plan_free)
        self.settings: Any = settings
        self._kept = kept  # what the settings point to

    @property
    def pointer(self) -> Any:
        """The library's plan."""
        return self._plan

    @property
    def workers(self) -> int:
        return lib.tarry_plan_workers(self._plan)

    @property
    def units(self) -> int:
        """Units of work: chunks times pieces."""
        return lib.tarry_plan_chunks(self._plan)

    @property
    def pieces(self) -> int:
        return lib.tarry_plan_pieces(self._plan)

    @property
    def chunks(self) -> int:
        return self.units // self.pieces

    @property
    def parts(self) -> int:
        return lib.tarry_plan_parts(self._plan)

    @property
    def endures(self) -> int:
        """Workers that may die, whichever they are, so that every unit has enough holders left."""
        return lib.tarry_plan_endures(self._plan)

    def order_of(self, worker: int) -> npt.NDArray[np.uint32]:
        """The units that a worker holds, in its order."""
        if not 0 <= worker < self.workers:
            raise ArgumentError(f"worker {worker} of {self.workers}")
        load = lib.tarry_plan_load(self._plan, worker)
        return np.array([lib.tarry_plan_chunk(self._plan, worker, place) for place in range(load)], dtype=np.uint32)

    def assignment(self) -> npt.NDArray[np.bool_]:
        """workers x units: whether the worker holds the unit."""
        held = np.zeros((self.workers, self.units), dtype=np.bool_)
        for worker in range(self.workers):
            held[worker, self.order_of(worker)] = True
        return held

    def table(self) -> dict[str, npt.NDArray[np.uint32]]:
        """A row per copy: worker, position in its order, unit."""
        orders = [self.order_of(worker) for worker in range(self.workers)]
        return {
            "worker": np.repeat(np.arange(self.workers, dtype=np.uint32), [len(order) for order in orders]),
            "position": np.concatenate([np.arange(len(order), dtype=np.uint32) for order in orders]),
            "unit": np.concatenate(orders),
        }

    def decode_matrix(self) -> npt.NDArray[np.float64]:
        """R, parts x workers: the weight of each worker's coded part in each part of the sum."""
        return np.array(
            [
                [lib.tarry_plan_decode_weight(self._plan, part, worker) for worker in range(self.workers)]
                for part in range(self.parts)
            ]
        )

    def q(self, copies: int = 1) -> int:
        """Q_l: units that the cluster may have to process, at worst, before each has so many copies."""
        return lib.tarry_plan_q(self._plan, self._copies(copies))

    def q_bound(self, copies: int = 1) -> int:
        """What no order of the same assignment can go below."""
        return lib.tarry_plan_q_bound(self._plan, self._copies(copies))

    def _copies(self, copies: int) -> int:
        """Raises ArgumentError where some unit has fewer copies."""
        least = int(self.assignment().sum(axis=0).min())
        if not 1 <= copies <= least:
            raise ArgumentError(f"copies is {copies}; each unit has {least}")
        return copies

    def conditioning(self) -> Conditioning:
        found = lib.tarry_plan_conditioning(self._plan)
        return Conditioning(found.worst, found.median, found.subsets, found.complete)

    def close(self) -> None:
        """Nothing needs to be done: a plan is freed with the last object that uses it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tarry.Plan of {self.workers} workers, {self.chunks} chunks x {self.pieces} pieces>"
