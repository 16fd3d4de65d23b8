# SPDX-License-Identifier: Apache-2.0
"""Data that `join` cannot read by number, and what to give instead."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from torch.utils import data as torch_data

from ..errors import ArgumentError

_SHOWN = 4  # keys of a dict


def check_numbered(data: Any) -> None:
    """Raises ArgumentError for data whose samples are not data[0] to data[len(data) - 1]."""
    kind = type(data).__name__
    if isinstance(data, torch_data.IterableDataset):
        raise ArgumentError(
            f"the data are a {kind}, which is an IterableDataset: its samples come one after the other, and pieces are "
            "read by number. Give a dataset with len and [i], for example a list of what it gives"
        )
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise ArgumentError(f"the data are a {kind}: a dataset that is read by number is wanted, with len and [i]")
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        raise ArgumentError(
            f"the data are a {kind}, whose [i] is a column: give tensors of its columns, as in "
            "torch.tensor(data.to_numpy()), or a dataset whose [i] reads a row by .iloc"
        )
    if isinstance(data, Mapping):
        _check_mapping(cast("Mapping[Any, Any]", data))


def _check_mapping(data: Mapping[Any, Any]) -> None:
    if all(place in data for place in range(len(data))):
        return  # numbers are its keys
    keys = [repr(key) for key in list(data)[:_SHOWN]]
    names = ", ".join(keys) + (", .." if len(data) > _SHOWN else "")
    columns = ", ".join(f"data[{key}]" for key in keys)
    advice = f"one of its datasets, as data[{keys[0]}]" if keys else "a dataset with len and [i]"
    if all(isinstance(one, torch.Tensor | np.ndarray | list) for one in data.values()):
        advice = f"a tuple of tensors, as ({columns}), or a dataset whose [i] is the dict of one sample"
    raise ArgumentError(
        f"the data are a {type(data).__name__} with the keys {names}, which has no sample [0]: give {advice}"
    )


def check_columns(data: Any, batch: int | None) -> None:
    """Raises ArgumentError for a list of columns: its items would be taken for samples, though there are fewer than a
    batch has."""
    if not isinstance(data, list | tuple):
        return
    items: list[Any] = list(cast("list[Any]", data))
    if not items or not all(isinstance(one, torch.Tensor | np.ndarray) and one.ndim > 0 for one in items):
        return
    if isinstance(data, tuple) and all(isinstance(one, torch.Tensor) for one in items):
        return  # these are columns
    lengths = {len(one) for one in items}
    if len(lengths) == 1 and min(lengths) > len(items) and (batch is None or batch > len(items)):
        kinds = "tensors" if all(isinstance(one, torch.Tensor) for one in items) else "arrays"
        advice = "tuple(data)" if kinds == "tensors" else "tuple(map(torch.as_tensor, data))"
        kind = "tuple" if isinstance(data, tuple) else "list"
        raise ArgumentError(
            f"the data are a {kind} of {len(items)} {kinds} with {min(lengths)} rows each, which would "
            f"be {len(items)} samples. If each row is a sample, give a tuple of tensors: data={advice}"
        )
