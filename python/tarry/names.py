# SPDX-License-Identifier: Apache-2.0
"""Values of the library's enumerations by their names, and times in seconds."""

from collections.abc import Mapping
from typing import Any

from ._native import lib
from .errors import ArgumentError
from .gone import GONE

NEVER: int = lib.TARRY_NEVER


def _values(prefix: str, *names: str) -> dict[str, int]:
    return {name: getattr(lib, prefix + name.upper().replace("-", "_")) for name in names}


DESIGNS = _values("TARRY_DESIGN_", "cyclic", "fractional", "random", "file")
ORDERS = _values("TARRY_ORDER_", "optimal", "random", "as-is")
COMPRESSES = _values("TARRY_COMPRESS_", "none", "bf16", "int8", "int4", "topk", "sign", "powersgd")
DOWNS = {name: COMPRESSES[name] for name in ("none", "bf16", "int8")}
SUMS = _values("TARRY_SUM_", "server", "everywhere")
WAYS = _values("TARRY_SIM_", "star", "ring", "direct")
UPLOADS = _values("TARRY_SIM_UPLOAD_", "coded", "each", "whole")


def value_of(names: Mapping[str, int], name: str, setting: str) -> int:
    """The value of a name; ArgumentError with those that there are."""
    if name not in names:
        if (gone := GONE.get(f"{setting}:{name}")) is not None:
            raise ArgumentError(f"{setting} {name!r} {gone}")
        raise ArgumentError(f"{setting} is {name!r}; it can be {', '.join(repr(one) for one in names)}")
    return names[name]


def name_of(names: Mapping[str, int], value: int) -> str:
    return next(name for name, known in names.items() if known == value)


def put(settings: Any, field: str, value: Any, setting: str = "") -> None:
    """Sets a number of the library's settings. Raises ArgumentError with the setting's name where it does not fit."""
    try:
        setattr(settings, field, value)
    except (OverflowError, TypeError) as error:
        raise ArgumentError(f"{setting or field} is {value!r}: {error}") from None


def nanoseconds(seconds: float | None, setting: str = "a time") -> int:
    """None: without end."""
    if seconds is None:
        return NEVER
    try:
        fits = 0 <= seconds < NEVER / 1e9
    except TypeError:
        fits = False
    if not fits:
        raise ArgumentError(f"{setting} is {seconds!r}, and must be seconds, 0 or more")
    return round(seconds * 1e9)


def seconds(nanoseconds_: int) -> float:
    """Without end: infinity."""
    return float("inf") if nanoseconds_ == NEVER else nanoseconds_ / 1e9
