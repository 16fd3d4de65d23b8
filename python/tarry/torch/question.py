# SPDX-License-Identifier: Apache-2.0
"""Which evaluation a worker asks for, so that its pieces and its result go only to workers that ask for the same."""

import dis
import functools
import hashlib
import os
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch

from .data_digest import digest_of_rows, read_some, rows_of
from .item_digest import digest_of
from .loader import Loader
from .samplers import Indices

_READ = 32  # samples of a dataset that is not in memory
_KEPT = 8  # digests of tensors
_DEEPEST = 6  # functions in functions
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))

# Digests of tensors that have not changed since, by these and their versions.
_known: dict[tuple[tuple[int, int], ...], tuple[list["weakref.ref[torch.Tensor]"], str]] = {}


def question_of(loader: Loader, places: Indices, size: int, loss_of: Callable[..., Any], seed: int) -> str:
    """A digest of the data, of how they are cut, and of the functions: where each stands in the script, its code, and
    the numbers and text that its closure has. What else a function reads is not in it."""
    kind = type(loader.data).__name__
    found = hashlib.sha256(f"{size} {kind} {_data(loader, seed)} ".encode() + places.astype("<i8").tobytes())
    for function in (loss_of, loader.collate):
        _add(found, function, 0)
    return found.hexdigest()[:32]


# ---- data ----


def _data(loader: Loader, seed: int) -> str:
    tensors = loader.tensors
    try:
        key = tuple((id(one), int(cast(Any, one)._version)) for one in tensors)
    except RuntimeError:  # tensors of inference mode have no version
        key = ()
    refs, digest = _known.get(key, ([], ""))
    if digest and all(ref() is one for ref, one in zip(refs, tensors, strict=True)):
        return digest
    digest = _read(loader, seed)
    if key:
        _known.pop(key, None)
        _known[key] = [weakref.ref(one) for one in tensors], digest
        while len(_known) > _KEPT:
            del _known[next(iter(_known))]
    return digest


def _read(loader: Loader, seed: int) -> str:
    rows = rows_of(loader.data)
    if rows is not None:
        found = rows(slice(None))
        kinds = " ".join(f"{one.dtype} {list(one.shape)}" for one in found)
        return f"{loader.samples} {kinds} {digest_of_rows(found)}"

    def each(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        return (function(loader, *given) for given in arguments)

    _, reads = read_some(loader.samples, each, seed, most=_READ, seconds=float("inf"))
    if any(one.loose for one in reads):
        return str(loader.samples)
    random = any(one.random for one in reads)
    return f"{loader.samples} " + " ".join(one.structure if random else one.digest for one in reads)


# ---- functions ----


def _add(found: Any, value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, functools.partial):
        partial = cast(Any, value)
        for one in (partial.func, *partial.args, *(part for item in sorted(partial.keywords.items()) for part in item)):
            _add(found, one, depth + 1)
    elif isinstance(value, types.MethodType):
        found.update(f"method of {type(value.__self__).__qualname__} ".encode())
        _add(found, value.__func__, depth + 1)
    elif isinstance(value, types.FunctionType):
        _add_code(found, value.__code__, depth + 1)
        for name, one in _closure(value):
            found.update(f"{name} ".encode())
            _add(found, one, depth + 1)
        for one in value.__defaults__ or ():
            _add(found, one, depth + 1)
    elif isinstance(value, types.CodeType):
        _add_code(found, value, depth + 1)
    elif isinstance(value, _SIMPLE):
        found.update(digest_of(value).encode())
    elif isinstance(value, tuple | frozenset):
        parts = list(cast("Iterable[Any]", value))
        for one in sorted(parts, key=repr) if isinstance(value, frozenset) else parts:
            _add(found, one, depth + 1)
    else:
        found.update(f"{type(value).__qualname__} ".encode())
        called: Any = getattr(cast(Any, type(value)), "__call__", None)  # noqa: B004 (of an object's class)
        if isinstance(called, types.FunctionType) and not isinstance(value, torch.nn.Module):
            _add(found, called, depth + 1)


def _add_code(found: Any, code: types.CodeType, depth: int) -> None:
    where = f"{os.path.basename(code.co_filename)} {code.co_qualname} {code.co_firstlineno} {code.co_names}"
    found.update(where.encode() + code.co_code)
    for one in code.co_consts:
        _add(found, one, depth)


def _closure(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Without the variables that the function itself sets: workers count in them what they have computed."""
    values: list[tuple[str, Any]] = []
    sets = _sets(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in sets:
            try:
                values.append((name, cell.cell_contents))
            except ValueError:  # it has none yet
                continue
    return values


@functools.lru_cache(maxsize=256)
def _sets(code: types.CodeType) -> frozenset[str]:
    return frozenset(str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_DEREF")
