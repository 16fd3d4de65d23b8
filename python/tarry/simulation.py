# SPDX-License-Identifier: Apache-2.0
"""Rounds in virtual time: the same machines over modelled workers and links."""

from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ._native import ffi, lib
from .errors import Diagnostic
from .names import NEVER, UPLOADS, WAYS, nanoseconds, put, seconds, value_of
from .plan import Plan
from .settings import ServerSettings, server_settings
from .straggler import Straggler

Table = dict[str, npt.NDArray[Any]]

_TIMES = {"seconds": ("start_ns", "end_ns"), "seconds_to_signal": ("start_ns", "signal_ns")}
_BOUNDS = ("balanced", "matched")
_FIGURES = (
    "exact", "expected_error", "parts", "attempts", "copies_computed", "copies_coded", "copies_needed", "workers_heard",
    "workers_lost", "upload_bytes", "control_bytes", "control_messages",
)  # fmt: skip


def _interval(result: Any, begin: str, end: str) -> float:
    if getattr(result, end) == NEVER:
        return float("inf")
    return (getattr(result, end) - getattr(result, begin)) / 1e9


def simulate(
    plan: Plan,
    *,
    rounds: int = 100,
    straggler: str = "none",
    seed: int = 1,
    chunk_seconds: float = 1.0,
    overhead: float = 0.0,
    dimension: int = 1,
    latency: float = 0.0,
    bytes_per_second: float = float("inf"),
    server_bytes_per_second: float = float("inf"),
    message_seconds: float = 0.0,
    way: str = "star",
    upload: str = "coded",
    parameters_travel: bool = False,
    bounds: bool = True,
    **wanted: Unpack[ServerSettings],
) -> Table:
    """Simulates rounds of a plan and gives a table, an array per column and an entry per round.

    straggler        delays, as a SPEC (tarry.Straggler), drawn from the seed: the same for every plan and setting
    chunk_seconds    what a whole chunk takes, times the straggler's factors; a SPEC with terms that add seconds (exp,
                     shifted-exp, pareto, weibull, trace) says itself what a chunk takes, and this is not used
    overhead         seconds that each unit takes besides
    latency, bytes_per_second, message_seconds   of each worker's link
    server_bytes_per_second   of the server's card
    way              where a sum is made: 'star' (at the server), or among workers: 'direct', 'ring'
    parameters_travel  whether `dimension` numbers go to each worker with a round
    bounds           whether to work out 'balanced' and 'matched', the least times of a round without links

    Columns: seconds (infinity: the round came to nothing), seconds_to_signal, balanced, matched and figures of the
    round's result. Everything is a function of the arguments.
    """
    server = server_settings(plan, dimension, wanted)
    drawn = Straggler(straggler, plan.workers, seed=seed)
    settings = ffi.new("tarry_sim_settings *")
    lib.tarry_sim_settings_init_sized(settings, ffi.sizeof("tarry_sim_settings"))
    stripe_length = settings.server.stripe_length
    settings.server = server
    settings.server.stripe_length = stripe_length
    settings.straggler = drawn.pointer
    settings.chunk_ns = nanoseconds(chunk_seconds, "chunk_seconds")
    settings.overhead_ns = nanoseconds(overhead, "overhead")
    put(settings, "dimension", dimension)
    settings.parameter_bytes = 4 * dimension if parameters_travel else 0
    settings.link.latency_ns = nanoseconds(latency, "latency")
    settings.link.bytes_per_second = bytes_per_second
    settings.link.message_ns = nanoseconds(message_seconds, "message_seconds")
    settings.server_bytes_per_second = server_bytes_per_second
    settings.way = value_of(WAYS, way, "way")
    if way != "star":
        settings.server.sum = lib.TARRY_SUM_EVERYWHERE
    settings.upload = value_of(UPLOADS, upload, "upload")
    put(settings, "seed", seed)
    made, why = ffi.new("tarry_sim **"), Diagnostic()
    why.check(lib.tarry_sim_create(plan.pointer, settings, ffi.NULL, made, why.pointer))
    world = ffi.gc(made[0], lib.tarry_sim_free)
    rows = [_row(plan, world, settings, number, bounds) for number in range(rounds)]
    ffi.release(world)
    columns = ("round", *_TIMES, *(_BOUNDS if bounds else ()), *_FIGURES)
    return {name: np.array([row[name] for row in rows]) for name in columns}


def _row(plan: Plan, world: Any, settings: Any, number: int, bounds: bool) -> dict[str, Any]:
    """Runs a round; gives its figures."""
    result, why = ffi.new("tarry_round_result *"), Diagnostic()
    why.check(lib.tarry_sim_round(world, result))
    row: dict[str, Any] = {"round": number}
    for name, (begin, end) in _TIMES.items():
        row[name] = _interval(result, begin, end) if result.error == lib.TARRY_OK else float("inf")
    if bounds:
        bound = ffi.new("tarry_sim_bounds *")
        why.check(lib.tarry_sim_bound(plan.pointer, settings, number, result.parts, ffi.NULL, bound))
        row.update((name, seconds(getattr(bound, name + "_ns"))) for name in _BOUNDS)
    row.update((name, getattr(result, name)) for name in _FIGURES)
    return row
