# SPDX-License-Identifier: Apache-2.0
"""Parameters that earlier versions had say what to use instead."""

from typing import Any

import pytest

import tarry
from tarry.settings import server_settings


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"compress": "topk", "compress_first": 30}, "compress_first: no longer exists; use a larger compress_share"),
        ({"compress": "topk", "compress_from": 90}, "compress_from: no longer exists; use a larger compress_share"),
        ({"early": True}, "early: no longer exists; use sum='everywhere'"),
        ({"importance": True}, "importance: no longer exists; use sample_chunks or smaller batches"),
        ({"sample_chunks": 3, "sample_by": "norm"}, "sample_by: no longer exists; leave it out"),
        ({"sum": "everywhere", "shape": "grid"}, "shape: no longer exists; leave it out"),
    ],
)
def test_a_setting_that_is_gone_says_what_to_use_instead(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        server_settings(tarry.Plan(4, 8), 10, wanted)  # type: ignore[arg-type]


def test_a_parameter_of_the_simulator_that_is_gone_says_what_to_use_instead() -> None:
    wanted: dict[str, Any] = {"relays": 8}
    with pytest.raises(TypeError, match="relays: no longer exists; use way='direct'"):
        tarry.simulate(tarry.Plan(4, 8), **wanted)


@pytest.mark.parametrize("way", ["chosen", "grid", "tree"])
def test_a_way_that_is_gone_names_the_one_to_use(way: str) -> None:
    with pytest.raises(tarry.ArgumentError, match=f"^way '{way}' no longer exists; use 'direct'"):
        tarry.simulate(tarry.Plan(4, 8), way=way)


@pytest.mark.parametrize("design", ["affine", "difference", "projective"])
def test_a_design_that_is_gone_names_the_script(design: str) -> None:
    with pytest.raises(tarry.ArgumentError, match=f"^design '{design}' no longer exists; .*examples/designs.py"):
        tarry.Plan(7, 7, design=design)


@pytest.mark.parametrize("pick", ["capacity", "fewest"])
def test_a_pick_rule_that_is_gone_names_the_one_to_use(pick: str) -> None:
    with pytest.raises(tarry.ArgumentError, match=f"^pick '{pick}' no longer exists; use 'share'"):
        server_settings(tarry.Plan(4, 8), 10, {"pick": pick})  # type: ignore[typeddict-item]


def test_parts_that_were_chosen_are_gone() -> None:
    wanted: dict[str, Any] = {"parts": 2, "adaptive_parts": True}
    with pytest.raises(TypeError, match=r"^adaptive_parts: no longer exists; give parts, .*tarry plan --advise"):
        tarry.Plan(4, 8, **wanted)
    unknown: dict[str, Any] = {"adaptive": True}
    with pytest.raises(TypeError, match="unexpected keyword argument 'adaptive'"):
        tarry.Plan(4, 8, **unknown)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"compress_first": 3}, "compress_first: no longer exists; use a larger compress_share"),
        ({"compress_last": 3, "steps": 9}, "compress_last: no longer exists; use a larger compress_share"),
        ({"steps": 9}, "steps: no longer exists; leave it out"),
    ],
)
def test_a_parameter_of_join_that_is_gone_says_what_to_use_instead(wanted: dict[str, Any], said: str) -> None:
    torch = pytest.importorskip("torch")
    import tarry.torch as tt

    model = torch.nn.Linear(3, 1)
    with pytest.raises(TypeError, match=said):
        tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=torch.zeros(8, 3), batch=4, piece=2, **wanted)
