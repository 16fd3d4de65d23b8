# SPDX-License-Identifier: Apache-2.0
"""The state of a training as bytes, without pickle: tensors as safetensors has them, everything else as JSON."""

import json
from typing import Any, cast

import torch

from ..errors import FormatError
from ..hub import blob

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_PLAIN = (bool, int, float, str, type(None))


class _Writer:
    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.pieces: list[bytes] = []
        self.size = 0

    def tensor(self, name: str, value: torch.Tensor) -> None:
        if value.dtype not in _NAMES or value.layout != torch.strided:
            raise FormatError(f"{name}: a tensor of {value.dtype}, {value.layout} can't be saved")
        flat = value.detach().to("cpu").contiguous()
        piece = flat.reshape(-1).view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        self.header[name] = {
            "dtype": _NAMES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [self.size, self.size + len(piece)],
        }
        self.pieces.append(piece)
        self.size += len(piece)

    def encode(self, name: str, value: Any) -> Any:
        """What stands for the value in the JSON."""
        if isinstance(value, torch.Tensor):
            self.tensor(name, value)
            return {"tensor": name}
        if isinstance(value, dict):
            entries = cast("dict[Any, Any]", value)
            return {"dict": [[self._key(name, key), self.encode(f"{name}.{key}", one)] for key, one in entries.items()]}
        if isinstance(value, list | tuple):
            items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.encode(f"{name}.{place}", one) for place, one in enumerate(items)]}
        if isinstance(value, _PLAIN):
            return value if not isinstance(value, float) else {"float": value.hex()}
        if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of NumPy's
            return self.encode(name, value.item())
        raise FormatError(f"{name}: a {type(value).__name__} can't be saved without pickle")

    @staticmethod
    def _key(name: str, key: Any) -> Any:
        if not isinstance(key, str | int):
            raise FormatError(f"{name}: a key of {type(key).__name__} can't be saved")
        return key


def encode(values: dict[str, Any], told: dict[str, str]) -> bytes:
    """Nested dicts, lists and tuples of tensors, numbers, texts and None. The same values give the same bytes."""
    writer = _Writer()
    shape = writer.encode("", values)
    more = {"values": json.dumps(shape, separators=(",", ":")), **told}
    return blob.join({"__metadata__": more, **writer.header}, b"".join(writer.pieces))


def decode(text: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """The values, with tensors on the CPU, and what was told with them. Raises FormatError."""
    header, numbers = blob.split(text)
    told = blob.metadata(text)
    try:
        return _decode(json.loads(told["values"]), header, numbers), told
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise FormatError(f"no state of a training: {error!r}") from None


def _decode(value: Any, header: dict[str, Any], numbers: memoryview) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = cast("dict[str, Any]", value).items()
    if kind == "dict":
        return {key: _decode(one, header, numbers) for key, one in inside}
    if kind in ("list", "tuple"):
        found = [_decode(one, header, numbers) for one in inside]
        return found if kind == "list" else tuple(found)
    if kind == "float":
        return float.fromhex(inside)
    entry = header[inside]
    begin, end = entry["data_offsets"]
    dtype = _DTYPES[entry["dtype"]]
    if begin == end:
        return torch.empty(entry["shape"], dtype=dtype)
    return torch.frombuffer(bytearray(numbers[begin:end]), dtype=dtype).reshape(entry["shape"])
