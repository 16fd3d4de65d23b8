# SPDX-License-Identifier: Apache-2.0
"""What all workers of a training must have in common, and what differs in words."""

import dataclasses
from typing import Any, Self, cast

from ..errors import FormatError
from ..settings import ServerSettings, counting

# What workers agree on of a server's settings; the hub decides the others.
SETTINGS = (
    "sum", "reproducible", "compress", "compress_share", "compress_rank", "compress_matrices", "compress_down",
)  # fmt: skip


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
    settings: ServerSettings  # of the server, without what the hub decides
    engine: str  # by which workers make sums among themselves
    exact: int  # the last so many numbers are float32 in every form
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
    data: str = ""  # digest of the samples
    numerics: str = ""  # what decides the bits of a gradient
    data_summary: str = ""  # a DataSummary; "": the data are not compared
    data_check: str = "error"  # what follows if they differ
    nonfinite: str = "allow"  # what follows on a gradient with NaN or infinity

    def __post_init__(self) -> None:
        """Raises ArgumentError if a setting of the server is invalid."""
        counting(self.settings)

    @property
    def sum(self) -> str:
        return self.settings.get("sum", "server")

    @property
    def reproducible(self) -> bool:
        return self.settings.get("reproducible", False)

    @property
    def is_compressed(self) -> bool:
        """Whether gradients or sums are sent in another form than float32."""
        return any(self.settings.get(name, "none") != "none" for name in ("compress", "compress_down"))

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
        settings = cast("dict[str, Any]", told["settings"]) if isinstance(told["settings"], dict) else {"settings": ""}
        unknown = [name for name in settings if name not in SETTINGS]
        if unknown:
            raise FormatError(f"a worker of another version: unknown settings of a server: {', '.join(unknown)}")
        return cls(**told)

    def difference(self, other: "Agreement") -> str:
        """What another worker has differently, in words, its samples apart; "": nothing."""
        words = {
            "samples": "data of {theirs} samples where the others have {ours}",
            "batch": "a batch of {theirs} where the others have {ours}",
            "piece": "pieces of {theirs} samples where the others have {ours}",
            "seed": "the seed {theirs} where the others have {ours}",
            "engine": "the engine {theirs!r} where the others have {ours!r}",
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
        found = _first_setting_that_differs(self.settings, other.settings)
        if found:
            return found
        for field in dataclasses.fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs and field.name not in ("data_summary", "settings"):
                return f"{field.name} {theirs!r} where the others have {ours!r}"
        return ""


def _first_setting_that_differs(ours: ServerSettings, theirs: ServerSettings) -> str:
    """By the library's table. Settings that others make idle are ignored; "": none."""
    known, told = counting(ours), counting(theirs)
    for name in known | told:
        if known.get(name) != told.get(name):
            here, there = (given.get(name, found.get(name)) for given, found in ((ours, known), (theirs, told)))
            return f"{name} {there!r} where the others have {here!r}"
    return ""


def _first_line_that_differs(ours: str, theirs: str) -> str:
    mine, other = ours.splitlines(), theirs.splitlines()
    for index in range(max(len(mine), len(other))):
        known = mine[index] if index < len(mine) else "nothing more"
        told = other[index] if index < len(other) else "nothing more"
        if known != told:
            return f"another model: {told} where the others have {known}"
    return "another model"
