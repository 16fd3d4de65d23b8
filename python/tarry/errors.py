# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions: tarry.Error, and one below it for each error of the library."""

from collections.abc import Mapping
from typing import Any

from ._native import ffi, lib


class Error(Exception):
    """Something that Tarry could not do; the text says what, why and where."""


class ArgumentError(Error, ValueError):
    """A setting or an argument is outside its documented range, or two don't go together."""


class FileError(Error, OSError):
    """A file cannot be opened, read or written."""


class FormatError(Error, ValueError):
    """What a file, a text or a peer says is malformed."""


class NumericalError(Error, ArithmeticError):
    """A least-squares solution did not converge."""


class CoverageError(Error):
    """The workers that are left can't bring what the stop rule wants; more may come."""


class SystemResourceError(Error, OSError):
    """The system refused a thread, an address or another resource."""


class InterruptedByCaller(Error):
    """The call was interrupted (Server.interrupt)."""


class StateError(Error, RuntimeError):
    """The call does not fit the object's present state."""


class DifferError(Error):
    """Workers got different bits for the same sum, or have different parameters, and none are those of most."""


class LinksError(Error):
    """Workers that are there could not make the sum with each other."""


class GoneError(Error):
    """Nobody who is there has the last committed sum or state, and there is no checkpoint."""


class MasksError(Error):
    """The masks of workers' parts of a secure sum do not cancel."""


_CLASSES: dict[int, type[Exception]] = {
    lib.TARRY_ERROR_NO_MEMORY: MemoryError,
    lib.TARRY_ERROR_ARGUMENT: ArgumentError,
    lib.TARRY_ERROR_FILE: FileError,
    lib.TARRY_ERROR_FORMAT: FormatError,
    lib.TARRY_ERROR_NUMERICAL: NumericalError,
    lib.TARRY_ERROR_COVERAGE: CoverageError,
    lib.TARRY_ERROR_SYSTEM: SystemResourceError,
    lib.TARRY_ERROR_INTERRUPTED: InterruptedByCaller,
    lib.TARRY_ERROR_STATE: StateError,
    lib.TARRY_ERROR_DIFFER: DifferError,
    lib.TARRY_ERROR_LINKS: LinksError,
    lib.TARRY_ERROR_GONE: GoneError,
    lib.TARRY_ERROR_MASKS: MasksError,
}


def error_of(code: int, why: str = "") -> Exception:
    """The exception of an error of the library."""
    text = why or ffi.string(lib.tarry_error_text(code)).decode()
    return _CLASSES.get(code, Error)(text)


class Diagnostic:
    """Room for the library's line on what went wrong."""

    def __init__(self) -> None:
        self.pointer = ffi.new("tarry_diagnostic *")

    @property
    def text(self) -> str:
        return ffi.string(self.pointer.text).decode(errors="replace")

    def check(self, code: int) -> None:
        """Raises the exception of an error; does nothing on success."""
        if code != lib.TARRY_OK:
            raise error_of(code, self.text)


def refuse(setting: str, refused: Mapping[str, bool]) -> None:
    """By what does not go with a setting, whether it is there. Raises ArgumentError."""
    for why, is_there in refused.items():
        if is_there:
            raise ArgumentError(f"{setting} does not go with {why}")


def keep_error(_kind: Any, error: BaseException, traceback: Any) -> None:
    """Of functions that the library calls with an object of ours as `user`: its `fail` is told what they raise, Ctrl-C
    as they begin among it."""
    if traceback is not None:
        ffi.from_handle(traceback.tb_frame.f_locals["user"]).fail(error)
