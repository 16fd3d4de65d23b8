# SPDX-License-Identifier: Apache-2.0
"""What all workers of a training must have in common, and what differs in words."""

import dataclasses
from typing import Any, Self, cast

from ..errors import FormatError


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Told by each worker; that of the first one holds."""

    dimension: int  # numbers in a gradient, and what rides with it
    units: int  # pieces that a batch is cut into
    samples: int  # of the data
    batch: int
    piece: int
    seed: int
    replication: int  # 0: the hub chooses
    parts: int
    sum: str
    engine: str  # by which workers make sums among themselves
    compress: str  # the form of what workers send
    compress_share: float  # of the numbers, with 'topk'; else 0
    compress_first: int  # so many steps are dense, with 'topk'
    compress_last: int  # and so many at the end of `steps`
    compress_down: str  # the form of the sum on its way to them
    steps: int  # of the whole training; 0: not told
    exact: int  # the last so many numbers are float32 in every form
    reproducible: bool
    model: str  # names and shapes of what is summed, a line each
    options: str  # whatever else has to be the same
    checkpoint: str  # the file; "": none
    checkpoint_seconds: float
    dp: str = ""  # what makes it private, as tarry.dp reads it; "": nothing
    secure: bool = False  # whether sums are; all that follows is of these
    secure_colluders: int = 0
    secure_least: int = 0
    secure_bound: float = 0.0
    secure_bits: int = 0
    secure_piece_samples: int = 0  # that each piece has at least
    compress_rank: int = 0  # with 'powersgd'
    compress_matrices: str = ""  # the same: what a gradient is, as rows x columns: "64x784 1x64"
    data: str = ""  # digest of the samples
    numerics: str = ""  # what decides the bits of a gradient
    data_summary: str = ""  # a DataSummary; "": the data are not compared
    data_check: str = "error"  # what follows if they differ
    nonfinite: str = "allow"  # what follows on a gradient with NaN or infinity

    def message(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def kept(self) -> dict[str, Any]:
        """The part that a checkpoint keeps. With dp this excludes the digest of the data, which would confirm a correct
        guess of them."""
        return self.message() | ({"data_summary": ""} if self.dp else {})

    @classmethod
    def of(cls, message: Any) -> Self:
        fields = {field.name for field in dataclasses.fields(cls)}
        told = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        if set(told) != fields:
            raise FormatError("a worker of another version: it tells other things of its training")
        return cls(**told)

    def difference(self, other: "Agreement") -> str:
        """What another worker has differently, in words, its samples apart; "": nothing."""
        words = {
            "samples": "data of {theirs} samples where the others have {ours}",
            "batch": "a batch of {theirs} where the others have {ours}",
            "piece": "pieces of {theirs} samples where the others have {ours}",
            "seed": "the seed {theirs} where the others have {ours}",
            "engine": "the engine {theirs!r} where the others have {ours!r}",
            "compress": "the form {theirs!r} where the others have {ours!r}",
            "compress_down": "the form {theirs!r} of sums where the others have {ours!r}",
            "dp": "dp={theirs!r} where the others have {ours!r}",
            "secure": "secure={theirs} where the others have {ours}",
            "data": "other samples than the others: their digest is {theirs}, and that of the others {ours}",
            "numerics": "'{theirs}' where the others have '{ours}', and would compute pieces to other bits",
            "data_check": "data_check={theirs!r} where the others have {ours!r}",
            "nonfinite": "nonfinite={theirs!r} where the others have {ours!r}",
            "checkpoint": "the checkpoint {theirs!r} where the others have {ours!r}",
        }
        for name, text in words.items():
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                return text.format(ours=ours, theirs=theirs)
        if self.model != other.model:
            return _first_line_that_differs(self.model, other.model)
        for field in dataclasses.fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs and field.name != "data_summary":
                return f"{field.name} {theirs!r} where the others have {ours!r}"
        return ""


def _first_line_that_differs(ours: str, theirs: str) -> str:
    mine, other = ours.splitlines(), theirs.splitlines()
    for index in range(max(len(mine), len(other))):
        known = mine[index] if index < len(mine) else "nothing more"
        told = other[index] if index < len(other) else "nothing more"
        if known != told:
            return f"another model: {told} where the others have {known}"
    return "another model"
