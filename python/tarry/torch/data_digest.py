# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other of their data, so that a worker with other data is found before the first step.

Tensors and arrays in memory are digested whole. Of any other dataset, samples are read: the same ones on all workers,
drawn by the training's seed. If a share p of all samples is different on one worker, n samples find that with a
probability of 1 - (1 - p)^n: with n = 256, 92 % for p = 1 % and 99.9999 % for p = 5 %.
"""

import collections
import concurrent.futures
import functools
import hashlib
import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch.utils import data as torch_data

from ..errors import ArgumentError
from ..hub.data_summary import CHECKS, DataSummary
from .gradients import flat_tensor
from .item_digest import digest_of, structure_of, view_of
from .loader import Loader
from .seeding import kept_random, seed_data

SAMPLES = 256  # that are read at most
_LEAST, _SECONDS = 8, 5.0  # if samples are slow: so many at least, and no more after so long
_AT_ONCE = 8  # samples in one question to a process that loads
_BLOCKS = 256  # of tensors, so that a difference has a place
_ROUNDINGS = 4  # of each number, by which data of different kinds of CPU may differ
_FLOAT32_ROUNDINGS = 4 * 2.0**-23  # of sums, which are worked out in float32
_KEY = (1 << 64) - 1  # of the random numbers that draw samples; no epoch has it

# Gives rows of tensors or arrays: those at a slice or at a tensor of indices.
Rows = Callable[["slice | torch.Tensor"], "list[Any]"]
# Calls a function with each of the arguments where samples may be read: function(loader, *arguments).
CallEach = Callable[[Callable[..., Any], Iterable["tuple[Any, ...]"]], Iterator[Any]]


class Read(NamedTuple):
    """A sample that was read twice."""

    digest: str  # of its values; "!" and a kind of error if it could not be read
    structure: str
    random: bool  # whether the values were others the second time
    loose: bool  # and the structure too
    form: str  # the structure with shapes
    error: str


def check_options(check: str, data_id: str, *, secure: bool) -> None:
    """Raises ArgumentError."""
    if check not in CHECKS:
        raise ArgumentError(f"data_check is {check!r}, and must be 'error', 'warn' or 'off'")
    if secure and (check != "error" or data_id):
        raise ArgumentError(
            "data_check and data_id do not go with secure: each worker insists on a digest of all samples"
        )


def summarize(loader: Loader, each: CallEach, *, seed: int, data_id: str, private: bool, speaks: bool) -> DataSummary:
    """Of a training's data.

    each     calls functions where samples may be read
    private  there is one digest, and none of single samples
    speaks   whether this is the worker that says what all would say
    """
    if data_id:
        return DataSummary("named", name=data_id)
    rows = rows_of(loader.data)
    if rows is not None:
        found = _whole(loader.samples, rows)
    else:
        found = _sampled(loader.samples, each, seed, patient=private, speaks=speaks)
    if not private:
        return found
    total = hashlib.sha256(" ".join([*found.structures, *([] if found.random else found.digests)]).encode())
    return DataSummary(found.kind, found.form, total="" if found.loose else total.hexdigest())


# ---- tensors in memory ----


def rows_of(given: Any) -> Rows | None:
    """None: these are not tensors in memory, or something changes them as they are read."""
    data = given
    if isinstance(given, torch.Tensor):
        return _rows_of_tensor(given)
    if isinstance(given, np.ndarray):
        return _rows_of_array(cast("np.ndarray[Any, Any]", given))
    if isinstance(given, tuple) and data and all(isinstance(one, torch.Tensor) for one in data):
        return _beside([_rows_of_tensor(one) for one in data])
    if _reads_as(data, torch_data.TensorDataset):
        return _beside([_rows_of_tensor(one) for one in data.tensors])
    if _reads_as(data, torch_data.Subset):
        return _subset(rows_of(data.dataset), data.indices)
    if _reads_as(data, torch_data.ConcatDataset):
        return _concatenated([rows_of(one) for one in data.datasets], list(data.cumulative_sizes))
    stacked: Any = getattr(torch_data, "StackDataset", None)  # since PyTorch 2.1
    if stacked is not None and _reads_as(data, stacked):
        parts: Any = data.datasets
        return _beside([rows_of(one) for one in (parts.values() if hasattr(parts, "values") else parts)])
    return None


def _reads_as(data: Any, kind: Any) -> bool:
    """Whether samples are what PyTorch's own class gives: one that is derived from it may change them."""
    own = cast(Any, type(data))
    readers = ("__getitem__", "__getitems__")
    return isinstance(data, kind) and all(getattr(own, one, None) is getattr(kind, one, None) for one in readers)


def _rows_of_tensor(tensor: torch.Tensor) -> Rows | None:
    known: Any = tensor
    plain = known.layout == torch.strided and not (known.is_quantized or known.is_meta or known.dim() == 0)
    if not plain or getattr(known, "is_nested", False):
        return None
    return lambda at: [tensor.detach()[at if isinstance(at, slice) else at.to(tensor.device)]]


def _rows_of_array(array: "np.ndarray[Any, Any]") -> Rows | None:
    """Not of a file that is only mapped into memory, which may be larger than that."""
    if isinstance(array, np.memmap) or array.dtype.hasobject or array.dtype.names or array.ndim == 0:
        return None
    return lambda at: [array[at if isinstance(at, slice) else at.numpy()]]


def _beside(parts: Sequence[Rows | None]) -> Rows | None:
    known = [one for one in parts if one is not None]
    if len(known) < len(parts):
        return None
    return lambda at: [one for rows in known for one in rows(at)]


def _subset(rows: Rows | None, indices: Any) -> Rows | None:
    if rows is None:
        return None
    places = torch.as_tensor(np.asarray(list(indices), dtype=np.int64))
    return lambda at: rows(places[at])


def _concatenated(parts: Sequence[Rows | None], ends: list[int]) -> Rows | None:
    known = [one for one in parts if one is not None]
    if len(known) < len(parts) or len({_form(rows) for rows in known}) > 1:
        return None
    begins, places = [0, *ends[:-1]], torch.arange(ends[-1])

    def rows_at(at: "slice | torch.Tensor") -> list[Any]:
        wanted = places[at]
        part: Any = torch.bucketize(wanted, torch.tensor(ends), right=True)
        found: list[Any] = []
        for number in sorted(set(cast("list[int]", part.tolist()))):
            here: Any = part == number
            some = known[number](wanted[here] - begins[number])
            found = found or [_room(one, len(wanted)) for one in some]
            for whole, rows in zip(found, some, strict=True):
                whole[here if isinstance(whole, torch.Tensor) else here.numpy()] = rows
        return found or known[0](slice(0, 0))

    return rows_at


def _room(rows: Any, count: int) -> Any:
    shape = (count, *rows.shape[1:])
    return rows.new_empty(shape) if isinstance(rows, torch.Tensor) else np.empty(shape, rows.dtype)


def _form(rows: Rows) -> str:
    """Dtypes and shapes of a sample."""
    return ", ".join(f"{str(one.dtype).removeprefix('torch.')} {list(one.shape[1:])}" for one in rows(slice(0, 0)))


def digest_of_rows(found: Iterable[Any]) -> str:
    return _digest_of(map(_bytes_of, found))


def _bytes_of(one: Any) -> memoryview:
    if not isinstance(one, np.ndarray):
        return view_of(one)
    array: Any = np.ascontiguousarray(cast("np.ndarray[Any, Any]", one))
    return memoryview(array).cast("B") if array.size else memoryview(b"")


def _digest_of(found: Iterable[memoryview]) -> str:
    text = hashlib.sha256()
    for one in found:
        text.update(one)
    return text.hexdigest()[:16]


def _whole(samples: int, rows: Rows) -> DataSummary:
    count = min(samples, _BLOCKS)
    edges = [samples * place // count for place in range(count + 1)] if count else []

    # Threads digest bytes, and this one does all that is PyTorch's: operations in parallel threads of Python may end by
    # "Invalid thread pool!".
    threads = min(4, len(os.sched_getaffinity(0)))
    near: list[list[Any]] = []
    digests: list[str] = []
    waiting: collections.deque[concurrent.futures.Future[str]] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for ends in itertools.pairwise(edges):
            block = rows(slice(*ends))
            waiting.append(pool.submit(_digest_of, list(map(_bytes_of, block))))
            near.append(_sums_of(block))
            if len(waiting) > 2 * threads:  # blocks may be copies, of which few are kept
                digests.append(waiting.popleft().result())
        digests += [one.result() for one in waiting]
    if not all(near):
        near = []
    return DataSummary("whole", _form(rows), places=edges[:-1], digests=digests, near=near)


def _sums_of(block: list[Any]) -> list[Any]:
    """What DataSummary.near has of a block; empty without floating-point numbers."""
    floats = [_floats_of(one) for one in block]
    if not any(floats):
        return []
    rest = [one for one, its in zip(block, floats, strict=True) if its is None]
    return [digest_of_rows(rest), *(_weighted_sum(*its) for its in floats if its is not None)]


def _floats_of(one: Any) -> tuple[torch.Tensor, float] | None:
    """The numbers in a row, and the relative distance between two of them. None: they are not floating-point numbers of
    two bytes and more."""
    if isinstance(one, np.ndarray):
        array = cast("np.ndarray[Any, Any]", one)
        if array.dtype.kind != "f":
            return None
        with np.errstate(over="ignore"):
            numbers = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
        return flat_tensor(numbers), float(np.finfo(array.dtype).eps)
    if not one.is_floating_point() or one.element_size() < 2:
        return None
    return one.detach().reshape(-1), torch.finfo(one.dtype).eps


def _weighted_sum(flat: torch.Tensor, apart: float) -> list[float]:
    """The sum of numbers times weights that depend on their places, and the sum of their magnitudes; and the share of
    the latter that a few roundings of each number may move the former by."""
    weights = _weights()
    weighted = magnitude = 0.0
    for begin in range(0, len(flat), len(weights)):
        some = flat[begin : begin + len(weights)].to("cpu", torch.float32)
        weighted += float(some @ weights[: len(some)])
        magnitude += float(some.abs().sum())
    return [weighted, magnitude, max(_ROUNDINGS * apart, _FLOAT32_ROUNDINGS)]


@functools.cache
def _weights() -> torch.Tensor:
    places = torch.arange(1 << 16, dtype=torch.int64)
    return ((places * 7919 + 104729) % 65537).to(torch.float32) / 65537


# ---- other datasets ----


def _sampled(samples: int, each: CallEach, seed: int, *, patient: bool, speaks: bool) -> DataSummary:
    """patient: however long that takes."""
    places, reads = read_some(samples, each, seed, seconds=float("inf") if patient else _SECONDS)
    random, loose = any(one.random for one in reads), any(one.loose for one in reads)
    if speaks:
        _say(places, reads, samples)
    return DataSummary(
        "sampled",
        reads[0].form if reads else "",
        places=places[: len(reads)],
        digests=[] if random else [one.digest for one in reads],
        structures=[] if loose else _shortest([one.structure for one in reads]),
        random=random,
        loose=loose,
    )


def _shortest(structures: list[str]) -> list[str]:
    """One stands for all if they are the same."""
    return structures[:1] if len(set(structures)) == 1 else structures


def read_some(
    samples: int, each: CallEach, seed: int, *, most: int = SAMPLES, seconds: float = _SECONDS
) -> tuple[list[int], list[Read]]:
    """All samples if they are few, else some that the seed draws; of slow ones fewer, but always the first of these."""
    draws = np.random.Generator(np.random.Philox(key=np.array([seed % (1 << 64), _KEY], dtype=np.uint64)))
    places = [int(one) for one in draws.choice(samples, min(samples, most), replace=False)]
    if samples <= most:
        places.sort()
    parts = [places[begin : begin + _AT_ONCE] for begin in range(0, len(places), _AT_ONCE)]
    begun = time.monotonic()
    reads: list[Read] = []
    for found in each(read_twice, ((seed, part) for part in parts)):
        reads += found
        if len(reads) >= _LEAST and time.monotonic() - begun > seconds:
            break
    return places, reads


def read_twice(loader: Loader, seed: int, places: Sequence[int]) -> list[Read]:
    """Random numbers are the same both times, and go on afterwards as if none had been drawn."""
    found: list[Read] = []
    with kept_random():
        for place in places:
            found.append(_read_twice(loader, seed, place))
    return found


def _read_twice(loader: Loader, seed: int, place: int) -> Read:
    reads: list[tuple[str, str, str]] = []
    for _ in range(2):
        seed_data(seed, 0, place)
        try:
            value = loader.item(place)
            reads.append((digest_of(value), structure_of(value), "" if reads else structure_of(value, shapes=True)))
        except Exception as error:
            kind = type(error).__name__
            return Read(f"!{kind}", f"!{kind}", random=False, loose=False, form="", error=f"{kind}: {error}"[:400])
    (digest, structure, form), (again, changed, _) = reads
    return Read(digest, structure, random=digest != again, loose=structure != changed, form=form, error="")


def _say(places: Sequence[int], reads: Sequence[Read], samples: int) -> None:
    """Warns of what the comparison cannot see."""
    broken = [(place, one.error) for place, one in zip(places, reads, strict=False) if one.error]
    if broken:
        place, why = broken[0]
        others = f", and {len(broken) - 1} more of the {len(reads)} that were read" if len(broken) > 1 else ""
        warnings.warn(
            f"sample {place}{others} could not be read as the workers' data were compared: {why}. The training goes "
            "on, and fails if it comes to that sample",
            stacklevel=5,
        )
    changing = [place for place, one in zip(places, reads, strict=False) if one.random]
    if changing:
        loose = any(one.loose for one in reads)
        warnings.warn(
            f"sample {changing[0]} has other values when it is read again with the same random state, so the workers' "
            f"data are compared by {'their number' if loose else 'number, structure and dtypes'} alone. "
            "data_id='...' names the data, and then no sample is read",
            stacklevel=5,
        )
    if len(reads) < min(samples, SAMPLES):
        warnings.warn(
            f"the workers' data are compared by {len(reads)} samples, since more take longer than {_SECONDS:.0f} s. "
            "data_id='...' names the data, and then no sample is read",
            stacklevel=5,
        )
