# SPDX-License-Identifier: Apache-2.0
"""A checkpoint in one file, and beside it the log of committed sums."""

import base64
import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Generator

from ..errors import FileError, FormatError
from ..results import SumId
from . import blob

_KEY = "tarry"
_BLOCK = 1 << 24  # bytes that are written at once


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A state of the model, and what the server needs to go on from there."""

    state: blob.Blob  # of the model, as workers save it
    after: SumId  # that it has stepped on; step 0: none of this server's
    base: int  # steps of the model before the server's first
    server: bytes
    job_id: bytes
    workers: int
    agreement: dict[str, object]
    ledger: dict[str, int] | None = None  # with dp: a dp.Mark, which the ledger must not fall behind


def write(path: str, checkpoint: Checkpoint) -> None:
    """Takes the place of the file before, whole or not at all. Raises FileError."""
    told = {
        "after": dataclasses.asdict(checkpoint.after),
        "base": checkpoint.base,
        "server": base64.b64encode(checkpoint.server).decode(),
        "job_id": checkpoint.job_id.hex(),
        "workers": checkpoint.workers,
        "agreement": checkpoint.agreement,
        "ledger": checkpoint.ledger,
    }
    head, numbers = blob.with_metadata(checkpoint.state, {_KEY: json.dumps(told)})
    beside = f"{path}.new"
    try:
        with open(beside, "wb") as file:
            file.write(head)
            for begin in range(0, len(numbers), _BLOCK):
                file.write(numbers[begin : begin + _BLOCK])
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_folder(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where the disk is full, others may need the room
            os.unlink(beside)
        raise FileError(f"the checkpoint {path} can't be written: {error.strerror or error}") from None


def read(path: str) -> Checkpoint | None:
    """None: there is none. Raises FileError, FormatError."""
    try:
        with open(path, "rb") as file:
            state, text = blob.read(file, _KEY)
        told = json.loads(text)
        return Checkpoint(
            state,
            SumId(**told["after"]),
            told["base"],
            base64.b64decode(told["server"]),
            bytes.fromhex(told["job_id"]),
            told["workers"],
            told["agreement"],
            told.get("ledger"),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"the checkpoint {path} can't be read: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is no checkpoint of a training: {error}") from None


def _sync_folder(path: str) -> None:
    """A file that was created or renamed is there after a crash of the machine once its folder is synced."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class SumLog:
    """The committed sums, a line each, on disk before anybody steps. An entry of attempt 0 goes back to its step."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._terms = 0
        self.entries, size = self._read()
        with self._writing():
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (open as long as the log)
            self._file.truncate(size)
            _sync_folder(path)

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(f"the log {self._path} can't be written: {error.strerror or error}") from None

    def _read(self) -> tuple[list[SumId], int]:
        """The entries, and the bytes that they take: the end of a process may have cut a line off, on whose sum nobody
        has stepped."""
        found: list[SumId] = []
        size = 0
        try:
            for line in pathlib.Path(self._path).read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                entry = SumId(**json.loads(line))
                size += len(line)
                self._terms = max(self._terms, entry.term)
                if entry.attempt == 0:
                    found = [one for one in found if one.step <= entry.step]
                else:
                    found.append(entry)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise FileError(f"the log {self._path} can't be read: {error.strerror or error}") from None
        except (TypeError, ValueError) as error:
            raise FormatError(f"{self._path} is no log of sums: {error}") from None
        return found, size

    @property
    def term(self) -> int:
        """Above all that the log names."""
        return 1 + self._terms

    @property
    def last(self) -> tuple[SumId, SumId] | None:
        """The last two entries, the newest first."""
        none = SumId(0, 0, 0, 0)
        ends = [*self.entries[::-1][:2], none, none]
        return (ends[0], ends[1]) if self.entries else None

    def append(self, entry: SumId) -> None:
        with self._writing():
            self._file.write(json.dumps(dataclasses.asdict(entry)) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def begin_anew(self) -> None:
        """For a server that counts from 1: what was is not its own."""
        self._file.truncate(0)
        self.entries = []

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written, once more
            self._file.close()
