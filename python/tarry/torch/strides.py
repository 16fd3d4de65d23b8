# SPDX-License-Identifier: Apache-2.0
"""Strides of parameters. A gradient has those of its parameter, as in PyTorch: fused optimizers go through both in the
order of memory."""

from collections.abc import Sequence
from typing import Any, cast

import torch


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def is_dense(one: torch.Tensor) -> bool:
    """True if the numbers fill one stretch of memory without overlapping, in any order of dimensions."""
    step = 1
    for stride, size in sorted(zip(one.stride(), one.shape, strict=True)):
        if size == 0:
            return False
        if size > 1:
            if stride != step:
                return False
            step *= size
    return True


def of_gradient(one: torch.Tensor) -> tuple[int, ...]:
    """The strides that PyTorch gives a parameter's gradient."""
    return tuple(one.stride()) if is_dense(one) else contiguous(one.shape)


def order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides that are equal whenever the order of numbers in memory is: a dimension of size 1 has any stride."""
    return tuple(stride if size > 1 else 1 for size, stride in zip(shape, strides, strict=True))


def rows(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many rows a tensor's memory has as a matrix: the size of the outermost dimension, which is the first one
    except in transposed tensors. Vectors have one row."""
    if len(shape) < 2 or shape[0] == 1 or 0 in shape:
        return 1
    long = [(stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1]
    return max(long)[1] if long else 1


def as_strided(one: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The same numbers with other strides."""
    found = torch.empty_strided(tuple(one.shape), tuple(strides), dtype=one.dtype, device=one.device)
    return found.copy_(one)


def restride(optimizer: torch.optim.Optimizer) -> None:
    """The optimizer's tensors of a parameter's shape get the parameter's strides. A state that another process saved
    may have others, and fused optimizers don't look at them."""
    for parameter, entry in cast("dict[Any, Any]", optimizer.state).items():
        if not isinstance(parameter, torch.Tensor) or not isinstance(entry, dict):
            continue
        wanted = of_gradient(parameter)
        values = cast("dict[Any, Any]", entry)
        for name, value in values.items():
            if (
                isinstance(value, torch.Tensor)
                and value.layout == torch.strided
                and value.shape == parameter.shape
                and order(value.shape, value.stride()) != order(parameter.shape, wanted)
            ):
                values[name] = as_strided(value, wanted)
