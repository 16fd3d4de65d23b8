# SPDX-License-Identifier: Apache-2.0
"""Finds losses that are means instead of sums: gradients would be as many times too small as a piece has samples.

In most cases the graph of the loss shows it: the last reduction is a mean, or a sum that is divided by the weight. If
the graph is unclear (compiled losses, functions of the user's own), halves.py tries the function that Step.compute is
given: a sum over a piece is the sum over its halves, and a mean is their mean. A loss that stays unclear passes.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ..errors import ArgumentError

_PIECES = 4  # that are looked at, as long as it is unclear
_MOST_TERMS = 256  # of a loss
_FEWEST = 8  # a divisor below may be a constant, as in half of a square
_ALIKE = 1e-4  # relative difference of a divisor from a count
# A loss has one number here, so that these pass it on.
_SAME = (
    "NegBackward", "ToCopyBackward", "CloneBackward", "ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward",
    "SqueezeBackward", "UnsqueezeBackward", "AliasBackward", "ExpandBackward", "CopyBackwards", "PermuteBackward",
)  # fmt: skip


class Unclear(Exception):
    """The graph does not say what the loss is."""


class Term(NamedTuple):
    """A reduction to one number, and what it is multiplied by on the way to the loss."""

    is_mean: bool
    sizes: tuple[int, ...]  # of what is reduced; (): unknown
    scale: float
    divisors: tuple[float, ...]
    name: str


class Reduction:
    """Looks at the first losses of a worker."""

    def __init__(self) -> None:
        self._left = _PIECES

    @property
    def unclear(self) -> bool:
        return self._left > 0

    def settle(self) -> None:
        """The loss is a sum: no other one is looked at."""
        self._left = 0

    def look(self, loss: torch.Tensor, weight: float) -> None:
        """Before backward. Raises ArgumentError for a mean."""
        if not self.unclear or not weight > 1 or loss.grad_fn is None or loss.numel() != 1:
            return
        self._left -= 1
        try:
            terms = list(_terms(loss.grad_fn, 1.0, ()))
            if not 0 < len(terms) <= _MOST_TERMS:
                return
            why = _mean_of(terms, weight)
        except (Unclear, AttributeError, RuntimeError, TypeError, ValueError):
            return
        if why:
            raise mean_error(why, weight)
        self.settle()


def mean_error(why: str, weight: float) -> ArgumentError:
    return ArgumentError(
        f"the loss is a mean ({why}), but its weight is {weight:g}, so gradients would be about {weight:g} times too "
        "small. Write reduction='sum' in the loss function, or multiply the loss by its weight. If the step shall be "
        "the mean over pieces, each counting the same, give weight=1"
    )


def _mean_of(terms: list[Term], weight: float) -> str:
    """Why the loss is a mean; "": it is a sum. Raises Unclear."""
    divisors = [1.0 if term.is_mean else _divided(term, weight) for term in terms]
    if not any(divisors):
        return ""
    if not all(divisors):
        raise Unclear
    # As many means as samples, or a mean times its count, are a sum.
    if 1.5 * sum(abs(term.scale) * divisor for term, divisor in zip(terms, divisors, strict=True)) > weight:
        raise Unclear
    return terms[0].name if terms[0].is_mean else f"a sum divided by {divisors[0]:g}"


def _divided(term: Term, weight: float) -> float:
    """By what a sum is divided that makes it a mean over samples; 0: it is not. Raises Unclear."""
    numbers = math.prod(term.sizes) if term.sizes else 0
    for divisor in term.divisors:
        by_numbers, by_weight = numbers >= weight and _alike(divisor, numbers), _alike(divisor, weight)
        if (by_numbers or by_weight) and divisor < _FEWEST:
            raise Unclear
        if by_numbers:
            return divisor
        if by_weight:
            places = [place for place, size in enumerate(term.sizes) if size == round(divisor)]
            if places not in ([], [0]):
                raise Unclear  # it may be divided by the number of features
            return divisor
    return 0.0


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * abs(other)


def _terms(node: Any, scale: float, divisors: tuple[float, ...]) -> Iterator[Term]:
    """Goes back from a number to the reductions that it is made of. Raises Unclear."""
    while True:
        name = type(node).__name__
        below = [one for one, _ in node.next_functions]
        if name.startswith(_SAME):
            node = below[0]
        elif name.startswith(("AddBackward", "SubBackward")):
            known = [one for one in below if one is not None]
            for one in known[1:]:
                yield from _terms(one, scale, divisors)
            node = known[0]
        elif name.startswith("MulBackward"):
            factor = _other(node, below, name)
            if factor >= 2 and factor == round(factor):
                raise Unclear  # a mean times a count, as far as can be seen
            divisors = (*divisors, 1 / factor) if 0 < abs(factor) < 1 else divisors
            scale, node = scale * factor, next(one for one in below if one is not None)
        elif name.startswith("DivBackward"):
            if below[0] is None or any(one is not None for one in below[1:]):
                raise Unclear
            divisor = _number(node._saved_other)
            scale, divisors, node = scale / divisor, (*divisors, divisor), below[0]
        else:
            terms = _reduced(node, name, below, scale, divisors)
            if isinstance(terms, Term):
                yield terms
                return
            if len(terms) > 1:
                for one in terms[1:]:
                    yield from _terms(one, scale, divisors)
            node = terms[0]


def _reduced(node: Any, name: str, below: list[Any], scale: float, divisors: tuple[float, ...]) -> "Term | list[Any]":
    """The term, or the numbers that were stacked before they were reduced. Raises Unclear."""
    reduction = getattr(node, "_saved_reduction", None)
    if reduction in (1, 2):
        words = f"{name.removesuffix('0').removesuffix('Backward')} with reduction='mean'"
        return Term(reduction == 1, (), scale, divisors, words)
    is_mean = name.startswith("MeanBackward")
    if not is_mean and not name.startswith(("SumBackward", "NansumBackward", "DotBackward", "TraceBackward")):
        raise Unclear
    sizes = _sizes(node)
    if (
        math.prod(sizes) == 1
        and name.startswith(("MeanBackward", "SumBackward"))
        and hasattr(below[0], "next_functions")
    ):
        return [below[0]]
    first = type(below[0]).__name__
    if first.startswith("StackBackward") and len(sizes) == 1 and not is_mean:
        return [one for one, _ in below[0].next_functions if one is not None]
    if first.startswith("StackBackward") and is_mean:
        raise Unclear  # of samples, or of several losses
    if not is_mean and first.startswith("MeanBackward1") and 0 in _dimensions(below[0]):
        return Term(True, sizes, scale, divisors, "a mean over the first dimension")
    return Term(is_mean, sizes, scale, divisors, ".mean()")


def _dimensions(node: Any) -> tuple[int, ...]:
    """Over which a mean goes."""
    found = node._saved_dim
    dimensions: tuple[int, ...] = tuple(found) if found else ()
    count = len(_sizes(node))
    return tuple(one % count if one < count else (one - (1 << 64)) % count for one in dimensions)


def _sizes(node: Any) -> tuple[int, ...]:
    for name in ("_saved_self_sym_sizes", "_saved_self_sizes"):
        found = getattr(node, name, None)
        if found is not None:
            return tuple(int(one) for one in found)
    if type(node).__name__.startswith("MeanBackward"):
        return tuple(node._saved_self.shape)
    return (0,)


def _other(node: Any, below: list[Any], name: str) -> float:
    """The factor of a product that needs no gradient. Raises Unclear."""
    if sum(one is not None for one in below) != 1:
        raise Unclear
    if name == "MulBackward1" or below[0] is not None:
        return _number(node._saved_other)
    return _number(node._saved_self)


def _number(found: Any) -> float:
    """Raises Unclear."""
    value = float(found.detach()) if isinstance(found, torch.Tensor) and found.numel() == 1 else found
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value == 0:
        raise Unclear
    return float(value)
