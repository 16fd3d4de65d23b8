# SPDX-License-Identifier: Apache-2.0
"""A digest of one sample of a dataset, whatever it is made of, and its structure in words."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import pathlib
import types
import uuid
from collections.abc import Mapping, Set
from typing import Any, NamedTuple, cast

import numpy as np
import torch

_DEEPEST = 24  # below that a value counts by its type alone
_LONGEST = 200  # of a structure in words
# Values that their repr tells whole.
_TOLD_BY_REPR: tuple[type, ...] = (
    bool, int, float, complex, type(None), range, slice, decimal.Decimal, fractions.Fraction, uuid.UUID,
    datetime.date, datetime.time, datetime.timedelta, torch.dtype, torch.device,
)  # fmt: skip
_FUNCTIONS = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)


class _Parts(NamedTuple):
    """What a value consists of."""

    kind: str
    shape: str = ""  # not a part of the structure, since augmentation crops
    payload: bytes = b""
    children: list[tuple[str, Any]] | None = None
    alike: bool = False  # children are of any number


def digest_of(value: Any) -> str:
    """The same for the same value in every process, dtypes and shapes included.

    Tensors, arrays, numbers, text, bytes, lists, tuples, dicts, sets, dataclasses and pictures (PIL) count with their
    values. Another object counts by the name of its type and by its attributes. If it has none, it counts by its type
    alone.
    """
    found = hashlib.sha256()
    _feed(found, value, [])
    return found.hexdigest()[:16]


def structure_of(value: Any, *, shapes: bool = False) -> str:
    """Types, names and dtypes, as in "(float32 3-d, int)", without any value. A long one ends in a digest."""
    found = _structure(value, [], shapes=shapes)
    if len(found) <= _LONGEST:
        return found
    return f"{found[:_LONGEST]}.. ({hashlib.sha256(found.encode()).hexdigest()[:8]})"


def _feed(found: Any, value: Any, above: list[int]) -> None:
    kind, shape, payload, children, _ = _parts_of(value, above)
    found.update(f"{kind} {shape} {len(payload)} {'-' if children is None else len(children)}\n".encode())
    found.update(payload)
    for name, child in children or ():
        found.update(f"{len(name)} {name}".encode())
        _feed(found, child, [*above, id(value)])


def _structure(value: Any, above: list[int], *, shapes: bool) -> str:
    kind, shape, _, children, alike = _parts_of(value, above)
    if children is None:
        return kind + (shape if shapes else "")
    found = [
        (f"{name}: " if name else "") + _structure(child, [*above, id(value)], shapes=shapes)
        for name, child in children
    ]
    if alike:
        found = sorted(set(found))
    return f"{'' if kind == 'tuple' else kind}({', '.join(found)})"


def _parts_of(value: Any, above: list[int]) -> _Parts:
    if id(value) in above or len(above) > _DEEPEST:
        return _Parts(_name(value))
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if isinstance(value, np.ndarray | np.generic):
        return _of_array(np.asarray(cast("np.ndarray[Any, Any]", value)))
    if isinstance(value, enum.Enum):
        return _Parts(_name(value), payload=value.name.encode())
    if isinstance(value, str | pathlib.PurePath):
        return _Parts(_name(value), payload=str(value).encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray | memoryview):
        return _Parts(_name(value), payload=bytes(cast(Any, value)))
    if isinstance(value, _TOLD_BY_REPR):
        return _Parts(_name(value), payload=repr(value).encode())
    if isinstance(value, _FUNCTIONS):
        return _Parts(f"{_name(value)} {getattr(value, '__qualname__', value.__name__)}")
    return _of_container(value)


def _of_container(value: Any) -> _Parts:
    name = _name(value)
    if isinstance(value, Mapping):
        items = [(_key(key), one) for key, one in cast("Mapping[Any, Any]", value).items()]
        return _Parts(name, children=sorted(items, key=lambda item: item[0]))
    if isinstance(value, tuple):
        names: Any = getattr(cast(Any, value), "_fields", None) or [""] * len(cast(Any, value))
        return _Parts(name, children=list(zip(names, cast("tuple[Any, ...]", value), strict=True)))
    if isinstance(value, list):
        return _Parts(name, children=[("", one) for one in cast("list[Any]", value)], alike=True)
    if isinstance(value, Set):
        digests = sorted((digest_of(one), one) for one in cast("Set[Any]", value))
        return _Parts(name, children=[("", one) for _, one in digests], alike=True)
    if dataclasses.is_dataclass(value):
        return _Parts(name, children=[(one.name, getattr(value, one.name, None)) for one in dataclasses.fields(value)])
    if hasattr(value, "mode") and hasattr(value, "size") and callable(getattr(value, "tobytes", None)):  # a PIL image
        palette = value.getpalette() if callable(getattr(value, "getpalette", None)) else None
        return _Parts(f"{name} {value.mode}", f"{list(value.size)}", value.tobytes() + bytes(palette or b""))
    slots = [one for kind in type(value).__mro__ for one in _slots(kind) if hasattr(value, one)]
    known = {one: getattr(value, one) for one in slots} | getattr(value, "__dict__", {})
    return _Parts(name, children=sorted(known.items()))


def _slots(kind: type) -> list[str]:
    slots: Any = kind.__dict__.get("__slots__", ())
    return [one for one in ([slots] if isinstance(slots, str) else slots) if one not in ("__dict__", "__weakref__")]


def _name(value: Any) -> str:
    """Modules are left out: a script is __main__ in one process, and may be a module in another."""
    return type(value).__qualname__


def _key(key: Any) -> str:
    return str(key) if isinstance(key, str) else f"{_name(key)} {digest_of(key)}"


def _of_tensor(value: torch.Tensor) -> _Parts:
    known: Any = value.detach()
    kind, shape = str(known.dtype).removeprefix("torch."), str(list(known.shape))
    if known.layout != torch.strided:
        whole = known.coalesce() if known.layout == torch.sparse_coo else known
        dense = whole.to_dense() if known.layout != torch.sparse_coo else None
        children = [("values", dense)] if dense is not None else [("at", whole.indices()), ("values", whole.values())]
        return _Parts(f"{kind} {known.layout}", shape, children=children)
    if getattr(known, "is_nested", False):
        return _Parts(f"{kind} nested", children=[("", one) for one in known.unbind()], alike=True)
    if known.is_quantized:
        return _Parts(kind, shape, children=[("", known.int_repr()), ("", known.dequantize())])
    payload = b"" if known.is_meta else bytes_of(known)
    return _Parts(f"{kind} {known.dim()}-d", shape, payload)


def _of_array(value: "np.ndarray[Any, Any]") -> _Parts:
    kind = f"array {value.dtype} {value.ndim}-d"
    if value.dtype.hasobject or value.dtype.names:  # a record may have bytes between its fields that mean nothing
        return _Parts(
            kind, str(list(value.shape)), children=[("", one) for one in value.reshape(-1).tolist()], alike=True
        )
    return _Parts(kind, str(list(value.shape)), value.tobytes())


def bytes_of(tensor: torch.Tensor) -> bytes:
    return bytes(view_of(tensor))


def view_of(tensor: torch.Tensor) -> memoryview:
    """The tensor's numbers as bytes. They are copied only if they lie elsewhere, or not in order."""
    known: Any = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous().reshape(-1)
    return memoryview(known.view(torch.uint8).numpy()) if known.numel() else memoryview(b"")
