# SPDX-License-Identifier: Apache-2.0
"""Vectors that pass between Python and the library without a copy."""

import array
import sys
from typing import Any

import numpy as np
import pytest

from tarry._native import ffi
from tarry.lifetime import Handle
from tarry.vectors import as_floats


def address(vector: Any) -> int:
    return np.asarray(vector).ctypes.data


def test_an_array_is_taken_as_it_is() -> None:
    vector = np.arange(6, dtype=np.float32)
    found = as_floats(vector, 6, "x", writable=True)
    assert address(found) == address(vector)


def test_an_array_of_any_shape_is_flat() -> None:
    vector = np.zeros((2, 3), dtype=np.float32)
    as_floats(vector, 6, "x", writable=True)[4] = 1
    assert vector[1, 1] == 1


def test_whatever_has_a_buffer_is_taken() -> None:
    vector = array.array("f", [1, 2, 3])
    as_floats(vector, 3, "x", writable=True)[0] = 5
    assert vector[0] == 5
    as_floats(memoryview(vector), 3, "x", writable=True)[1] = 6
    assert vector[1] == 6


class Speaker:
    """Speaks DLPack and nothing else."""

    def __init__(self, vector: Any) -> None:
        self.vector = vector

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any:
        return self.vector.__dlpack__(*arguments, **options)

    def __dlpack_device__(self) -> Any:
        return self.vector.__dlpack_device__()


def test_whatever_speaks_dlpack_is_taken() -> None:
    vector = np.arange(4, dtype=np.float32)
    assert address(as_floats(Speaker(vector), 4, "x")) == address(vector)


def test_what_may_only_be_read_is_read_and_not_written() -> None:
    vector = np.arange(4, dtype=np.float32)
    vector.flags.writeable = False
    assert as_floats(vector, 4, "x").sum() == 6
    with pytest.raises(ValueError, match="x can't be written to"):
        as_floats(vector, 4, "x", writable=True)
    with pytest.raises(ValueError, match="x can't be written to"):
        as_floats(vector.data, 4, "x", writable=True)


@pytest.mark.parametrize(
    ("vector", "error", "said"),
    [
        (np.zeros(4), TypeError, "x must have numbers of float32, not float64"),
        (np.zeros(4, dtype=np.int32), TypeError, "not int32"),
        (np.zeros(4, dtype=">f4"), TypeError, "not >f4"),
        (b"1234567890123456", TypeError, "not uint8"),
        ([1.0, 2.0, 3.0, 4.0], TypeError, "x must be float32 numbers in this machine's memory"),
        (None, TypeError, "x must be float32 numbers in this machine's memory"),
        (np.zeros(5, dtype=np.float32), ValueError, "x has 5 numbers, and 4 are wanted"),
        (np.zeros(8, dtype=np.float32)[::2], ValueError, "x must lie in one piece"),
        (np.zeros((2, 2), dtype=np.float32).T[:, ::-1], ValueError, "x must lie in one piece"),
        (np.frombuffer(bytes(17), dtype=np.float32, offset=1, count=4), ValueError, "aligned"),
    ],
)
def test_what_does_not_fit_is_said_with_its_name(vector: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        as_floats(vector, 4, "x")
    assert said in str(raised.value)


def test_tensors_are_taken_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    vector = torch.arange(6, dtype=torch.float32)
    found = as_floats(vector, 6, "x", writable=True)
    found[2] = 50
    assert vector[2] == 50
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    as_floats(parameter, 6, "x", writable=True)[5] = 7
    assert parameter[1, 2] == 7


def test_tensors_that_do_not_fit_are_errors() -> None:
    torch = pytest.importorskip("torch")
    for vector, error in (
        (torch.zeros(4, dtype=torch.float64), TypeError),
        (torch.zeros(4, dtype=torch.bfloat16), TypeError),
        (torch.zeros(4, device="meta"), TypeError),
        (torch.zeros(8)[::2], ValueError),
        (torch.zeros(2, 2).expand(3, 2, 2)[:1, :, :1], ValueError),
        (torch.zeros(5), ValueError),
    ):
        with pytest.raises(error, match="x "):
            as_floats(vector, 4, "x")


def test_memory_whose_lending_is_interrupted_was_never_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come at any line: what was not lent is not taken back, and what is lent stays until its array goes."""
    told: list[Any] = []
    freed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Memory(Handle):
        def stop(self, pointer: Any, limit: float | None) -> bool:
            return True

        def free(self, pointer: Any) -> None:
            freed.append(pointer)

    memory = ffi.new("float[3]")
    handle = Memory("a memory", memory, None)
    array_over = handle.lend(memory, 3, writable=True)
    with pytest.raises(TypeError):  # in the middle of it, as an interrupt
        handle.lend("no pointer", 3, writable=True)
    handle.close()
    assert not freed
    assert array_over.size == 3
    del array_over
    assert freed == [memory]
    assert not told
