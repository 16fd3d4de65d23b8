# SPDX-License-Identifier: Apache-2.0
"""Parameters that earlier versions had say what to use instead."""

from typing import Any

import pytest

import tarry
from tarry.settings import server_settings


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"early": True}, "early: no longer exists; use sum='everywhere'"),
        ({"importance": True}, "importance: no longer exists; use sample_chunks or smaller batches"),
        ({"sample_chunks": 3, "sample_by": "norm"}, "sample_by: no longer exists; leave it out"),
    ],
)
def test_a_setting_that_is_gone_says_what_to_use_instead(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        server_settings(tarry.Plan(4, 8), 10, wanted)  # type: ignore[arg-type]


def test_a_parameter_of_the_simulator_that_is_gone_says_what_to_use_instead() -> None:
    wanted: dict[str, Any] = {"relays": 8}
    with pytest.raises(TypeError, match="relays: no longer exists; use way='direct'"):
        tarry.simulate(tarry.Plan(4, 8), **wanted)


@pytest.mark.parametrize("design", ["affine", "difference", "projective"])
def test_a_design_that_is_gone_names_the_script(design: str) -> None:
    with pytest.raises(tarry.ArgumentError, match=f"^design '{design}' no longer exists; .*examples/designs.py"):
        tarry.Plan(7, 7, design=design)


@pytest.mark.parametrize("pick", ["capacity", "fewest"])
def test_a_pick_rule_that_is_gone_names_the_one_to_use(pick: str) -> None:
    with pytest.raises(tarry.ArgumentError, match=f"^pick '{pick}' no longer exists; use 'share'"):
        server_settings(tarry.Plan(4, 8), 10, {"pick": pick})  # type: ignore[typeddict-item]
