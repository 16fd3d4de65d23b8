# SPDX-License-Identifier: Apache-2.0
"""How a round went."""

import dataclasses
from typing import Any

from ._native import lib
from .names import seconds
from .vectors import Floats


@dataclasses.dataclass(frozen=True)
class SumId:
    """The name of a sum that workers made: of which step, and the digest of its numbers. Step 0: none."""

    step: int
    term: int
    attempt: int
    digest: int


def sum_id_of(found: Any) -> SumId:
    return SumId(found.step, found.term, found.attempt, found.digest)


def fill_sum_id(entry: Any, sum_id: SumId) -> None:
    entry.step, entry.term, entry.attempt, entry.digest = sum_id.step, sum_id.term, sum_id.attempt, sum_id.digest


@dataclasses.dataclass(frozen=True)
class Round:
    """How a round ended; docs/reports.md explains the figures."""

    number: int  # counts from 0
    sum: Floats | None = dataclasses.field(repr=False)  # None where everyone gets it, and without an estimate
    exact: bool  # every chunk was recovered
    expected_error: float  # relative squared error
    seconds: float  # from the beginning to the end
    seconds_to_signal: float
    workers_heard: int
    workers_lost: int
    workers_late: int
    parts: int
    attempts: int
    copies_computed: int
    copies_coded: int
    copies_needed: int
    chunks_filled: int
    chunks_sampled: int  # that took part: all, but with sample_chunks
    sampling_error: float  # relative variance of the draw
    upload_bytes: int
    control_bytes: int
    control_messages: int
    voters: int
    fetches: int
    sum_id: SumId
    clamped: int  # of a secure sum: numbers of gradients, over all workers, that were beyond the bound or not finite


def round_of(result: Any, vector: Floats | None) -> Round:
    begin, end, signal = result.start_ns, result.end_ns, result.signal_ns
    return Round(
        number=result.round,
        sum=vector if result.error == lib.TARRY_OK else None,
        exact=result.exact,
        expected_error=result.expected_error,
        seconds=seconds(end - begin),
        seconds_to_signal=seconds(signal - begin) if signal != lib.TARRY_NEVER else float("inf"),
        workers_heard=result.workers_heard,
        workers_lost=result.workers_lost,
        workers_late=result.workers_late,
        parts=result.parts,
        attempts=result.attempts,
        copies_computed=result.copies_computed,
        copies_coded=result.copies_coded,
        copies_needed=result.copies_needed,
        chunks_filled=result.chunks_filled,
        chunks_sampled=result.chunks_sampled,
        sampling_error=result.sampling_error,
        upload_bytes=result.upload_bytes,
        control_bytes=result.control_bytes,
        control_messages=result.control_messages,
        voters=result.voters,
        fetches=result.fetches,
        sum_id=sum_id_of(result.sum),
        clamped=result.clamped,
    )
