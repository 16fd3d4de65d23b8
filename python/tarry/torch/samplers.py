# SPDX-License-Identifier: Apache-2.0
"""Orders of samples that come from a sampler, from weights or from a function, the same ones on all workers."""

import bisect
import contextlib
import hashlib
import itertools
import operator
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.utils import data as torch_data

from ..errors import ArgumentError
from .seeding import kept_random, seed_order

Indices = npt.NDArray[np.int64]
_LEAST_LIMIT, _LIMIT = 1 << 20, 64  # indices of an epoch: so many, or so many times the samples
_DEEPEST = 4  # samplers within each other
_HELD_FIRST, _HELD_EACH = 3, 16  # steps of a function whose indices are held to those of others

# Samplers of PyTorch whose indices depend on the random state alone, and are as many in each epoch.
_KNOWN = (
    torch_data.SequentialSampler,
    torch_data.RandomSampler,
    torch_data.SubsetRandomSampler,
    torch_data.WeightedRandomSampler,
)
_NO_STATE = (
    "All workers have to draw the same samples, by the training's seed: a sampler may draw from PyTorch's, NumPy's or "
    "Python's random state, or from a generator among its attributes, and may have set_epoch. sampler=f(seed, step) "
    "gives the indices of a step by a function"
)


class Claim(NamedTuple):
    """Which indices this worker has drawn, to be held to those of others."""

    place: int
    what: str
    digest: str


# ---- what gives indices ----


class Epoch(NamedTuple):
    """What a sampler gives in it: indices, or lists of them."""

    lists: list[Indices]
    whole: bool  # indices; there is one list of all


def draw_of(sampler: Any, samples: int, seed: int) -> Callable[[int], Epoch]:
    """Draws an epoch of a sampler, whose random numbers go by seed and epoch. Raises ArgumentError for what cannot be
    drawn, and for a sampler that draws differently the second time."""
    if iter(sampler) is sampler:
        raise ArgumentError(f"the sampler is a {type(sampler).__name__}, which gives its indices once. {_NO_STATE}")

    def draw(epoch: int) -> Epoch:
        with _replayed(sampler, seed, epoch):
            return _read(sampler, samples, epoch)

    if not is_even(sampler):
        first, again = draw(0), draw(0)
        if digest_of(first.lists) != digest_of(again.lists):
            name = type(sampler).__name__
            raise ArgumentError(
                f"the {name} gives other indices when it is asked again for the same epoch. {_NO_STATE}"
            )
    return draw


def weights_of(weights: Any, samples: int, seed: int) -> Callable[[int], Epoch]:
    """Draws as many indices as there are samples in an epoch, each with the probability of its weight."""
    shares = np.asarray(weights.detach().cpu() if isinstance(weights, torch.Tensor) else weights, dtype=np.float64)
    if shares.shape != (samples,):
        raise ArgumentError(f"the sampler is weights of shape {list(shares.shape)}, and there are {samples} samples")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise ArgumentError("the sampler is weights: these must be finite, not below 0, and not all 0")
    ends = np.cumsum(shares / shares.sum())
    last = int(np.flatnonzero(shares)[-1])

    def draw(epoch: int) -> Epoch:
        key = np.array([seed % (1 << 64), epoch], dtype=np.uint64)
        numbers = np.random.Generator(np.random.Philox(key=key)).random(samples)
        return Epoch([np.minimum(np.searchsorted(ends, numbers, side="right"), last).astype(np.int64)], whole=True)

    return draw


def is_even(sampler: Any) -> bool:
    """Whether all epochs surely have as many indices."""
    return type(sampler) in _KNOWN


@contextlib.contextmanager
def _replayed(sampler: Any, seed: int, epoch: int) -> Generator[None]:
    """The random state and the sampler's generators are those of the epoch, and afterwards what they were."""
    found = list(_within(sampler, 0))
    with kept_random():
        number = seed_order(seed, epoch)
        kept = [_seed_generator(one, number) for one in found]
        for one in found:
            if callable(getattr(one, "set_epoch", None)):
                one.set_epoch(epoch)
        try:
            yield
        finally:
            for put_back in kept:
                put_back()


def _within(sampler: Any, depth: int) -> Generator[Any]:
    """A sampler with the samplers and generators that it is made of."""
    yield sampler
    for value in list(getattr(sampler, "__dict__", {}).values()) if depth < _DEEPEST else ():
        if isinstance(value, torch.Generator | np.random.Generator | np.random.RandomState | random.Random):
            yield value
        elif isinstance(value, torch_data.Sampler):
            yield from _within(value, depth + 1)


def _seed_generator(one: Any, number: int) -> Callable[[], None]:
    """Gives what puts it back. A sampler is none, and stays as it is."""
    if isinstance(one, torch.Generator):
        kept: Any = one.get_state()
        one.manual_seed(number)
        return lambda: cast(None, one.set_state(kept))
    if isinstance(one, np.random.Generator):
        bits: Any = one.bit_generator
        kept = bits.state
        bits.state = type(bits)(number).state
        return lambda: setattr(bits, "state", kept)
    if isinstance(one, np.random.RandomState):
        kept = one.get_state()
        one.seed(number % (1 << 32))
        return lambda: one.set_state(kept)
    if isinstance(one, random.Random):
        kept = one.getstate()
        one.seed(number)
        return lambda: one.setstate(kept)
    return lambda: None


def _read(sampler: Any, samples: int, epoch: int) -> Epoch:
    limit = max(_LEAST_LIMIT, _LIMIT * samples)
    found: list[Any] = list(itertools.islice(iter(sampler), limit + 1))
    if len(found) > limit:
        raise ArgumentError(
            f"the sampler gave more than {limit} indices in epoch {epoch}. An endless one has no epochs: "
            "sampler=f(seed, step) gives the indices of a step by a function"
        )
    where = f"the sampler in epoch {epoch}"
    if found and _is_list(found[0]):
        return Epoch([indices_of(one, samples, where) for one in found], whole=False)
    return Epoch([indices_of(found, samples, where)], whole=True)


def _is_list(one: Any) -> bool:
    """Whether a sampler gives batches. A tensor or an array may also be a single index."""
    return isinstance(one, list | tuple) or (isinstance(one, torch.Tensor | np.ndarray) and one.ndim == 1)


def indices_of(given: Iterable[Any], samples: int, where: str) -> Indices:
    """Raises ArgumentError for what is no index of a sample."""
    try:
        known: Any = given
        listed: Any = known.tolist() if hasattr(known, "tolist") else known
        found = np.fromiter(map(operator.index, listed), dtype=np.int64)
    except (TypeError, OverflowError) as error:
        raise ArgumentError(f"{where} gave something that is not the index of a sample: {error}") from None
    outside = found[(found < 0) | (found >= samples)]
    if len(outside):
        raise ArgumentError(
            f"{where} gave the index {outside[0]}, and the data have {samples} samples, 0 to {samples - 1}"
        )
    return found


def digest_of(lists: Iterable[Indices]) -> str:
    found = hashlib.sha256()
    for one in lists:
        found.update(f"{len(one)} ".encode() + one.astype("<i8").tobytes())
    return found.hexdigest()[:16]


# ---- orders: which samples a piece has ----


class _Order:
    """What all of these have in common with a Permutation."""

    samples: int
    batch: int
    piece: int
    units: int
    seed: int

    def seed_of(self, _unit: int) -> int | str:
        """Of what is random in a piece."""
        return self.seed

    def pieces(self, step: int) -> Sequence[Indices]:
        raise NotImplementedError

    def indices(self, step: int, unit: int) -> Indices:
        """The samples of unit 0..units-1 of the step; none if it has fewer pieces."""
        pieces = self.pieces(step)
        return pieces[unit] if unit < len(pieces) else np.empty(0, dtype=np.int64)

    def samples_of(self, step: int, unit: int) -> list[int]:
        """The same as a list."""
        return [int(one) for one in self.indices(step, unit)]


class Sampled(_Order):
    """An epoch is what a sampler gives when it is gone through once."""

    def __init__(
        self,
        samples: int,
        batch: int | None,
        piece: int,
        draw: Callable[[int], Epoch],
        *,
        seed: int,
        drop_last: bool,
        even: bool,
    ) -> None:
        """batch: None for a sampler of lists, each of which is then the batch of a step. even: all epochs have as many
        steps as the first. Raises ArgumentError."""
        self._draw, self._drop_last, self._even = draw, drop_last, even
        self.samples, self.piece, self.seed = samples, piece, seed
        self._epochs: dict[int, list[list[Indices]]] = {}
        self._digests: dict[int, str] = {}
        self._claimed = -1
        drawn = draw(0)
        if not drawn.whole and drop_last:
            raise ArgumentError("drop_last does not go with a sampler of batches: it says itself which ones there are")
        if drawn.whole and batch is None:
            raise ArgumentError("batch: how many samples a step has, over all workers")
        largest = max((len(one) for one in drawn.lists), default=0)
        self.batch = batch if batch is not None else max(1, largest)
        if piece < 1 or (drawn.whole and piece > self.batch):
            raise ArgumentError(f"pieces of {piece} samples, of a batch of {self.batch}")
        self._groups = batch is not None
        self.units = -(-self.batch // piece) if drawn.whole else 0
        first = self._cut(drawn, 0)
        self.units = self.units or max(len(step) for step in first)
        self._keep(0, first)
        self._ends = [len(first)]  # of epochs, in steps

    @property
    def steps_per_epoch(self) -> int:
        """Of the first epoch."""
        return self._ends[0]

    def epoch_of(self, step: int) -> int:
        """Steps and epochs count from 0."""
        return self._find(step)[0]

    def pieces(self, step: int) -> Sequence[Indices]:
        epoch, place = self._find(step)
        return self._steps(epoch)[place]

    def claim(self, step: int) -> Claim | None:
        """What is held to others' before this step: once for each epoch."""
        epoch, _ = self._find(step)
        if epoch == self._claimed:
            return None
        self._claimed = epoch
        self._steps(epoch)
        return Claim(epoch, f"epoch {epoch}", self._digests[epoch])

    def _find(self, step: int) -> tuple[int, int]:
        if self._even:
            return divmod(step, self._ends[0])
        while self._ends[-1] <= step:
            self._ends.append(self._ends[-1] + len(self._steps(len(self._ends))))
        epoch = bisect.bisect_right(self._ends, step)
        return epoch, step - (self._ends[epoch - 1] if epoch else 0)

    def _steps(self, epoch: int) -> list[list[Indices]]:
        if epoch not in self._epochs:
            self._keep(epoch, self._cut(self._draw(epoch), epoch))
        return self._epochs[epoch]

    def _keep(self, epoch: int, steps: list[list[Indices]]) -> None:
        for old in [one for one in self._epochs if one < epoch - 1]:
            del self._epochs[old], self._digests[old]
        self._epochs[epoch] = steps
        self._digests[epoch] = digest_of(piece for step in steps for piece in step)

    def _cut(self, drawn: Epoch, epoch: int) -> list[list[Indices]]:
        """The epoch's steps with their pieces."""
        given = sum(len(one) for one in drawn.lists)
        if drawn.whole:
            (order,) = drawn.lists
            count = given // self.batch * self.batch if self._drop_last else given
            steps = [[order[begin : begin + self.batch]] for begin in range(0, count, self.batch)]
        else:
            steps = _grouped([one for one in drawn.lists if len(one)], self.batch if self._groups else 0)
        if not steps:
            why = f", fewer than the batch of {self.batch}, and drop_last leaves these out" if given else ""
            raise ArgumentError(f"the sampler gave {given} indices in epoch {epoch}{why}")
        cut = [[part for one in step for part in _cut_up(one, self.piece)] for step in steps]
        return [self._at_most(pieces) for pieces in cut]

    def _at_most(self, pieces: list[Indices]) -> list[Indices]:
        """No more pieces than there are units, which the first epoch has decided."""
        if not self.units or len(pieces) <= self.units:
            return pieces
        return list(np.array_split(np.concatenate(pieces), self.units))


def _cut_up(indices: Indices, piece: int) -> list[Indices]:
    return [indices[begin : begin + piece] for begin in range(0, len(indices), piece)]


def _grouped(lists: list[Indices], batch: int) -> list[list[Indices]]:
    """Lists that follow each other, as many as fit into a batch, but at least one."""
    steps: list[list[Indices]] = []
    room = 0
    for one in lists:
        if not steps or len(one) > room:
            steps.append([])
            room = batch
        steps[-1].append(one)
        room -= len(one)
    return steps


class Called(_Order):
    """A function of seed and step gives the indices of the step's batch."""

    def __init__(
        self, samples: int, batch: int, piece: int, function: Callable[[int, int], Iterable[Any]], *, seed: int
    ) -> None:
        """Raises ArgumentError."""
        if not 1 <= piece <= batch:
            raise ArgumentError(f"pieces of {piece} samples, of a batch of {batch}")
        self.samples, self.batch, self.piece, self.seed = samples, batch, piece, seed
        self.units = -(-batch // piece)
        self.steps_per_epoch = max(1, round(samples / batch))  # on average
        self._function = function
        self._steps: dict[int, Indices] = {}
        if digest_of([self._call(0)]) != digest_of([self._call(0)]):
            raise ArgumentError("sampler(seed, step) gives other indices when it is called again for the same step")

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch

    def pieces(self, step: int) -> Sequence[Indices]:
        return _cut_up(self._of(step), self.piece)

    def claim(self, step: int) -> Claim | None:
        if step >= _HELD_FIRST and step % _HELD_EACH:
            return None
        return Claim(step, f"step {step}", digest_of([self._of(step)]))

    def _of(self, step: int) -> Indices:
        if step not in self._steps:
            for old in [one for one in self._steps if one < step - 1]:
                del self._steps[old]
            self._steps[step] = self._call(step)
        return self._steps[step]

    def _call(self, step: int) -> Indices:
        where = f"sampler(seed, step) for step {step}"
        with kept_random():
            seed_order(self.seed, step)
            found = indices_of(self._function(self.seed, step), self.samples, where)
        if not 1 <= len(found) <= self.batch:
            raise ArgumentError(f"{where} gave {len(found)} indices: a step has 1 to {self.batch}, as batch says")
        return found
