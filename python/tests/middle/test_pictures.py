# SPDX-License-Identifier: Apache-2.0
"""Pictures, where Matplotlib is there: what is on their axes."""

import io
from typing import Any

import numpy as np
import pytest

import tarry
from tarry import pictures

matplotlib: Any = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_a_plan_is_drawn_cell_by_cell() -> None:
    plan = tarry.Plan(3, 5, replication=2)
    axes = pictures.order(plan)
    cells = axes.images[0].get_array()
    for worker in range(3):
        units = plan.order_of(worker)
        assert list(cells[worker][: len(units)]) == list(units)
        assert np.all(np.isnan(np.ma.getdata(cells)[worker][len(units) :]))
    numbers = {(round(text.get_position()[1]), round(text.get_position()[0])): text.get_text() for text in axes.texts}
    table = plan.table()
    wanted = zip(table["worker"], table["position"], table["unit"], strict=True)
    assert numbers == {(int(worker), int(position)): str(unit) for worker, position, unit in wanted}


def test_a_large_plan_has_no_numbers() -> None:
    assert len(pictures.order(tarry.Plan(30, 30, pieces=8)).texts) == 0


def test_times_are_shares_of_rounds() -> None:
    tables: dict[str, tarry.simulation.Table] = {
        "fast": {"seconds": np.array([2.0, 1.0]), "balanced": np.array([1.0, 1.0])},
        "lossy": {"seconds": np.array([4.0, np.inf]), "balanced": np.array([2.0, 2.0])},
    }
    axes = pictures.times(tables)
    fast, lossy = axes.lines
    assert [line.get_label() for line in axes.lines] == ["fast", "lossy"]
    assert list(zip(fast.get_xdata(), fast.get_ydata(), strict=True))[:3] == [(0, 0), (1, 0.5), (2, 1)]
    assert lossy.get_ydata()[-1] == 0.5
    axes = pictures.times(tables, balanced=True)
    assert list(axes.lines[1].get_xdata())[1] == 2.0


def test_axes_that_are_given_are_drawn_on() -> None:
    pyplot: Any = pytest.importorskip("matplotlib.pyplot")
    figure, both = pyplot.subplots(1, 2)
    plan = tarry.Plan(4)
    assert pictures.order(plan, both[0]) is both[0]
    assert pictures.times({"this": tarry.simulate(plan, rounds=5)}, both[1]) is both[1]
    written = io.BytesIO()
    figure.savefig(written, format="png")
    assert written.getvalue().startswith(b"\x89PNG")
    pyplot.close("all")


def test_what_cannot_be_drawn_is_an_error() -> None:
    plan = tarry.Plan(2)
    without = {"this": tarry.simulate(plan, rounds=1, bounds=False)}
    with pytest.raises(tarry.ArgumentError, match="no tables"):
        pictures.times({})
    with pytest.raises(tarry.ArgumentError, match="this has no rounds"):
        pictures.times({"this": tarry.simulate(plan, rounds=0)})
    with pytest.raises(tarry.ArgumentError, match="this has no bounds"):
        pictures.times(without, balanced=True)
