# SPDX-License-Identifier: Apache-2.0
"""Pictures of plans and of simulated rounds, by Matplotlib, which has to be there.

Each function draws on the axes that it is given, or on new ones of a figure of its own, and gives them back.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import ArgumentError
from .plan import Plan
from .simulation import Table

# With more cells than that numbers can't be read.
_MOST_NUMBERS = 400


def _new_axes(width: float, height: float) -> Any:
    pyplot = importlib.import_module("matplotlib.pyplot")
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def order(plan: Plan, axes: Any = None) -> Any:
    """Which units each worker holds, in its order: a row per worker; a unit has the same colour in all rows."""
    orders = [plan.order_of(worker) for worker in range(plan.workers)]
    longest = max(len(units) for units in orders)
    cells = np.full((plan.workers, longest), np.nan)
    for row, units in zip(cells, orders, strict=True):
        row[: len(units)] = units
    if axes is None:
        axes = _new_axes(min(16.0, 1.5 + 0.35 * longest), min(12.0, 1.0 + 0.35 * plan.workers))
    colours = "tab20" if plan.units <= 20 else "turbo"
    axes.imshow(cells, cmap=colours, vmin=-0.5, vmax=max(20, plan.units) - 0.5, aspect="auto", alpha=0.6)
    if cells.size <= _MOST_NUMBERS:
        for (worker, position), unit in np.ndenumerate(cells):
            if not np.isnan(unit):
                axes.text(position, worker, f"{unit:.0f}", ha="center", va="center", fontsize=8)
    axes.set_xlabel("position in the order")
    axes.set_ylabel("worker")
    for axis, count in ((axes.xaxis, longest), (axes.yaxis, plan.workers)):
        axis.get_major_locator().set_params(integer=True)
        axis.set_minor_locator(importlib.import_module("matplotlib.ticker").FixedLocator(np.arange(count + 1) - 0.5))
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    return axes


def times(tables: Mapping[str, Table], axes: Any = None, *, balanced: bool = False) -> Any:
    """How long rounds took, by scheme: the share of rounds (0..1) that were over within so many seconds.

    tables    what tarry.simulate gave, by the name of each scheme
    balanced  whether seconds are divided by the least that work which is spread evenly would have taken in that round

    The curve of a scheme some of whose rounds came to nothing ends below 1. Raises ArgumentError: there is nothing to
    draw, or a table has no bounds.
    """
    if not tables:
        raise ArgumentError("there are no tables to draw")
    seconds = {name: _seconds(name, table, balanced) for name, table in tables.items()}
    if axes is None:
        axes = _new_axes(6.4, 4.0)
    last = max((float(one[np.isfinite(one)].max(initial=0.0)) for one in seconds.values()), default=0.0)
    for name, one in seconds.items():
        ended = np.sort(one[np.isfinite(one)])
        share = np.arange(1, len(ended) + 1) / len(one)
        axes.step([0, *ended, 1.02 * last], [0, *share, share[-1] if len(share) else 0], where="post", label=name)
    axes.set_xlabel("seconds of a round" + (", times balanced" if balanced else ""))
    axes.set_ylabel("share of rounds")
    axes.set_xlim(left=0.0, right=1.02 * last if last > 0 else 1.0)
    axes.set_ylim(0.0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    return axes


def _seconds(name: str, table: Table, balanced: bool) -> Any:
    if len(table["seconds"]) == 0:
        raise ArgumentError(f"the table of {name} has no rounds")
    if not balanced:
        return table["seconds"]
    if "balanced" not in table:
        raise ArgumentError(f"the table of {name} has no bounds (simulate(bounds=True))")
    return table["seconds"] / table["balanced"]
