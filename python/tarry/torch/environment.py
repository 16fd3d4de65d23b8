# SPDX-License-Identifier: Apache-2.0
"""Where this process stands among the workers, as its launcher says in the environment."""

import dataclasses
import logging
import os
import re
import warnings
import zlib
from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError
from ..hub import ON_THIS_MACHINE, Hub, Member, Security, address
from ..hub.settings import HubSettings, default_listen, listen_beside

_LOG = logging.getLogger("tarry.hub")
# Where a job's hub listens that has no port of its own: two ports for each job, below those that systems choose.
_FIRST_PORT, _PORTS = 20_000, 10_000
_RANGE = re.compile(r"\[(\d+)[^\]]*\]")


@dataclasses.dataclass(frozen=True)
class Place:
    """hub None: this process is alone, and its own hub."""

    worker: int
    workers: int
    hub: str | None
    starts_hub: bool = False  # as nobody else does
    security: Security = ON_THIS_MACHINE
    listen: str | None = None  # where other workers reach this one; None: the address that it has towards the hub
    advertise: str | None = None  # and what they are told, where that is another one
    straggler: str | None = None  # delays to inject, as tarry.Straggler has them
    seed: int = 1  # of these

    def start_hub(self) -> Hub:
        """In this process."""
        at = self.hub or default_listen()
        if not address.is_loopback(at):
            at = f":{address.split(at)[1]}"
        security = self._security_towards(at)
        return Hub(at, HubSettings(self.workers, listen_beside(at), security=security, tell=_LOG.info))

    def member(self, hub: str) -> Member:
        """Whose credentials this process shows there."""
        return self._security_towards(hub).of_worker(self.worker)

    def _security_towards(self, hub: str) -> Security:
        """Over a Unix socket the system says who is there."""
        return ON_THIS_MACHINE if address.is_unix(hub) else self.security

    def among_workers(self, server: str) -> dict[str, Any]:
        """What a tarry.Worker takes of how others reach it."""
        if address.is_unix(server):
            return {"listen": "127.0.0.1:0"}
        return {"listen": self.listen, "advertise": self.advertise}


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise ArgumentError(f"the environment has {name}={environment.get(name)!r}, and a number is wanted") from None


def _numbers(environment: Mapping[str, str], rank: str, size: str) -> tuple[int, int]:
    """The number of this worker, and of all."""
    worker, workers = _number(environment, rank), _number(environment, size)
    if not 0 <= worker < workers:
        raise ArgumentError(
            f"the environment has {rank}={worker} and {size}={workers}: {rank} must be 0 to {workers - 1}"
        )
    return worker, workers


# What launchers say: number of the process, of all, and those of this machine or the number of machines.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),  # mpirun of Open MPI
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),  # mpirun of MPICH
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""),  # srun
    ("SLURM_PROCID", "SLURM_NTASKS", ""),
)
# Slurm's numbers for steps that srun did not start: batch scripts, interactive shells.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
# What has the same value in all processes of a job, and in no other job's.
_JOBS = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID")
_PARTS_OF_JOBS = ("SLURM_STEP_ID", "MASTER_PORT")
# Hosts of a job, as Slurm lists them: the first one has process 0.
_HOSTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")


def place_of(environment: Mapping[str, str] = os.environ) -> Place:
    """Raises ArgumentError for an environment that contradicts itself, or does not say where the hub is."""
    common: dict[str, Any] = {
        "security": Security.told_by(environment),
        "listen": environment.get("TARRY_LISTEN"),
        "advertise": environment.get("TARRY_ADVERTISE"),
        "straggler": environment.get("TARRY_STRAGGLER"),
        "seed": int(environment.get("TARRY_STRAGGLER_SEED", "1")),
    }
    if "TARRY_HUB" in environment:
        worker, workers = _numbers(environment, "TARRY_WORKER", "TARRY_WORKERS")
        return Place(worker, workers, environment["TARRY_HUB"], **common)
    for rank, size, local in _LAUNCHERS:
        if rank in environment and size in environment and _says_where(environment, local):
            worker, workers = _numbers(environment, rank, size)
            if rank == "SLURM_PROCID" and workers > 1 and not _is_step(environment):
                _warn(
                    f"this process is not in a step of srun, although its job has {workers} tasks, so it trains alone: "
                    "start the script by srun"
                )
                break
            if workers == 1:
                break
            if _is_on_one_machine(environment, local, workers):
                hub = _hub_here(environment, workers)
            else:
                hub = _hub_of_several(environment, workers)
                common["security"].of_worker(worker).check(hub)
            return Place(worker, workers, hub, starts_hub=worker == 0, **common)
    if "RANK" in environment and "WORLD_SIZE" not in environment:
        _warn(
            f"the environment has RANK={environment['RANK']} but no WORLD_SIZE, so this process trains alone: "
            "set both, or start the script by tarry run or torchrun"
        )
    return Place(0, 1, None, **common)


def _warn(text: str) -> None:
    """Shown once, at the script's call of join."""
    warnings.warn(text, RuntimeWarning, stacklevel=4)


def _is_step(environment: Mapping[str, str]) -> bool:
    """Whether srun started this process, and not sbatch or salloc."""
    step = environment.get("SLURM_STEP_ID", environment.get("SLURM_STEPID", ""))
    if step.isdecimal():
        return int(step) < _FIRST_SPECIAL_STEP
    return "PMI_RANK" in environment or any(name.startswith("SLURM_STEP_") for name in environment)


def _says_where(environment: Mapping[str, str], local: str) -> bool:
    """srun sets what MPICH's ranks go by, too, but for how many are on a machine: Slurm's own words hold then."""
    return local in environment or "SLURM_PROCID" not in environment or not local


def _is_on_one_machine(environment: Mapping[str, str], local: str, workers: int) -> bool:
    if local in environment:
        return environment[local] == str(workers)
    if local == "LOCAL_WORLD_SIZE":  # Kubernetes does not set it
        return environment.get("MASTER_ADDR", "") in ("localhost", "127.0.0.1", "::1")
    if local:
        return False
    return environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", "1")) == "1"


def _job(environment: Mapping[str, str]) -> str | None:
    job = next((environment[name] for name in _JOBS if name in environment), None)
    if job is None and "MASTER_ADDR" in environment and "MASTER_PORT" in environment:
        job = environment["MASTER_ADDR"]  # no other job can have the same port there
    return None if job is None else "-".join([job, *(environment.get(name, "") for name in _PARTS_OF_JOBS)])


def _hub_here(environment: Mapping[str, str], workers: int) -> str:
    """The same for all processes of a job."""
    job = _job(environment)
    if job is None and "PMI_RANK" in environment:  # MPICH's has no name, but one parent for all
        job = f"parent-{os.getppid()}"
    if job is None:
        raise ArgumentError(
            f"the launcher started {workers} processes, and does not name its job: set TARRY_HUB, TARRY_WORKER and "
            "TARRY_WORKERS"
        )
    return f"unix:@tarry-hub-{os.getuid()}-{job}"


def _hub_of_several(environment: Mapping[str, str], workers: int) -> str:
    """On the machine of process 0; the same for all processes of a job."""
    host = environment.get("TARRY_HUB_HOST") or environment.get("MASTER_ADDR")
    if not host:
        host = next((first_of(environment[name]) for name in _HOSTS if environment.get(name)), "")
    job = _job(environment)
    if not host or ("TARRY_HUB_PORT" not in environment and job is None):
        lacking = "where process 0 is" if not host else "which job it is"
        raise ArgumentError(
            f"the launcher started {workers} processes on several machines, and does not say {lacking}: set "
            "TARRY_HUB_HOST to the machine of process 0, and TARRY_HUB_PORT to a port that is free there, for all"
        )
    if "TARRY_HUB_PORT" in environment:
        port = _number(environment, "TARRY_HUB_PORT")
    else:
        port = _FIRST_PORT + 2 * (zlib.crc32(str(job).encode()) % (_PORTS // 2))
    return address.joined(address.seen_from_outside(host), port)


def first_of(hosts: str) -> str:
    """The first host of a list as Slurm writes it, 'node[01-04,7],gpu3'. Raises ArgumentError."""
    depth, end = 0, len(hosts)
    for place, letter in enumerate(hosts):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            end = place
            break
    found = _RANGE.sub(r"\1", hosts[:end].strip())
    if not found or "[" in found or "]" in found or depth != 0:
        raise ArgumentError(f"{hosts!r} is no list of hosts")
    return found
