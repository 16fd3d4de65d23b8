# SPDX-License-Identifier: Apache-2.0
"""Parameters that earlier versions had: for each, what to use instead. See docs/tried.md for why it went."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_DENSE = "no longer exists; use a larger compress_share, or compress='int4' for all rounds"
_DESIGN = "no longer exists; write a file with examples/designs.py, and give file=PATH"
_PARTS = "no longer exists; give parts, with the number that `tarry plan --advise` recommends"
_RULE = "no longer exists; use 'share', whose rounds are shorter"
_WAY = "no longer exists; use 'direct'"

GONE = {
    "Plan.__init__:adaptive_parts": _PARTS,
    "compress_first": _DENSE,
    "compress_from": _DENSE,
    "design:affine": _DESIGN,
    "design:difference": _DESIGN,
    "design:projective": _DESIGN,
    "early": "no longer exists; use sum='everywhere' to make sums faster where vectors take long",
    "importance": "no longer exists; use sample_chunks or smaller batches for cheaper rounds",
    "join:compress_first": _DENSE,
    "join:compress_last": _DENSE,
    "join:steps": "no longer exists; leave it out, as only compress_last needed it",
    "pick:capacity": _RULE,
    "pick:fewest": _RULE,
    "relays": "no longer exists; use way='direct' where the server's network is too slow",
    "sample_by": "no longer exists; leave it out, as chunks are always sampled uniformly",
    "shape": "no longer exists; leave it out, as every sum among workers is direct",
    "way:chosen": _WAY,
    "way:grid": _WAY,
    "way:tree": _WAY,
}


def names_gone(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whose parameters that are gone say what to use instead."""

    @functools.wraps(function)
    def called(*args: _P.args, **named: _P.kwargs) -> _R:
        for name in named:
            if (gone := GONE.get(f"{function.__qualname__}:{name}")) is not None:
                raise TypeError(f"{name}: {gone}")
        return function(*args, **named)

    return called
