# SPDX-License-Identifier: Apache-2.0
"""What a worker tells of its data, so that the hub can hold all workers' data against each other."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Self, cast

from .agreement import Agreement

CHECKS = ("error", "warn", "off")  # values of `data_check` in join: what follows from a difference


@dataclasses.dataclass(frozen=True)
class DataSummary:
    """Digests of samples, or of blocks of samples that follow each other."""

    kind: str = ""  # "whole": every sample; "sampled": some; "named": a name alone; "": the data were not looked at
    form: str = ""  # of one sample, in words
    name: str = ""
    places: list[int] = dataclasses.field(default_factory=list[int])  # the samples, or the first of each block
    digests: list[str] = dataclasses.field(default_factory=list[str])  # of each of these
    structures: list[str] = dataclasses.field(
        default_factory=list[str]
    )  # the same without values, of samples only; a single entry holds for all samples
    # Of each block with floating-point numbers: a digest of what else is in it, and for each tensor or array the sum of
    # its numbers times weights, the sum of their magnitudes, and the share of the latter that rounding moves them by.
    near: list[list[Any]] = dataclasses.field(default_factory=list[list[Any]])
    total: str = ""  # one digest in place of all these, if single samples are private
    random: bool = False  # reading a sample twice gave two values
    loose: bool = False  # and the structure differed as well

    def encode(self) -> str:
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: Any) -> Self:
        """An unreadable text counts as data that were not looked at."""
        try:
            told: Any = json.loads(text)
            return cls(**cast("dict[str, Any]", told))
        except (TypeError, ValueError):
            return cls()


def compare_data(ours: Agreement, theirs: Agreement, our_worker: int, their_worker: int, *, same_kind: bool) -> str:
    """Of two workers: a notice for the second one, or "". Raises ValueError if a difference is an error.

    same_kind: they compute the same bits. On other kinds of CPU torch.randn, for one, gives numbers that differ by
    rounding.
    """
    names = f"worker {our_worker}", f"worker {their_worker}"
    told_of_both = DataSummary.decode(ours.data_summary), DataSummary.decode(theirs.data_summary)
    found = difference(*told_of_both, *names)
    if not found:
        return ""
    if not same_kind and differ_by_rounding(*told_of_both):
        return (
            f"the data of {names[1]} differ from the data of {names[0]} by rounding, as data do that a script makes on "
            "another kind of CPU"
        )
    told = f"{names[1]} has other data than {names[0]}: {ours.samples} samples both, but {found}"
    if ours.data_check == "warn":
        return told
    raise ValueError(
        f"{told}. If these are the same data, and are only decoded differently, data_check='warn' accepts them, and "
        "data_id='...' names the data"
    )


def compare_with_checkpoint(kept: Mapping[str, Any], agreement: Agreement) -> str:
    """A notice if a resumed training has other data than before, which may be intended."""
    before = kept.get("samples")
    found = f"{agreement.samples} samples now, and {before} before"
    if before == agreement.samples:
        told = DataSummary.decode(kept.get("data_summary")), DataSummary.decode(agreement.data_summary)
        found = difference(*told, "the checkpoint", "this run")
    if not found or agreement.data_check == "off":
        return ""
    return f"the data are not those that {agreement.checkpoint} was trained on: {found}. It uses the data of this run"


def difference(ours: DataSummary, theirs: DataSummary, our_name: str, their_name: str) -> str:
    """What `theirs` has differently, in words; "": nothing that can be seen.

    The names say whose data these are, as in "worker 0".
    """
    if not ours.kind or not theirs.kind:
        return ""
    if ours.kind != theirs.kind:
        return f"{their_name} {_kind(theirs)}, and {our_name} {_kind(ours)}"
    if ours.name != theirs.name:
        return f"{their_name} calls them {theirs.name!r}, and {our_name} {ours.name!r}"
    if ours.kind == "whole" and ours.form != theirs.form:
        return f"{their_name} has {theirs.form}, and {our_name} {ours.form}"
    if ours.total or theirs.total:
        return "" if ours.total == theirs.total else "their digests differ"
    if ours.loose or theirs.loose:
        return ""
    if ours.random or theirs.random:
        return _structures(ours, theirs, our_name, their_name)
    return _digests(ours, theirs, our_name) or ""


def _kind(one: DataSummary) -> str:
    if one.kind == "named":
        return f"calls them {one.name!r}"
    return "has tensors in memory" if one.kind == "whole" else "has a dataset that is read by number"


def _structures(ours: DataSummary, theirs: DataSummary, our_name: str, their_name: str) -> str:
    known = dict(zip(ours.places, _spread(ours), strict=True))
    for place, structure in zip(theirs.places, _spread(theirs), strict=True):
        if known.get(place, structure) != structure:
            return f"sample {place} of {their_name} is {structure}, but at {our_name} it is {known[place]}"
    return ""


def _spread(one: DataSummary) -> list[str]:
    return one.structures * len(one.places) if len(one.structures) == 1 else one.structures


def _digests(ours: DataSummary, theirs: DataSummary, our_name: str) -> str:
    known = dict(zip(ours.places, ours.digests, strict=True))
    compared = [(place, one) for place, one in zip(theirs.places, theirs.digests, strict=True) if place in known]
    differ = [(place, one) for place, one in compared if known[place] != one]
    if not differ:
        return ""
    place, digest = differ[0]
    of = {one: at for at, one in known.items()}
    if all(one in of for _, one in differ) and len({one for _, one in differ}) > 1:
        what = "sample" if ours.kind == "sampled" or _is_of_one(ours) else "the block that begins with sample"
        return f"they are in another order: its {what} {place} is {what} {of[digest]} of {our_name}"
    if digest.startswith("!") or known[place].startswith("!"):
        whose = "it" if digest.startswith("!") else our_name
        kind = (digest if digest.startswith("!") else known[place])[1:]
        return f"sample {place} could not be read by {whose} ({kind})"
    return f"of the {_count(ours, len(compared))} compared, {_which(ours, [one for one, _ in differ])}"


def differ_by_rounding(ours: DataSummary, theirs: DataSummary) -> bool:
    """True if all blocks have the same numbers but for rounding, as far as sums show."""
    if not ours.near or ours.places != theirs.places or len(ours.near) != len(theirs.near):
        return False
    try:
        return all(map(_are_near, ours.near, theirs.near))
    except (TypeError, ValueError):  # of another worker's own making
        return False


def _are_near(one: list[Any], other: list[Any]) -> bool:
    (rest, *sums), (other_rest, *other_sums) = one, other
    if rest != other_rest or len(sums) != len(other_sums):
        return False
    pairs = zip(sums, other_sums, strict=True)
    return all(
        abs(of - its) <= share * max(size, its_size) and abs(size - its_size) <= share * max(size, its_size)
        for (of, size, share), (its, its_size, _) in pairs
    )


def _is_of_one(one: DataSummary) -> bool:
    return one.places == list(range(len(one.places)))


def _which(ours: DataSummary, differ: list[int]) -> str:
    """The places that differ, with the verb."""
    if ours.kind == "sampled" or _is_of_one(ours):
        if len(differ) == 1:
            return f"sample {differ[0]} differs"
        return f"samples {', '.join(map(str, sorted(differ)[:3]))}{', ..' if len(differ) > 3 else ''} differ"
    ends = [*ours.places[1:], None]
    end = ends[ours.places.index(differ[0])]
    upto = "the last one" if end is None else str(end - 1)
    more = f" and {len(differ) - 1} more of its blocks differ" if len(differ) > 1 else " differs"
    return f"the block of samples {differ[0]} to {upto}{more}"


def _count(ours: DataSummary, compared: int) -> str:
    return f"{compared} samples" if ours.kind == "sampled" or _is_of_one(ours) else f"{compared} blocks"
