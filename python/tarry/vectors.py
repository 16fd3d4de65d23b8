# SPDX-License-Identifier: Apache-2.0
"""Vectors of float32 that pass between Python and the library without a copy."""

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ._native import ffi

Floats: TypeAlias = npt.NDArray[np.float32]


class SupportsDLPack(Protocol):
    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class SupportsBuffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


# NumPy arrays, whatever has a buffer, and whatever speaks DLPack, as PyTorch's tensors on the CPU do.
Vector: TypeAlias = Floats | SupportsDLPack | SupportsBuffer | memoryview


def as_floats(vector: Any, count: int, name: str, *, writable: bool = False) -> Floats:
    """The vector as an array over the same memory. Raises TypeError or ValueError where that is impossible."""
    array: Any
    if isinstance(vector, np.ndarray):
        array = vector
    elif hasattr(vector, "__dlpack__"):
        array = np.from_dlpack(vector.detach() if hasattr(vector, "detach") else vector)
        if writable and not array.flags.writeable:  # NumPy before 2.1 marks all that comes so as read-only
            array = vector.detach().numpy() if hasattr(vector, "numpy") else array
    else:
        array = np.asarray(memoryview(vector))
    if array.dtype != np.float32:
        raise TypeError(f"{name} must have numbers of float32, not {array.dtype}")
    if array.size != count:
        raise ValueError(f"{name} has {array.size} numbers, and {count} are wanted")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} must lie in one piece (C-contiguous)")
    if writable and not array.flags.writeable:
        raise ValueError(f"{name} can't be written to")
    return array.reshape(-1)


def pointer_to(array: Floats) -> Any:
    """A pointer for the library; valid as long as the array is."""
    return ffi.cast("float *", array.ctypes.data)


class Lent:
    """Memory of the library's that Python reads or writes. As long as an array over it is alive, so is its owner."""

    def __init__(self, owner: object, pointer: Any, count: int, *, writable: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": np.dtype(np.float32).str,
            "data": (int(ffi.cast("uintptr_t", pointer)), not writable),
        }

    @property
    def array(self) -> Floats:
        return np.asarray(self)
