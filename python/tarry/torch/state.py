# SPDX-License-Identifier: Apache-2.0
"""The state of a training as bytes, without pickle: tensors as safetensors has them, everything else as JSON.

Values come back with the types that they had. In the JSON a text, a whole number, a bool or None stands for itself; any
other value is an object with one entry, whose name is the kind.
"""

import collections
import enum
import json
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from ..errors import FormatError
from ..hub import blob
from . import containers, strides
from .dtypes import Quantized, attribute_of, bytes_of, dtype_of, join_quantized, name_of, split_quantized, tensor_of

_PLAIN = (bool, int, str, type(None))


class _Writer:
    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.pieces: list[blob.Blob] = []  # the tensors' own memory
        self.size = 0

    def tensor(self, name: str, value: torch.Tensor) -> str:
        """The name that it gets. The keys 1 and '1' would give two tensors the same one."""
        while name in self.header:
            name += "'"
        piece = bytes_of(value)
        self.header[name] = {
            "dtype": name_of(value.dtype),
            "shape": list(value.shape),
            "data_offsets": [self.size, self.size + len(piece)],
        }
        self.pieces.append(piece)
        self.size += len(piece)
        return name

    def raw(self, name: str, value: bytes | bytearray) -> str:
        """Bytes, as a tensor of that name."""
        numbers = torch.frombuffer(bytearray(value), dtype=torch.uint8) if value else torch.empty(0, dtype=torch.uint8)
        return self.tensor(name, numbers)

    def encode(self, name: str, value: Any) -> Any:
        """What stands for the value in the JSON."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, torch.Tensor):
            return self._encode_tensor(name, value)
        if isinstance(value, enum.Enum):
            return {"enum": [containers.class_of(value, name), value.name]}
        if isinstance(value, np.generic | np.ndarray):
            return self._encode_numpy(name, value, cast(Any, value).dtype)
        if isinstance(value, torch.Size):
            return {"size": list(value)}
        if isinstance(value, torch.dtype):
            return {"dtype": attribute_of(value)}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        base = containers.base_of(value)
        if not base:
            raise FormatError(f"{name}: a {type(value).__name__} can't be saved without pickle")
        if containers.is_plain(value, base):
            return {base: self._encode_base(base, name, value)}
        return self._encode_subclass(base, name, value)

    def _encode_subclass(self, base: str, name: str, value: Any) -> Any:
        told, attributes = containers.class_of(value, name), dict(getattr(value, "__dict__", {}))
        try:
            containers.again(base, told, value, {})  # what can't be made again is told now
        except FormatError as error:
            raise FormatError(f"{name}: {error}") from None
        inside = self._encode_base(base, name, value)
        return {"class": [told, base, inside, self.encode(f"{name}.__dict__", attributes)]}

    def _encode_base(self, base: str, name: str, value: Any) -> Any:
        """The contents of a built-in type."""
        if base in ("list", "tuple"):
            return self._items(name, value)
        if base in ("set", "frozenset"):
            # The order of a set differs from process to process.
            return sorted(self._items(name, sorted(value, key=repr)), key=json.dumps)
        if base == "deque":
            return [value.maxlen, self._items(name, value)]
        if base == "float":
            return float.hex(value)
        if base == "complex":
            return [value.real.hex(), value.imag.hex()]
        if base == "int":
            return int.__int__(value)
        if base == "str":
            return str.__str__(value)
        if base in ("bytes", "bytearray"):
            return self.raw(name, value)
        pairs = [[self._key(name, key), self.encode(f"{name}.{key}", one)] for key, one in value.items()]
        return pairs if base != "defaultdict" else [containers.factory_name(value, name), pairs]

    def _items(self, name: str, value: Any) -> list[Any]:
        return [self.encode(f"{name}.{place}", one) for place, one in enumerate(value)]

    def _encode_numpy(self, name: str, value: Any, kind: Any) -> Any:
        if kind.hasobject or kind.fields is not None or type(value) not in (np.ndarray, kind.type):
            what = f"a {type(value).__name__} of {kind}"
            raise FormatError(f"{name}: {what} can't be saved without pickle; give plain numbers, texts or tensors")
        if type(value) is np.ndarray:
            return {"array": [self.raw(name, value.tobytes()), kind.str, list(value.shape)]}
        return {"scalar": [kind.str, value.tobytes().hex()]}

    def _encode_tensor(self, name: str, value: torch.Tensor) -> Any:
        if value.layout != torch.strided:
            raise FormatError(f"{name}: a tensor of {value.dtype}, {value.layout} can't be saved")
        if isinstance(value, torch.nn.Parameter):
            return {"parameter": [self._encode_tensor(name, value.detach()), value.requires_grad]}
        if value.is_quantized:
            parts = enumerate(split_quantized(name, value))
            return {"quantized": [self.encode(f"{name}.{part}", one) for part, one in parts]}
        name = self.tensor(name, value)
        if value.is_contiguous() or not strides.is_dense(value):
            return {"tensor": name}
        return {"strided": [name, list(value.stride())]}

    def _key(self, name: str, key: Any) -> Any:
        if isinstance(key, torch.Tensor | bytes):
            raise FormatError(f"{name}: a key of {type(key).__name__} can't be saved")
        return self.encode(f"{name}, the key {key!r}", key)


def encode(values: dict[str, Any], told: dict[str, str]) -> bytes:
    """Nested dicts, lists and other containers of tensors, arrays, numbers, texts and None. The same values give the
    same bytes. Raises FormatError."""
    writer = _Writer()
    shape = writer.encode("", values)
    more = {"values": json.dumps(shape, separators=(",", ":")), **told}
    return blob.join({"__metadata__": more, **writer.header}, *writer.pieces)


def decode(text: blob.Blob) -> tuple[dict[str, Any], dict[str, str]]:
    """The values, with tensors on the CPU, and what was told with them. Raises FormatError."""
    header, numbers = blob.split(text)
    told = blob.metadata(text)
    try:
        return _Reader(header, numbers).decode(json.loads(told["values"])), told
    except FormatError:
        raise
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise FormatError(f"no state of a training: {error!r}") from None


class _Reader:
    def __init__(self, header: dict[str, Any], numbers: memoryview) -> None:
        self._header, self._numbers = header, numbers

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, inside),) = cast("dict[str, Any]", value).items()
        if kind in containers.BASES:
            return self._base(kind, inside)
        return _KINDS[kind](self, inside)

    def _base(self, kind: str, inside: Any) -> Any:
        if kind in ("list", "tuple", "set", "frozenset"):
            make: Any = containers.BASES[kind][0]
            return make(self.items(inside))
        if kind == "deque":
            return collections.deque(self.items(inside[1]), inside[0])
        if kind == "float":
            return float.fromhex(inside)
        if kind == "complex":
            return complex(*map(float.fromhex, inside))
        if kind in ("int", "str"):
            return inside
        if kind in ("bytes", "bytearray"):
            raw: Any = containers.BASES[kind][0]
            return raw(self.raw(inside))
        if kind == "defaultdict":
            return containers.with_factory(inside[0], self._pairs(inside[1]))
        made: Any = containers.BASES[kind][0]
        return made(self._pairs(inside))

    def items(self, inside: Any) -> list[Any]:
        return [self.decode(one) for one in inside]

    def _pairs(self, inside: Any) -> dict[Any, Any]:
        return {self.decode(key): self.decode(one) for key, one in inside}

    def subclass(self, inside: Any) -> Any:
        told, base, contents, attributes = inside
        return containers.again(base, told, self._base(base, contents), self.decode(attributes))

    def tensor(self, name: str) -> torch.Tensor:
        entry = self._header[name]
        begin, end = entry["data_offsets"]
        return tensor_of(self._numbers[begin:end], dtype_of(entry["dtype"]), entry["shape"])

    def raw(self, name: str) -> bytes:
        begin, end = self._header[name]["data_offsets"]
        return bytes(self._numbers[begin:end])


_KINDS: dict[str, Callable[[_Reader, Any], Any]] = {
    "tensor": _Reader.tensor,
    "strided": lambda reader, inside: strides.as_strided(reader.tensor(inside[0]), inside[1]),
    "quantized": lambda reader, inside: join_quantized(Quantized(*reader.items(inside))),
    "parameter": lambda reader, inside: torch.nn.Parameter(reader.decode(inside[0]), requires_grad=inside[1]),
    "class": _Reader.subclass,
    "enum": lambda _, inside: containers.member(*inside),
    "array": lambda reader, inside: _array(reader.raw(inside[0]), *inside[1:]).copy(),
    "scalar": lambda _, inside: _array(bytes.fromhex(inside[1]), inside[0], [])[()],
    "size": lambda _, inside: torch.Size(inside),
    "dtype": lambda _, inside: dtype_of(inside),
    "device": lambda _, inside: torch.device(inside),
    "range": lambda _, inside: range(*inside),
}


def _array(numbers: bytes, kind: str, shape: list[int]) -> Any:
    return np.ndarray(shape, dtype=kind, buffer=numbers) if numbers else np.zeros(shape, dtype=kind)
