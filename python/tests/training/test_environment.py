# SPDX-License-Identifier: Apache-2.0
"""Where a process stands among the workers, by what launchers put into the environment."""

import logging
import os
import pathlib
import socket
from typing import Any

import pytest

pytest.importorskip("torch")

from tarry import ArgumentError
from tarry.hub import Client, address
from tarry.torch.environment import Place, first_of, place_of


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
        {"RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "41234"},
        {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "23456"},
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


def test_ranks_of_mpi_that_srun_starts_are_slurms() -> None:
    known = {"PMI_RANK": "1", "PMI_SIZE": "3", "SLURM_PROCID": "1", "SLURM_NTASKS": "3", "SLURM_JOB_ID": "12"}
    place = place_of(known)
    assert (place.worker, place.workers) == (1, 3)
    assert place.hub is not None and place.hub.startswith("unix:") and "-12-" in place.hub


def test_steps_of_slurm_are_what_counts() -> None:
    """Not the job that they are part of, nor the script that starts them."""
    job = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_NNODES": "2", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3"}
    step = job | {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "1"}
    place = place_of(step)
    assert place.workers == 4 and place.hub is not None and place.hub.startswith("unix:")
    assert place_of(job | {"SLURM_STEP_NUM_TASKS": "1"}) == Place(0, 1, None)


@pytest.mark.parametrize("step", [{}, {"SLURM_STEP_ID": "4294967291"}, {"SLURM_STEPID": "4294967290"}])
def test_a_batch_script_without_srun_is_one_worker_and_says_so(step: dict[str, str]) -> None:
    known = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "12"} | step
    with pytest.warns(
        RuntimeWarning, match=r"not in a step of srun, although its job has 8 tasks, .* start the script"
    ):
        assert place_of(known) == Place(0, 1, None)


def test_a_rank_without_a_size_is_one_worker_and_says_so() -> None:
    with pytest.warns(RuntimeWarning, match=r"RANK=3 but no WORLD_SIZE, so this process trains alone"):
        assert place_of({"RANK": "3"}) == Place(0, 1, None)


@pytest.mark.parametrize("rank", ["-1", "4", "17"])
def test_a_rank_outside_its_size_is_refused(rank: str) -> None:
    known = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "1234"}
    with pytest.raises(ArgumentError, match=rf"RANK={rank} and WORLD_SIZE=4: RANK must be 0 to 3"):
        place_of(known | {"RANK": rank})


def test_other_ports_of_one_master_are_other_jobs() -> None:
    known = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "localhost"}
    assert place_of(known | {"MASTER_PORT": "1"}).hub != place_of(known | {"MASTER_PORT": "2"}).hub


# ---- several machines ----

SEVERAL: dict[str, dict[str, str]] = {
    "torchrun": {
        "RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none",
        "MASTER_ADDR": "node07.invalid", "MASTER_PORT": "29500",
    },
    "kubernetes": {
        "RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node07.invalid", "MASTER_PORT": "23456",
    },
    "slurm": {
        "SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": "node[07,09-11].invalid", "SLURM_JOB_NODELIST": "node[01-11].invalid",
    },
    "open-mpi": {
        "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "PMIX_NAMESPACE": "7", "TARRY_HUB_HOST": "node07.invalid",
    },
    "mpich": {
        "PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "TARRY_HUB_HOST": "node07.invalid",
        "TARRY_HUB_PORT": "7070",
    },
    "mpich-under-slurm": {
        "PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "SLURM_JOB_ID": "12",
        "SLURM_JOB_NODELIST": "node07.invalid,node09.invalid",
    },
}  # fmt: skip


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> str:
    for name in ("server", "worker"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cert.pem").touch()
    return str(tmp_path)


@pytest.mark.parametrize("launcher", SEVERAL)
def test_launchers_of_several_machines(launcher: str, cluster: str) -> None:
    """All meet at one port of the machine that has process 0, and show credentials there."""
    known = SEVERAL[launcher] | {"TARRY_CREDENTIALS": cluster}
    rank = next(name for name in known if "RANK" in name or "PROCID" in name)
    places = [place_of(known | {rank: str(number)}) for number in range(4)]
    assert [place.starts_hub for place in places] == [True, False, False, False]
    (hub,) = {place.hub for place in places}
    assert hub is not None
    host, _, port = hub.rpartition(":")
    assert host == "node07.invalid"
    assert int(port) == 7070 if "TARRY_HUB_PORT" in known else 20_000 <= int(port) < 30_000
    assert places[3].member(hub).library(hub) == {"credentials": f"{cluster}/worker"}
    assert place_of(known | {"TARRY_HUB_PORT": "1234"}).hub == "node07.invalid:1234"
    assert place_of(known | {"TARRY_HUB_HOST": "other.invalid"}).hub == f"other.invalid:{port}"


def test_other_jobs_have_other_ports(cluster: str) -> None:
    known = SEVERAL["slurm"] | {"TARRY_CREDENTIALS": cluster}
    assert len({place_of(known | {"SLURM_JOB_ID": str(job)}).hub for job in range(20)}) > 10


@pytest.mark.parametrize("launcher", SEVERAL)
def test_several_machines_need_credentials_or_the_word_that_they_do_not(launcher: str) -> None:
    with pytest.raises(ArgumentError, match=r"there have to be credentials .*TARRY_CREDENTIALS"):
        place_of(SEVERAL[launcher])
    with pytest.raises(ArgumentError, match="unless it is forced"):
        place_of(SEVERAL[launcher] | {"TARRY_INSECURE": "1"})
    place = place_of(SEVERAL[launcher] | {"TARRY_INSECURE": "force"})
    assert place.hub is not None and place.member(place.hub).library(place.hub) == {"insecure": True, "force": True}
    with pytest.raises(ArgumentError, match="TARRY_INSECURE='yes', and 1 or force is wanted"):
        place_of(SEVERAL[launcher] | {"TARRY_INSECURE": "yes"})


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        ("open-mpi", "does not say where process 0 is: set TARRY_HUB_HOST"),
        ("mpich", "does not say where process 0 is"),
    ],
)
def test_what_a_launcher_does_not_say_is_asked_for(launcher: str, why: str) -> None:
    known = {name: value for name, value in SEVERAL[launcher].items() if not name.startswith("TARRY")}
    with pytest.raises(ArgumentError, match=why):
        place_of(known)
    if launcher == "mpich":
        with pytest.raises(ArgumentError, match=r"does not say which job it is: .* TARRY_HUB_PORT"):
            place_of(known | {"TARRY_HUB_HOST": "node07.invalid"})


def test_a_name_that_means_this_machine_is_what_others_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's own name is often that of a loopback address there, where others can't reach it."""
    looked_up = socket.getaddrinfo

    def names(host: str, *more: Any, **rest: Any) -> Any:
        return looked_up("127.0.1.1" if host == "node07.invalid" else host, *more, **rest)

    monkeypatch.setattr(socket, "getaddrinfo", names)
    monkeypatch.setattr(address, "own_address", lambda: "192.0.2.7")
    known = SEVERAL["torchrun"] | {"TARRY_INSECURE": "force", "TARRY_HUB_PORT": "7070"}
    assert place_of(known).hub == "192.0.2.7:7070"
    assert place_of(known | {"MASTER_ADDR": "127.0.0.1"}).hub == "127.0.0.1:7070"
    assert place_of(known | {"MASTER_ADDR": "localhost"}).hub == "localhost:7070"


def test_a_hub_in_process_0_logs_what_happens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tarry.hub")
    known = {"TARRY_HUB": f"unix:@tarry-log-{os.getpid()}", "TARRY_WORKER": "0", "TARRY_WORKERS": "1"}
    with place_of(known | {"TARRY_CREDENTIALS": "/nowhere, and not needed here"}).start_hub() as hub:
        client = Client(hub.address)
        client.attend(None, 1)
        client.close()
    assert caplog.messages[0] == "worker 0: started from this machine"


def test_where_other_workers_reach_this_one() -> None:
    known = {"TARRY_HUB": "hub:7070", "TARRY_WORKER": "2", "TARRY_WORKERS": "4", "TARRY_INSECURE": "force"}
    told = known | {"TARRY_LISTEN": "10.0.0.7:0", "TARRY_ADVERTISE": "node07:0"}
    assert place_of(known).among_workers("hub:7071") == {"listen": None, "advertise": None}
    assert place_of(told).among_workers("hub:7071") == {"listen": "10.0.0.7:0", "advertise": "node07:0"}


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("node1", "node1"),
        ("node1,node2", "node1"),
        ("node[3-5,9]", "node3"),
        ("node[003-005],gpu1", "node003"),
        ("gpu1,node[3-5]", "gpu1"),
        ("rack[2-3]node[7,9]", "rack2node7"),
        ("node[12].cluster", "node12.cluster"),
    ],
)
def test_lists_of_hosts(hosts: str, first: str) -> None:
    assert first_of(hosts) == first


@pytest.mark.parametrize("hosts", ["", "node[", "node]", "node[a-b]", ","])
def test_a_list_of_hosts_that_is_none(hosts: str) -> None:
    with pytest.raises(ArgumentError, match="is no list of hosts"):
        first_of(hosts)
