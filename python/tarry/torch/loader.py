# SPDX-License-Identifier: Apache-2.0
"""Samples of a dataset by their numbers, put together."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.utils import data as torch_data

from ..errors import ArgumentError
from .data_kinds import check_numbered
from .failed import mark_sample


class Loader:
    """A dataset by numbers (`data[i]`, `len(data)`), a TensorDataset, a tensor, or a tuple of tensors of one length."""

    def __init__(self, data: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        """Raises ArgumentError."""
        self._tensors: Sequence[torch.Tensor] | None = None
        items: list[Any] = list(data) if isinstance(data, tuple) else []  # pyright: ignore[reportUnknownArgumentType]
        self._alone = isinstance(data, torch.Tensor)
        if collate is None and isinstance(data, torch_data.TensorDataset):
            self._tensors = data.tensors
        elif isinstance(data, torch.Tensor):
            self._tensors = (data,)
        elif items and all(isinstance(one, torch.Tensor) for one in items):
            self._tensors = items
        self._data: Any = data
        self.collate = collate
        self._put_together: Callable[[list[Any]], Any] = collate or cast(Any, torch_data).default_collate
        counts = sorted({len(one) for one in self._tensors or ()})
        if len(counts) > 1:
            raise ArgumentError(f"the data are tensors of {' and '.join(map(str, counts))} samples")
        check_numbered(self._data)

    @property
    def data(self) -> Any:
        """As they were given."""
        return self._data

    @property
    def tensors(self) -> Sequence[torch.Tensor]:
        """Of which the data consist; none: of something else."""
        return self._tensors or ()

    def item(self, index: int) -> Any:
        """One sample as the dataset gives it."""
        if hasattr(self._data, "__getitems__"):
            return self._data.__getitems__([index])[0]
        return self._data[index]

    @property
    def samples(self) -> int:
        return len(self._tensors[0]) if self._tensors is not None else len(self._data)

    @property
    def draws_nothing(self) -> bool:
        """Whether loading can't be random."""
        return self._tensors is not None

    def shares(self, data: Any) -> bool:
        """Whether these are the same data, or tensors of theirs."""
        own = {id(self._data), *(id(one) for one in self._tensors or ())}
        found: list[Any] = [data]
        if isinstance(data, tuple):
            found += cast("tuple[Any, ...]", data)
        elif isinstance(data, torch_data.TensorDataset):
            found += data.tensors
        return any(id(one) in own for one in found)

    def load(self, indices: Sequence[int]) -> Any:
        if self._tensors is not None:
            places = torch.tensor(indices, dtype=torch.int64)
            found = [tensor[places] for tensor in self._tensors]
            return found[0] if self._alone else found
        if hasattr(self._data, "__getitems__"):
            return self._put_together(self._data.__getitems__(indices))
        return self._put_together([self._marked_item(index) for index in indices])

    def _marked_item(self, index: int) -> Any:
        try:
            return self._data[index]
        except Exception as error:
            mark_sample(error, index)
            raise
