# SPDX-License-Identifier: Apache-2.0
"""One sum by a process group of torch.distributed: as an all-reduce, or with numbers in a form on their way.

Each member's messages name its group's epoch, so that a sum in which another attempt's numbers are, or a member's are
not, is found out.
"""

import itertools
from typing import Any, Protocol

import numpy as np
import torch

from ..engine import DOWN, UP, EngineSum, Group, SumForms
from ..owner import Numbers
from ..vectors import Floats

# Numbers of a member's place behind a sum: 16 bits each of the epoch, and one more, so that none is 0.
_TAG = 4
_LINE = 16  # numbers: slices begin at multiples of it
_OTHERS = "others sum in another group"


class Carried(Protocol):
    """A sum in progress. It reads and writes memory of its own, so that it may go on when nobody wants it any more."""

    def carry_out(self, made: Any) -> None:
        """By the process group, of which all members do so; waits for it."""
        ...

    def numbers(self) -> Numbers:
        """The numbers of the sum. Raises RuntimeError if others have summed something else."""
        ...


def carried(wanted: EngineSum, group: Group, device: torch.device) -> Carried:
    forms = wanted.forms
    if forms is not None and len(group.members) > 1:
        return _Rounded(wanted, forms, group)
    return _Plain(wanted, group, device)


class _Plain:
    """What each member adds, all-reduced."""

    def __init__(self, wanted: EngineSum, group: Group, device: torch.device) -> None:
        self._count, self._group = wanted.dimension, group
        dtype = torch.float64 if wanted.dtype is np.float64 else torch.float32
        buffer = torch.zeros(self._count + _TAG * len(group.members), dtype=dtype)
        numbers = buffer.numpy()
        wanted.fill(group.place, numbers[: self._count])
        numbers[self._count :][_TAG * group.place :][:_TAG] = _tag(group.epoch)
        self._buffer = buffer.to(device)

    def carry_out(self, made: Any) -> None:
        made.allreduce([self._buffer]).wait()
        if self._buffer.is_cuda:
            torch.cuda.synchronize(self._buffer.device)

    def numbers(self) -> Numbers:
        numbers = self._buffer.cpu().numpy()
        expected = np.tile(_tag(self._group.epoch), len(self._group.members))
        if not np.array_equal(numbers[self._count :], expected):
            raise RuntimeError(_OTHERS)
        return numbers[: self._count]


class _Rounded:
    """Each member sums a slice of the numbers: it gets those of all parts in their form, and sends its slice of the
    sum to all in its form. All have what was sent, its sender, too."""

    def __init__(self, wanted: EngineSum, forms: SumForms, group: Group) -> None:
        self._forms = forms
        self._epoch = np.frombuffer(group.epoch.to_bytes(8, "little"), dtype=np.uint8)
        self._place, self._worker = group.place, group.members[group.place].worker
        self._weights = wanted.weights[0].copy()
        count = len(wanted.sum)
        self._part: Floats = np.zeros(count, dtype=np.float32)
        if wanted.part is not None:
            self._part[:] = wanted.part
        members = len(group.members)
        lines = -(-count // _LINE)
        bounds = [min(lines * member // members * _LINE, count) for member in range(members + 1)]
        self._slices = [slice(*pair) for pair in itertools.pairwise(bounds)]
        self._sum: Floats = np.empty(count, dtype=np.float32)
        self.sent = 0  # bytes, to others

    def carry_out(self, made: Any) -> None:
        own, others = self._slices[self._place], self._others()
        up = [self._encode(UP, its, self._part) if its is not own else b"" for its in self._slices]
        room = [self._bytes(UP, own) if place in others else 0 for place in range(len(self._slices))]
        came = self._exchange(made, up, room)
        total: Floats = np.zeros(own.stop - own.start, dtype=np.float32)
        for place, found in enumerate(came):
            term = self._decode(UP, own, found) if place in others else self._part[own]
            total += self._weights[place] * term
        self._sum[own] = total
        down = self._encode(DOWN, own, self._sum)
        came = self._exchange(made, [down] * len(self._slices), [self._bytes(DOWN, its) for its in self._slices])
        for its, found in zip(self._slices, came, strict=True):
            self._sum[its] = self._decode(DOWN, its, found)

    def numbers(self) -> Floats:
        return self._sum

    def _others(self) -> set[int]:
        return set(range(len(self._slices))) - {self._place}

    def _bytes(self, way: int, its: slice) -> int:
        return self._forms.bytes(way, its.start, its.stop - its.start)

    def _encode(self, way: int, its: slice, numbers: Floats) -> Any:
        return self._forms.encode(way, self._worker, its.start, numbers[its])

    def _decode(self, way: int, its: slice, found: Any) -> Floats:
        return self._forms.decode(way, its.start, its.stop - its.start, found)

    def _exchange(self, made: Any, out: list[Any], room: list[int]) -> list[Any]:
        """What each has sent to this one, of so many bytes; each message is behind its sender's epoch."""
        tag = len(self._epoch)
        sizes, rooms = [tag + len(one) for one in out], [tag + size for size in room]
        packed: Any = np.concatenate(
            [np.frombuffer(piece, dtype=np.uint8) for one in out for piece in (self._epoch, one)]
        )
        found = torch.empty(sum(rooms), dtype=torch.uint8)
        self.sent += sum(sizes) - sizes[self._place]
        made.alltoall_base(found, torch.as_tensor(packed), rooms, sizes).wait()
        ends = np.cumsum(rooms)
        messages = [found.numpy()[end - size : end] for end, size in zip(ends, rooms, strict=True)]
        if not all(np.array_equal(one[:tag], self._epoch) for one in messages):
            raise RuntimeError(_OTHERS)
        return [one[tag:] for one in messages]


def _tag(epoch: int) -> list[float]:
    return [float((epoch >> shift & 0xFFFF) + 1) for shift in range(0, 16 * _TAG, 16)]
