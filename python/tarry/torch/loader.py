# SPDX-License-Identifier: Apache-2.0
"""Samples of a dataset by their numbers, put together."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import TensorDataset, default_collate


class Loader:
    """A dataset by numbers (`data[i]`, `len(data)`), a TensorDataset, or a tensor or a tuple of tensors of the same length."""

    def __init__(self, data: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        self._tensors: Sequence[torch.Tensor] | None = None
        self._alone = isinstance(data, torch.Tensor)
        if collate is None and isinstance(data, TensorDataset):
            self._tensors = data.tensors
        elif isinstance(data, torch.Tensor):
            self._tensors = (data,)
        elif isinstance(data, tuple) and data and all(isinstance(one, torch.Tensor) for one in data):
            self._tensors = data
        self._data = data
        self._collate = collate or default_collate

    @property
    def samples(self) -> int:
        return len(self._tensors[0]) if self._tensors is not None else len(self._data)

    def load(self, indices: list[int]) -> Any:
        if self._tensors is not None:
            places = torch.tensor(indices, dtype=torch.int64)
            found = [tensor[places] for tensor in self._tensors]
            return found[0] if self._alone else found
        if hasattr(self._data, "__getitems__"):
            return self._collate(self._data.__getitems__(indices))
        return self._collate([self._data[index] for index in indices])
