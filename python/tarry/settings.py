# SPDX-License-Identifier: Apache-2.0
"""The settings of a server: one table of their names, and what they become in the library."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from ._native import ffi, lib
from .errors import ArgumentError
from .gone import GONE
from .names import (
    COMPRESSES,
    CREDITS,
    DOWNS,
    FILLS,
    KEEPS,
    PICKS,
    SHAPES,
    STOPS,
    SUMS,
    nanoseconds,
    put,
    value_of,
)  # fmt: skip
from .plan import Plan


class ServerSettings(TypedDict, total=False):
    """Settings of a server or a local runtime; times are in seconds.

    stop          when a round ends: 'exact' (default), 'deadline', 'error' or 'workers'
    deadline      seconds after the round's start, with which stop is 'deadline'
    error_limit   expected error, 0..1, with which stop is 'error'
    workers_needed with which stop is 'workers'
    credit        'chunk' (default): each finished unit counts; 'whole': a worker that has finished all of its own
    pick          what a worker computes next: 'share' (default), by what others have done, or 'plan', in the plan's
                  order
    learn_costs   of units over the rounds (default)
    keep          'all' finished gradients until the sum, or a running sum of those 'credited'; 'auto' (default):
                  credited where all would take more than a quarter of the memory
    ahead         with 'credited': finished gradients that may wait for the server's answer
    fill          what stands in for units that are left out: 'none' (default), 'scale' or 'stale'
    reproducible  sums in the order of workers, of all units
    conditioning_limit of what counts as recovered
    silence       without an answer after which a worker counts as lost (default 2)
    sum           made at the 'server' (default) or 'everywhere', among the workers
    compress      the form in which coded parts are sent, with one part: 'none' (default: float32), 'bf16', 'int8',
                  which is rounded by chance, and, at the server, with what rounding lost in the next part, 'int4',
                  'sign', 'topk', the largest numbers alone, or 'powersgd', products with a thin matrix
    compress_seed of that chance (default 0)
    compress_share of the numbers that 'topk' sends, up to 0.5
    compress_first with 'topk', rounds below this one are dense: all numbers are sent, as in 'int4' (default 0)
    compress_from  and so are those from this one on (default 0: none)
    compress_rank of 'powersgd': the columns of thin matrices, up to 64
    compress_matrices of 'powersgd': (rows, columns) of what the gradient is from its first number on; what follows is
                  float32, as vectors are
    compress_exact the last so many numbers of a gradient are float32 in every form: counts that ride with it
    compress_down the form in which parameters come down to workers: 'none' (default: float32), or what has changed in
                  'bf16' or 'int8', which is rounded by chance; with 'everywhere' and one part that of the sum, on its
                  way from who sums it to all
    sample_chunks so many chunks are drawn in each round, on average (default 0: all take part; docs/sampling.md)
    sample_seed   of the draw (default 0)
    shape         with 'everywhere': 'auto' (default), 'direct', 'grid' or 'tree'
    voters_grace, attempts_most, digest_steps, attempt_limit   as in tarry/server.h
    """

    stop: Literal["exact", "deadline", "error", "workers"]
    deadline: float
    error_limit: float
    workers_needed: int
    credit: Literal["chunk", "whole"]
    pick: Literal["plan", "share"]
    learn_costs: bool
    keep: Literal["auto", "all", "credited"]
    ahead: int
    fill: Literal["none", "scale", "stale"]
    reproducible: bool
    conditioning_limit: float
    silence: float
    sum: Literal["server", "everywhere"]
    compress: Literal["none", "bf16", "int8", "int4", "topk", "sign", "powersgd"]
    compress_seed: int
    compress_share: float
    compress_first: int
    compress_from: int
    compress_rank: int
    compress_matrices: Sequence[tuple[int, int]]
    compress_exact: int
    compress_down: Literal["none", "bf16", "int8"]
    sample_chunks: int
    sample_seed: int
    shape: Literal["auto", "direct", "grid", "tree"]
    voters_grace: float
    attempts_most: int
    digest_steps: int
    attempt_limit: float


class _Setting(NamedTuple):
    field: str
    convert: Callable[[Any, str], Any]
    bit: int | None = None  # with which others are made to yield to it


def _as_it_is(value: Any, _name: str) -> Any:
    return value


def _millionths(value: Any, _name: str) -> int:
    return round(value * 1e6)


@functools.cache  # what a server borrows stays
def _kept(shapes: tuple[tuple[int, int], ...]) -> Any:
    return ffi.new("tarry_matrix[]", list(shapes))


def _matrices(value: Any, name: str) -> Any:
    shapes = tuple((int(rows), int(columns)) for rows, columns in value)
    if not all(1 <= number < 1 << 32 for shape in shapes for number in shape):
        raise ArgumentError(f"{name} has a shape without rows or columns, or with too many")
    return _kept(shapes)


def _named(names: dict[str, int]) -> Callable[[Any, str], Any]:
    return lambda value, setting: value_of(names, value, setting)


_SERVER: dict[str, _Setting] = {
    "stop": _Setting("stop", _named(STOPS), lib.TARRY_SETTING_STOP),
    "deadline": _Setting("deadline_ns", nanoseconds),
    "error_limit": _Setting("error_limit", _as_it_is),
    "workers_needed": _Setting("workers_needed", _as_it_is),
    "credit": _Setting("credit", _named(CREDITS), lib.TARRY_SETTING_CREDIT),
    "pick": _Setting("pick", _named(PICKS), lib.TARRY_SETTING_ORDER),
    "learn_costs": _Setting("learn_costs", _as_it_is),
    "keep": _Setting("keep", _named(KEEPS), lib.TARRY_SETTING_KEEP),
    "ahead": _Setting("ahead", _as_it_is),
    "fill": _Setting("fill", _named(FILLS), lib.TARRY_SETTING_FILL),
    "reproducible": _Setting("reproducible", _as_it_is, lib.TARRY_SETTING_REPRODUCIBLE),
    "conditioning_limit": _Setting("conditioning_limit", _as_it_is),
    "silence": _Setting("silence_ns", nanoseconds),
    "sum": _Setting("sum", _named(SUMS), lib.TARRY_SETTING_SUM),
    "compress": _Setting("compress", _named(COMPRESSES), lib.TARRY_SETTING_COMPRESS),
    "compress_seed": _Setting("compress_seed", _as_it_is),
    "compress_share": _Setting("compress_share", _millionths),
    "compress_first": _Setting("compress_first", _as_it_is),
    "compress_from": _Setting("compress_from", _as_it_is),
    "compress_rank": _Setting("compress_rank", _as_it_is),
    "compress_matrices": _Setting("compress_matrices", _matrices),
    "compress_exact": _Setting("compress_exact", _as_it_is),
    "compress_down": _Setting("compress_down", _named(DOWNS), lib.TARRY_SETTING_COMPRESS_DOWN),
    "sample_chunks": _Setting("sample_chunks", _as_it_is, lib.TARRY_SETTING_SAMPLE),
    "sample_seed": _Setting("sample_seed", _as_it_is),
    "shape": _Setting("shape", _named(SHAPES)),
    "voters_grace": _Setting("voters_grace_ns", nanoseconds),
    "attempts_most": _Setting("attempts_most", _as_it_is),
    "digest_steps": _Setting("digest_steps", _as_it_is),
    "attempt_limit": _Setting("attempt_limit_ns", nanoseconds),
}
_PLAN_BITS = (
    lib.TARRY_SETTING_WORKERS,
    lib.TARRY_SETTING_CHUNKS,
    lib.TARRY_SETTING_PIECES,
    lib.TARRY_SETTING_REPLICATION,
    lib.TARRY_SETTING_PARTS,
    lib.TARRY_SETTING_DESIGN,
)
_STOP_BY = {"deadline": "deadline", "error_limit": "error", "workers_needed": "workers"}


def _with_stop(given: dict[str, Any]) -> dict[str, Any]:
    """A limit that is given says which rule stops."""
    rules = {_STOP_BY[name] for name in given if name in _STOP_BY}
    stop = given.get("stop")
    if len(rules) > 1 or (rules and stop is not None and rules != {stop}):
        named = " and ".join(name for name in given if name in _STOP_BY or name == "stop")
        raise ArgumentError(f"{named} don't go together")
    for name, rule in _STOP_BY.items():
        if stop == rule and name not in given:
            raise ArgumentError(f"stop {stop!r} needs {name}")
    return given | {"stop": rules.pop()} if rules else given


# Where the library's name of a setting is not ours.
_NAMES = {
    lib.TARRY_SETTING_ORDER: "pick",
    lib.TARRY_SETTING_COSTS: "costs",
    lib.TARRY_SETTING_SAMPLE: "sample_chunks",
}
_PLAN_NUMBERS = ("workers", "chunks", "pieces", "replication", "parts")


def _shown(setting: int, exceeds: bool, given: dict[str, Any], plan: Any) -> str:
    """A setting's name, with its value where it is known."""
    name = _NAMES.get(setting) or ffi.string(lib.tarry_setting_name(setting)).decode()
    if exceeds and setting == lib.TARRY_SETTING_STOP:
        name = "workers_needed"
    if exceeds and setting == lib.TARRY_SETTING_RACKS:
        return f"racks={plan.rack_size}"
    if name in given:
        return f"{name}={given[name]!r}"
    return f"{name}={getattr(plan, name)} of the plan" if name in _PLAN_NUMBERS else name


def _conflict_text(conflict: Any, given: dict[str, Any], plan: Any) -> str:
    first, second = (_shown(one, conflict.exceeds, given, plan) for one in (conflict.first, conflict.second))
    reason = ffi.string(conflict.reason).decode()
    return f"{first} {'is more than' if conflict.exceeds else 'does not go with'} {second}: {reason}"


def _memory_bytes() -> float:
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")


def server_settings(plan: Plan, dimension: int, wanted: ServerSettings, *, secure: int = 0) -> Any:
    """The library's settings of a server for the plan; what was not given yields to what was. secure: bits of masked
    numbers; 0: sums are not secure."""
    unknown = [name for name in wanted if name not in _SERVER]
    if unknown and unknown[0] in GONE:
        raise TypeError(f"{unknown[0]}: {GONE[unknown[0]]}")
    if unknown:
        raise TypeError(f"{unknown[0]!r} is not a setting of a server; there are {', '.join(_SERVER)}")
    given = _with_stop(dict(wanted))
    settings = ffi.new("tarry_settings *")
    lib.tarry_settings_init(settings)
    settings.plan = plan.settings[0]
    settings.keep_auto = given.get("keep", "auto") == "auto"
    if settings.keep_auto:
        given.pop("keep", None)
    bits = sum(1 << bit for bit in _PLAN_BITS)
    bits |= 1 << lib.TARRY_SETTING_RACKS if settings.plan.rack_size or settings.plan.rack_file else 0
    for name, value in given.items():
        setting = _SERVER[name]
        put(settings.server, setting.field, setting.convert(value, name), name)
        bits |= 1 << setting.bit if setting.bit is not None else 0
    if secure:
        put(settings.server, "secure", secure)
        bits |= 1 << lib.TARRY_SETTING_SECURE
    if given.get("compress") == "powersgd":
        put(settings.server, "stripe_length", 0)  # chosen by the runtime: matrices are seldom cut
    put(settings.server, "compress_matrix_count", len(given.get("compress_matrices", ())))
    put(settings.server, "dimension", dimension)
    conflict = ffi.new("tarry_conflict *")
    if lib.tarry_settings_settle(settings, bits, conflict) != lib.TARRY_OK:
        raise ArgumentError(_conflict_text(conflict, given, settings.plan))
    copies = sum(lib.tarry_plan_load(plan.pointer, worker) for worker in range(plan.workers))
    lib.tarry_settings_keep(settings, copies, dimension, _memory_bytes() / 4, "ahead" in given)
    if lib.tarry_settings_check(settings, conflict) != lib.TARRY_OK:
        raise ArgumentError(_conflict_text(conflict, given, settings.plan))
    # A copy that owns its memory: that of a member goes with the structure around it.
    return ffi.new("tarry_server_settings *", settings.server)[0]
