# SPDX-License-Identifier: Apache-2.0
"""What `data` of join is made of: a DataLoader says which samples come when, how they are put together, and by how many
processes they are loaded."""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch.utils import data as torch_data
from torch.utils.data.distributed import DistributedSampler

from ..errors import ArgumentError
from .loader import Loader
from .permutation import Permutation
from .samplers import Called, Indices, Sampled, draw_of, is_even, weights_of

_COLLATE: Any = cast(Any, torch_data).default_collate


@dataclasses.dataclass(frozen=True)
class Source:
    """A dataset, and what a DataLoader or `join` says besides; None: nothing."""

    data: Any
    collate: Callable[[list[Any]], Any] | None = None
    sampler: Any = None
    batch: int | None = None  # of the DataLoader
    shuffle: bool | None = None
    drop_last: bool | None = None
    processes: int = 0  # that load
    begin: Callable[[int], Any] | None = None  # called in each of these with its number

    def order(self, samples: int, batch: int | None, piece: int, *, seed: int) -> "Permutation | Sampled | Called":
        """Raises ArgumentError."""
        batch = self.batch if batch is None else batch
        drop_last = bool(self.drop_last)
        sampler = self.sampler
        if sampler is None:
            if batch is None:
                raise ArgumentError("batch: how many samples a step has, over all workers")
            shuffle = self.shuffle is not False
            return Permutation(samples, batch, piece, seed=seed, shuffle=shuffle, drop_last=drop_last)
        if _is_numbers(sampler):
            draw = weights_of(sampler, samples, seed)
            return Sampled(samples, batch, piece, draw, seed=seed, drop_last=drop_last, even=True)
        if hasattr(sampler, "__iter__"):
            draw = draw_of(sampler, samples, seed)
            return Sampled(samples, batch, piece, draw, seed=seed, drop_last=drop_last, even=is_even(sampler))
        if batch is None or drop_last:
            raise ArgumentError(
                "sampler(seed, step) goes with batch, the most indices of a step, and not with drop_last"
            )
        return Called(samples, batch, piece, sampler, seed=seed)

    def places(self, samples: int, *, seed: int) -> Indices:
        """All samples once through, for an evaluation."""
        if self.sampler is None:
            return np.arange(samples)
        lists = draw_of(self.sampler, samples, seed)(0).lists
        return np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)

    def describe(self) -> str:
        """For the agreement among workers."""
        kind = "none" if self.sampler is None else type(self.sampler).__name__
        return f"shuffle={self.shuffle is not False} drop_last={bool(self.drop_last)} sampler={kind}"


def source_of(
    data: Any,
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    sampler: Any = None,
    shuffle: bool | None = None,
    drop_last: bool | None = None,
    private: str = "",
) -> Source:
    """`private`: the setting with which samples are drawn otherwise. Raises ArgumentError for what it can't honour."""
    if private and sampler is not None:
        raise ArgumentError(f"sampler does not go with {private}, which decides itself which samples a step has")
    if isinstance(data, torch_data.DataLoader):
        if private:
            raise ArgumentError(f"a DataLoader does not go with {private}: data=loader.dataset has its samples")
        if sampler is not None:
            raise ArgumentError("the DataLoader has a sampler: data=loader.dataset goes with another one")
        found = _of_loader(data)
    else:
        found = Source(data, sampler=sampler)
        _check_kind(sampler)
    if found.sampler is not None and shuffle is not None:
        raise ArgumentError(f"shuffle={shuffle} does not go with a sampler, which decides the order")
    told = {"collate": collate, "shuffle": shuffle, "drop_last": drop_last}
    return _looked_through(dataclasses.replace(found, **{name: one for name, one in told.items() if one is not None}))


def micro_batch_of(loader: Any) -> int | None:
    """How many samples a DataLoader gives at once; None: it does not say."""
    source = source_of(loader)
    return source.batch or getattr(source.sampler, "batch_size", None)


def _of_loader(given: Any) -> Source:
    loader: Any = given
    Loader(loader.dataset, None)  # refuses what is not read by number
    batches: Any = loader.batch_sampler
    if batches is None:
        raise ArgumentError(
            "the DataLoader has batch_size=None, so its dataset gives whole batches: a dataset of single samples is "
            "wanted, with a batch_size"
        )
    processes = int(loader.num_workers)
    context: Any = loader.multiprocessing_context
    if processes and context is not None and context.get_start_method() != "fork":
        raise ArgumentError(
            f"the DataLoader starts its workers by {context.get_start_method()!r}, and processes that load are forked "
            "here: leave multiprocessing_context out"
        )
    found = Source(
        loader.dataset,
        collate=None if loader.collate_fn is _COLLATE else loader.collate_fn,
        processes=processes,
        begin=loader.worker_init_fn,
    )
    if type(batches).__name__ == "BatchSamplerShard" and batches.num_processes == 1:  # Accelerate's
        batches = batches.batch_sampler
    if type(batches) is torch_data.BatchSampler:
        plain: Any = batches
        return dataclasses.replace(
            found, sampler=plain.sampler, batch=plain.batch_size, drop_last=bool(plain.drop_last)
        )
    return dataclasses.replace(found, sampler=batches)


def _looked_through(source: Source) -> Source:
    """A sampler that only says whether there is an order of its own is no sampler here."""
    sampler = source.sampler
    if sampler is None:
        return source
    plain = _shuffle_of(sampler, len(source.data))
    if plain is not None:
        shuffle = plain if source.shuffle is None else source.shuffle
        return dataclasses.replace(source, sampler=None, shuffle=shuffle)
    for one in (sampler, getattr(sampler, "sampler", None), getattr(sampler, "batch_sampler", None)):
        shares = getattr(one, "num_replicas", getattr(one, "num_processes", 1))
        if isinstance(shares, int) and shares > 1:
            raise ArgumentError(
                f"the {type(one).__name__} gives each process a share of its own ({shares} of them), and here all "
                "workers know the samples of the whole batch: give the sampler that it takes shares of"
            )
    return source


def _shuffle_of(sampler: Any, samples: int) -> bool | None:
    """Whether a sampler goes through all samples once, in order (False) or in another order each epoch (True). None: it
    does something else."""
    kind = cast(Any, type(sampler))
    if kind is torch_data.SequentialSampler:
        return False if len(sampler) == samples else None
    seedable = kind.__name__ == "SeedableRandomSampler" and kind.__module__.startswith("accelerate.")
    if kind is torch_data.RandomSampler or seedable:
        once = not sampler.replacement and sampler.num_samples == len(sampler.data_source) == samples
        return True if once else None
    if kind is DistributedSampler and len(sampler.dataset) == samples:
        return bool(sampler.shuffle)
    return None


def _is_numbers(sampler: Any) -> bool:
    return isinstance(sampler, torch.Tensor | np.ndarray)


def _check_kind(sampler: Any) -> None:
    """Raises ArgumentError."""
    if sampler is None or isinstance(sampler, torch_data.Sampler):
        return
    if _is_numbers(sampler):
        if "float" not in str(sampler.dtype):
            raise ArgumentError(
                f"the sampler is numbers of {sampler.dtype}: weights are floating-point, and a SubsetRandomSampler "
                "takes the indices of a subset"
            )
        return
    usable = hasattr(sampler, "__iter__") or callable(sampler)
    if not usable or type(sampler) in (list, tuple, range, str, dict):
        raise ArgumentError(
            f"the sampler is a {type(sampler).__name__}: one of PyTorch's Samplers is wanted, a function f(seed, step) "
            "that gives the indices of the step's batch, or a tensor of weights"
        )
