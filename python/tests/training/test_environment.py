# SPDX-License-Identifier: Apache-2.0
"""Where a process stands among the workers, by what launchers put into the environment."""

import os

import pytest

pytest.importorskip("torch")

from tarry import ArgumentError
from tarry.torch.environment import Place, place_of


def test_alone() -> None:
    assert place_of({}) == Place(0, 1, None)
    assert place_of({"RANK": "0", "WORLD_SIZE": "1"}) == Place(0, 1, None)


def test_tarry_run() -> None:
    known = {"TARRY_HUB": "unix:@x", "TARRY_WORKER": "2", "TARRY_WORKERS": "4", "TARRY_STRAGGLER": "slow:1,5"}
    assert place_of(known) == Place(2, 4, "unix:@x", straggler="slow:1,5")


def test_an_environment_that_contradicts_itself() -> None:
    with pytest.raises(ArgumentError, match="TARRY_WORKER='two'"):
        place_of({"TARRY_HUB": "unix:@x", "TARRY_WORKER": "two", "TARRY_WORKERS": "4"})


@pytest.mark.parametrize(
    "known",
    [
        {
            "RANK": "1",
            "WORLD_SIZE": "3",
            "LOCAL_WORLD_SIZE": "3",
            "TORCHELASTIC_RUN_ID": "none",
            "MASTER_PORT": "29500",
        },
        {
            "OMPI_COMM_WORLD_RANK": "1",
            "OMPI_COMM_WORLD_SIZE": "3",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
            "PMIX_NAMESPACE": "7",
        },
        {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALNRANKS": "3"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "3", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_NNODES": "1"},
    ],
)
def test_launchers(known: dict[str, str]) -> None:
    """All processes of a job meet at the same hub, which the first of them starts, and no other job's do."""
    rank = next(name for name in known if "RANK" in name or "PROCID" in name)
    places = [place_of(known | {rank: str(number)}) for number in range(3)]
    assert [place.worker for place in places] == [0, 1, 2]
    assert [place.starts_hub for place in places] == [True, False, False]
    assert len({place.hub for place in places}) == 1
    hub = places[0].hub
    assert hub is not None and hub.startswith("unix:@") and str(os.getuid()) in hub


def test_several_machines_are_refused() -> None:
    with pytest.raises(ArgumentError, match="other machines"):
        place_of({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"})
