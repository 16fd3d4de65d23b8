# SPDX-License-Identifier: Apache-2.0
"""Vectors of float32 that pass between Python and the library without a copy."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ._native import ffi

Floats: TypeAlias = npt.NDArray[np.float32]
Bytes: TypeAlias = npt.NDArray[np.uint8]


class SupportsDLPack(Protocol):
    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class SupportsBuffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


# NumPy arrays, whatever has a buffer, and whatever speaks DLPack, as PyTorch's tensors on the CPU do.
Vector: TypeAlias = Floats | SupportsDLPack | SupportsBuffer | memoryview


def _array_over(vector: Any, name: str) -> Any:
    if isinstance(vector, np.ndarray):
        return np.asarray(vector)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    try:
        if hasattr(vector, "__dlpack__"):
            return np.from_dlpack(vector.detach() if hasattr(vector, "detach") else vector)
        return np.asarray(memoryview(vector))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name} must be float32 numbers in this machine's memory: {error}") from error


def as_floats(vector: Any, count: int, name: str, *, writable: bool = False) -> Floats:
    """The vector as an array over the same memory.

    Raises TypeError (no numbers of float32 that the processor reaches), ValueError (of another size, not in one piece,
    or not to be written to).
    """
    array: Any = _array_over(vector, name)
    if array.dtype != np.float32:
        raise TypeError(f"{name} must have numbers of float32, not {array.dtype}")
    if array.size != count:
        raise ValueError(f"{name} has {array.size} numbers, and {count} are wanted")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name} must lie in one piece (C-contiguous), and aligned")
    if writable and not array.flags.writeable and hasattr(vector, "detach"):
        array = vector.detach().numpy()  # NumPy before 2.1 marks all that comes by DLPack as read-only
    if writable and not array.flags.writeable:
        raise ValueError(f"{name} can't be written to")
    return array.reshape(-1)


def pointer_to(array: Floats) -> Any:
    """A pointer for the library; valid as long as the array is."""
    return ffi.cast("float *", array.ctypes.data)


class Lent:
    """Memory of the library's that Python reads or writes; `over` is called when no array over it is left."""

    _over: Callable[[], None] | None = None  # until it has begun, which an interrupt may prevent

    def __init__(self, pointer: Any, count: int, over: Callable[[], None], *, writable: bool) -> None:
        self._over = over
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": np.dtype(np.float32).str,
            "data": (int(ffi.cast("uintptr_t", pointer)), not writable),
        }

    @property
    def array(self) -> Floats:
        return np.asarray(self)

    def __del__(self) -> None:
        if self._over is not None:
            self._over()
