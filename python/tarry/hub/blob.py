# SPDX-License-Identifier: Apache-2.0
"""States as bytes: the format of safetensors, of which the header's metadata also hold what is no tensor."""

import json
from typing import Any, cast

from ..errors import FormatError

_LENGTH = 8
_MOST_HEADER = 100_000_000  # as the format has it


def split(blob: bytes | memoryview) -> tuple[dict[str, Any], memoryview]:
    """The header, and the numbers behind it. Raises FormatError."""
    view = memoryview(blob)
    size = int.from_bytes(view[:_LENGTH], "little")
    if len(view) < _LENGTH or size > _MOST_HEADER or _LENGTH + size > len(view):
        raise FormatError("no state: its header is cut off")
    try:
        header: Any = json.loads(bytes(view[_LENGTH : _LENGTH + size]))
    except ValueError as error:
        raise FormatError(f"no state: {error}") from None
    if not isinstance(header, dict):
        raise FormatError("no state: its header is no object")
    return cast("dict[str, Any]", header), view[_LENGTH + size :]


def join(header: dict[str, Any], numbers: bytes | memoryview) -> bytes:
    """The same header and numbers give the same bytes."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, numbers])


def metadata(blob: bytes | memoryview) -> dict[str, str]:
    found: Any = split(blob)[0].get("__metadata__", {})
    if not isinstance(found, dict):
        raise FormatError("no state: its metadata are no object")
    return cast("dict[str, str]", found)


def with_metadata(blob: bytes | memoryview, more: dict[str, str]) -> bytes:
    header, numbers = split(blob)
    header["__metadata__"] = header.get("__metadata__", {}) | more
    return join(header, numbers)


def without_metadata(blob: bytes | memoryview, name: str) -> bytes:
    header, numbers = split(blob)
    header["__metadata__"] = {key: value for key, value in header.get("__metadata__", {}).items() if key != name}
    return join(header, numbers)
