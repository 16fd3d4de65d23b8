# SPDX-License-Identifier: Apache-2.0
"""Each setting of a server reaches the library, and what does not go together is refused by its name."""

import re
from typing import Any

import numpy as np
import pytest

import tarry
from tarry import settings
from tarry.settings import ServerSettings, server_settings

PLAN = tarry.Plan(4, 8, replication=2)
CODED = tarry.Plan(4, 8, replication=3, parts=2)
BIG = 1 << 40  # numbers of a gradient, of which no machine can keep all


def settled(plan: tarry.Plan = PLAN, dimension: int = 10, **wanted: Any) -> Any:
    return server_settings(plan, dimension, wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "field", "value"),
    [
        ({}, "stop", 0),
        ({"stop": "exact"}, "stop", 0),
        ({"deadline": 0.25}, "stop", 1),
        ({"deadline": 0.25}, "deadline_ns", 250_000_000),
        ({"stop": "deadline", "deadline": 2}, "deadline_ns", 2_000_000_000),
        ({"error_limit": 0.1}, "stop", 2),
        ({"error_limit": 0.1}, "error_limit", 0.1),
        ({"workers_needed": 3}, "stop", 3),
        ({"workers_needed": 3}, "workers_needed", 3),
        ({"workers_needed": 3}, "pick", 0),  # the default yields
        ({}, "credit", 0),
        ({"credit": "whole"}, "credit", 1),
        ({"credit": "whole"}, "pick", 0),
        ({}, "pick", 1),
        ({"pick": "plan"}, "pick", 0),
        ({"pick": "share"}, "pick", 1),
        ({}, "learn_costs", True),
        ({"learn_costs": False}, "learn_costs", False),
        ({}, "keep", 1),
        ({"keep": "all"}, "keep", 0),
        ({"keep": "credited"}, "keep", 1),
        ({"ahead": 5}, "ahead", 5),
        ({"fill": "scale", "deadline": 1}, "fill", 1),
        ({"fill": "stale", "deadline": 1}, "fill", 2),
        ({"reproducible": True}, "reproducible", True),
        ({"reproducible": True}, "pick", 0),
        ({"conditioning_limit": 50.0}, "conditioning_limit", 50.0),
        ({}, "silence_ns", 2_000_000_000),
        ({"silence": 0.5}, "silence_ns", 500_000_000),
        ({}, "sum", 0),
        ({"sum": "everywhere"}, "sum", 1),
        ({}, "sample_chunks", 0),
        ({"sample_chunks": 3}, "sample_chunks", 3),
        ({"sample_chunks": 3, "sample_seed": 7}, "sample_seed", 7),
        ({"voters_grace": 1.5}, "voters_grace_ns", 1_500_000_000),
        ({"attempts_most": 4}, "attempts_most", 4),
        ({"digest_steps": 3}, "digest_steps", 3),
        ({"attempt_limit": 7}, "attempt_limit_ns", 7_000_000_000),
        ({"reports_per_frame": 1}, "reports_per_frame", 1),
        ({"compress": "topk", "compress_share": 0.25}, "compress_share", 250_000),
        ({"ahead": np.int64(5)}, "ahead", 5),
        ({"learn_costs": np.bool_(False)}, "learn_costs", False),
        ({"error_limit": np.float32(0.5)}, "error_limit", 0.5),
        ({"conditioning_limit": float("inf")}, "conditioning_limit", float("inf")),
        ({}, "dimension", 10),
    ],
)
def test_each_setting_reaches_the_library(wanted: dict[str, Any], field: str, value: object) -> None:
    assert getattr(settled(**wanted), field) == value


def test_users_are_told_of_each_setting_of_the_library() -> None:
    told = {*ServerSettings.__annotations__}
    assert told == {*settings.FIELDS} - {*settings.OWN}
    assert all(re.search(rf"\b{name}\b", ServerSettings.__doc__ or "") for name in told)


def test_all_is_not_kept_where_that_is_too_much() -> None:
    assert settled(dimension=BIG).keep == 1
    assert settled(dimension=BIG, keep="all").keep == 0
    assert settled(CODED, dimension=BIG).keep == 0  # parts are coded of all that is kept


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"stop": "soon"}, "stop must be exact or deadline or error or workers, not 'soon'"),
        ({"stop": "deadline"}, "stop 'deadline' needs deadline"),
        ({"stop": "error"}, "stop 'error' needs error_limit"),
        ({"stop": "workers"}, "stop 'workers' needs workers_needed"),
        ({"deadline": 1, "error_limit": 0.5}, "deadline and error_limit don't go together"),
        ({"stop": "exact", "deadline": 1}, "stop and deadline don't go together"),
        ({"deadline": -1}, "deadline is -1"),
        ({"deadline": "soon"}, "deadline is 'soon'"),
        ({"deadline": float("nan")}, "deadline is nan"),
        ({"silence": None, "ahead": -1}, "ahead must be a whole number from 0 to 4294967295, not '-1'"),
        ({"ahead": 1.5}, "ahead must be a whole number from 0 to 4294967295, not '1.5'"),
        ({"ahead": 1 << 80}, "ahead must be a whole number from 0 to 4294967295, not '1208925819614629174706176'"),
        ({"ahead": []}, "ahead is []"),
        ({"pick": "plan\0"}, "pick must be plan or share, not 'plan?'"),
        ({"learn_costs": 2}, "learn_costs must be true or false, not '2'"),
        ({"error_limit": 2.0}, "error_limit must be 0 to 1, not '2.0'"),
        ({"compress": "topk", "compress_share": "all"}, "compress_share must be 0.000001 to 0.5, not 'all'"),
        ({"workers_needed": 5}, "workers_needed=5 is more than workers=4 of the plan: that many workers never finish"),
        ({"pick": "share", "credit": "whole"}, "pick='share' does not go with credit='whole'"),
        ({"pick": "share", "workers_needed": 2}, "pick='share' does not go with stop='workers'"),
        ({"pick": "share", "reproducible": True}, "pick='share' does not go with reproducible=True"),
        ({"keep": "credited", "credit": "whole"}, "keep='credited' does not go with credit='whole'"),
        ({"keep": "credited", "reproducible": True}, "keep='credited' does not go with reproducible=True"),
        ({"keep": "credited", "fill": "stale", "deadline": 1}, "keep='credited' does not go with fill='stale'"),
        ({"reproducible": True, "deadline": 1}, "reproducible=True does not go with stop='deadline'"),
        ({"fill": "scale", "stop": "exact"}, "fill='scale' does not go with stop='exact': an exact sum leaves nothing"),
        ({"sample_chunks": 3, "credit": "whole"}, "sample_chunks=3 does not go with credit='whole'"),
        ({"sample_chunks": 9}, "sample_chunks=9 is more than chunks=8 of the plan"),
    ],
)
def test_what_cannot_be_is_said_by_the_names_used_here(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(tarry.ArgumentError) as raised:
        settled(**wanted)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("plan", "wanted", "said"),
    [
        (CODED, {"keep": "credited"}, "keep='credited' does not go with parts=2 of the plan"),
        (CODED, {"compress": "int8"}, "compress='int8' does not go with parts=2 of the plan"),
    ],
)
def test_what_does_not_go_with_the_plan_is_said(plan: tarry.Plan, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(tarry.ArgumentError) as raised:
        settled(plan, **wanted)
    assert said in str(raised.value)


def test_a_setting_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(TypeError, match=r"'deadlin' is not a setting of a server; there are stop, deadline"):
        settled(deadlin=1)


def test_a_range_is_checked_where_a_server_is_made() -> None:
    for wanted, said in (
        ({"error_limit": 2.0}, "error"),
        ({"deadline": 0}, "deadline"),
        ({"conditioning_limit": 0.5}, "conditioning"),
    ):
        with pytest.raises(tarry.ArgumentError, match=said):
            tarry.Local(PLAN, 10, lambda task: None, **wanted)  # type: ignore[arg-type]


def test_settings_outlive_what_they_were_made_of() -> None:
    found = settled(deadline=0.125)
    junk = [np.ones(64) for _ in range(1000)]
    assert found.deadline_ns == 125_000_000
    assert len(junk) == 1000
