# SPDX-License-Identifier: Apache-2.0
"""The settings of a server: what users write, and what it becomes in the library, which has the table of them."""

import functools
import json
import operator
import os
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic
from .gone import GONE
from .names import nanoseconds, put
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
                  credited if the other settings allow it
    ahead         with 'credited': finished gradients that may wait for the server's answer (default: up to 8 with
                  'auto', as far as the memory allows, else 3)
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
    compress_rank of 'powersgd': the columns of thin matrices, up to 64
    compress_matrices of 'powersgd': (rows, columns) of what the gradient is from its first number on; what follows is
                  float32, as vectors are
    compress_exact the last so many numbers of a gradient are float32 in every form: counts that ride with it
    compress_down the form in which parameters come down to workers: 'none' (default: float32), or what has changed in
                  'bf16' or 'int8', which is rounded by chance; with 'everywhere' and one part that of the sum, on its
                  way from who sums it to all
    sample_chunks so many chunks are drawn in each round, on average (default 0: all take part; docs/sampling.md)
    sample_seed   of the draw (default 0)
    element       of gradients and sums: 'float32' (default) or, with sums among workers by an engine that has it,
                  'float64'
    voters_grace, attempts_most, digest_steps, attempt_limit, reports_per_frame   as in tarry/server.h
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
    compress_rank: int
    compress_matrices: Sequence[tuple[int, int]]
    compress_exact: int
    compress_down: Literal["none", "bf16", "int8"]
    sample_chunks: int
    sample_seed: int
    voters_grace: float
    attempts_most: int
    digest_steps: int
    attempt_limit: float
    reports_per_frame: int
    element: Literal["float32", "float64"]


# Settings of the library that `server_settings` sets by itself.
OWN = ("dimension", "stripe_length", "secure")


def _table() -> dict[str, tuple[str, int]]:
    """The library's settings by their names here: the field, and what rules on two settings call it."""
    table: dict[str, tuple[str, int]] = {}
    pair = ffi.new("tarry_setting *")
    while (found := lib.tarry_server_setting_name(len(table), pair)) != ffi.NULL:
        field = ffi.string(found).decode()
        table[field.removesuffix("_ns")] = field, pair[0]
    return table


FIELDS = _table()


@functools.cache  # what a server borrows stays
def _kept(shapes: tuple[tuple[int, int], ...]) -> Any:
    return ffi.new("tarry_matrix[]", list(shapes))


def _matrices(value: Any, name: str) -> Any:
    try:
        shapes = tuple((int(rows), int(columns)) for rows, columns in value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} is {value!r}, and must be pairs of rows and columns") from None
    if not all(1 <= number < 1 << 32 for shape in shapes for number in shape):
        raise ArgumentError(f"{name} has a shape without rows or columns, or with too many")
    return _kept(shapes)


@functools.cache
def _defaults() -> dict[str, Any]:
    return counting({})


def _kind(name: str) -> type:
    """str of choices, bool, or float."""
    default = _defaults().get(name, 0.0)
    return type(default) if isinstance(default, str | bool) else float


def _text(value: Any, name: str) -> str:
    """A value as the library reads it."""
    kind = _kind(name)
    if kind is str:
        return str(value)
    if kind is bool and not isinstance(value, str) and value in (False, True):
        return "true" if value else "false"
    if isinstance(value, str):
        raise ArgumentError(f"{name} is {value!r}, and must be {'True or False' if kind is bool else 'a number'}")
    if isinstance(value, bool | np.bool_):
        value = 1 if value else 0
    try:
        return str(operator.index(value))
    except TypeError:
        pass
    try:
        return repr(float(value))
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is {value!r}") from None


def _millionths(share: Any, name: str) -> int:
    try:
        if share == 0 or 1e-6 <= share <= 0.5:
            return round(share * 1e6)
    except TypeError:
        pass
    raise ArgumentError(f"{name} must be 0.000001 to 0.5, not {share!r}")


def _set(server: Any, name: str, value: Any) -> None:
    """Raises ArgumentError."""
    field, _ = FIELDS[name]
    if (gone := GONE.get(f"{name}:{value}")) is not None:
        raise ArgumentError(f"{name} {value!r} {gone}")
    if field == "compress_matrices":
        put(server, field, _matrices(value, name))
        put(server, "compress_matrix_count", len(value))
        return
    if field.endswith("_ns"):
        value = nanoseconds(value, name)
    elif field == "compress_share":
        value = _millionths(value, name)
    text = _text(value, name).encode(errors="replace").replace(b"\0", b"?")
    why = Diagnostic()
    why.check(lib.tarry_server_settings_set(server, field.encode(), text, why.pointer))


def counting(wanted: ServerSettings) -> dict[str, Any]:
    """The settings that count, with defaults, by the names and as the values that the library's table has.

    Two servers with the same ones work alike. Raises ArgumentError for a value that cannot be.
    """
    settings = ffi.new("tarry_settings *")
    lib.tarry_settings_init(settings)
    server = ffi.addressof(settings, "server")
    for name, value in wanted.items():
        _set(server, name, value)
    size = lib.tarry_server_settings_write(server, ffi.NULL, ffi.NULL, 0) + 1
    text = ffi.new("char[]", size)
    lib.tarry_server_settings_write(server, ffi.NULL, text, size)
    found = json.loads(ffi.string(text))
    return {name: found[field] for name, (field, _) in FIELDS.items() if field in found}


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


# The library names settings after flags of the command line, and here they have other names.
_NAMES = {pair: name for name, (_, pair) in FIELDS.items()} | {lib.TARRY_SETTING_COSTS: "costs"}
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
    known = [name for name in FIELDS if name not in OWN]
    unknown = [name for name in wanted if name not in known]
    if unknown and unknown[0] in GONE:
        raise TypeError(f"{unknown[0]}: {GONE[unknown[0]]}")
    if unknown:
        raise TypeError(f"{unknown[0]!r} is not a setting of a server; there are {', '.join(known)}")
    given = _with_stop(dict(wanted))
    settings = ffi.new("tarry_settings *")
    lib.tarry_settings_init(settings)
    server = ffi.addressof(settings, "server")
    settings.plan = plan.settings[0]
    settings.keep_auto = given.get("keep", "auto") == "auto"
    if settings.keep_auto:
        given.pop("keep", None)
    bits = sum(1 << bit for bit in _PLAN_BITS)
    bits |= 1 << lib.TARRY_SETTING_RACKS if settings.plan.rack_size or settings.plan.rack_file else 0
    for name, value in given.items():
        _set(server, name, value)
        _, pair = FIELDS[name]
        bits |= 1 << pair if pair != lib.TARRY_SETTING_NONE else 0
    if secure:
        put(server, "secure", secure)
        bits |= 1 << lib.TARRY_SETTING_SECURE
    if given.get("compress") == "powersgd":
        server.stripe_length = 0  # chosen by the runtime: matrices are seldom cut
    _set(server, "dimension", dimension)
    conflict = ffi.new("tarry_conflict *")
    if lib.tarry_settings_settle(settings, bits, conflict) != lib.TARRY_OK:
        raise ArgumentError(_conflict_text(conflict, given, settings.plan))
    lib.tarry_settings_keep(settings, dimension, _memory_bytes() / 4, "ahead" in given)
    if lib.tarry_settings_check(settings, conflict) != lib.TARRY_OK:
        raise ArgumentError(_conflict_text(conflict, given, settings.plan))
    # A copy that owns its memory: that of a member goes with the structure around it.
    return ffi.new("tarry_server_settings *", server[0])[0]
