# SPDX-License-Identifier: Apache-2.0
"""States as bytes: the format of safetensors, of which the header's metadata also hold what is no tensor."""

import io
import json
import os
from typing import Any, cast

from ..errors import FormatError
from ..vectors import Bytes

# States are large: those who pass one on share its memory.
Blob = bytes | bytearray | memoryview | Bytes
_LENGTH = 8
_MOST_HEADER = 100_000_000  # as the format has it


def view_of(blob: Blob) -> memoryview:
    known: Any = blob  # pyright does not know that arrays have a buffer before Python 3.12
    return memoryview(known)


def split(blob: Blob) -> tuple[dict[str, Any], memoryview]:
    """The header, and the numbers behind it. Raises FormatError."""
    view = view_of(blob)
    size = _size_of_header(bytes(view[:_LENGTH]))
    return _header_of(bytes(view[_LENGTH : _LENGTH + size]), size), view[_LENGTH + size :]


def _size_of_header(length: bytes) -> int:
    size = int.from_bytes(length, "little")
    if len(length) < _LENGTH or size > _MOST_HEADER:
        raise FormatError("no state: its header is cut off")
    return size


def _header_of(text: bytes, size: int) -> dict[str, Any]:
    if len(text) < size:
        raise FormatError("no state: its header is cut off")
    try:
        header: Any = json.loads(text)
    except ValueError as error:
        raise FormatError(f"no state: {error}") from None
    if not isinstance(header, dict):
        raise FormatError("no state: its header is no object")
    return cast("dict[str, Any]", header)


def _head(header: dict[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH, "little") + text


def join(header: dict[str, Any], *numbers: Blob) -> bytes:
    """The same header and numbers give the same bytes. Copies the numbers once."""
    return b"".join([_head(header), *map(view_of, numbers)])


def metadata(blob: Blob) -> dict[str, str]:
    found: Any = split(blob)[0].get("__metadata__", {})
    if not isinstance(found, dict):
        raise FormatError("no state: its metadata are no object")
    return cast("dict[str, str]", found)


def with_metadata(blob: Blob, more: dict[str, str]) -> tuple[bytes, memoryview]:
    """The beginning of the blob that has them, and the rest, which is the same memory as before."""
    header, numbers = split(blob)
    header["__metadata__"] = header.get("__metadata__", {}) | more
    return _head(header), numbers


def read(file: io.BufferedReader, name: str) -> tuple[bytearray, str]:
    """The blob that the file has, without the metadata of that name; and these. Raises FormatError, OSError, KeyError,
    TypeError."""
    size = _size_of_header(file.read(_LENGTH))
    header = _header_of(file.read(size), size)
    told: str = header["__metadata__"].pop(name)
    head = _head(header)
    blob = bytearray(len(head) + max(0, os.fstat(file.fileno()).st_size - _LENGTH - size))
    blob[: len(head)] = head
    with memoryview(blob) as view:
        filled = len(head)
        while filled < len(blob):
            if not (count := file.readinto(view[filled:])):
                raise FormatError("no state: it is cut off")
            filled += count
    return blob, told
