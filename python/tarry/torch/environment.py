# SPDX-License-Identifier: Apache-2.0
"""Where this process stands among the workers, as its launcher says in the environment."""

import dataclasses
import os
from collections.abc import Mapping

from ..errors import ArgumentError


@dataclasses.dataclass(frozen=True)
class Place:
    """hub None: this process is alone, and its own hub."""

    worker: int
    workers: int
    hub: str | None
    starts_hub: bool = False  # as nobody else does
    credentials: str | None = None
    straggler: str | None = None  # delays to inject, as tarry.Straggler has them
    seed: int = 1  # of these


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise ArgumentError(f"the environment has {name}={environment.get(name)!r}, and a number is wanted") from None


# What launchers say: number of the process, of all, and those of this machine.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),  # mpirun of Open MPI
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),  # mpirun of MPICH
    ("SLURM_PROCID", "SLURM_NTASKS", ""),  # srun
)
# What has the same value in all processes of a job, and in no other job's.
_JOBS = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID")


def place_of(environment: Mapping[str, str] = os.environ) -> Place:
    """Raises ArgumentError for an environment that contradicts itself."""
    common = {
        "credentials": environment.get("TARRY_CREDENTIALS"),
        "straggler": environment.get("TARRY_STRAGGLER"),
        "seed": int(environment.get("TARRY_STRAGGLER_SEED", "1")),
    }
    if "TARRY_HUB" in environment:
        worker, workers = _number(environment, "TARRY_WORKER"), _number(environment, "TARRY_WORKERS")
        return Place(worker, workers, environment["TARRY_HUB"], **common)  # type: ignore[arg-type]
    for rank, size, local in _LAUNCHERS:
        if rank in environment and size in environment:
            worker, workers = _number(environment, rank), _number(environment, size)
            if workers == 1:
                break
            hub = _hub_address(environment, local, workers)
            return Place(worker, workers, hub, starts_hub=worker == 0, **common)  # type: ignore[arg-type]
    return Place(0, 1, None, **common)  # type: ignore[arg-type]


def _hub_address(environment: Mapping[str, str], local: str, workers: int) -> str:
    """The same for all processes of a job."""
    nodes = environment.get("SLURM_NNODES", "1")
    here = environment.get(local) == str(workers) if local else nodes == "1"
    job = next((environment[name] for name in _JOBS if name in environment), None)
    if job is None and "PMI_RANK" in environment:  # MPICH's has no name, but one parent for all
        job = f"parent-{os.getppid()}"
    if here and job is not None:
        more = [environment.get(name, "") for name in ("SLURM_STEP_ID", "MASTER_PORT")]
        return f"unix:@tarry-hub-{os.getuid()}-{job}-{'-'.join(more)}"
    raise ArgumentError(
        f"the launcher started {workers} processes, of which some are on other machines, or it does not say: that is not "
        "there yet. Set TARRY_HUB, TARRY_WORKER and TARRY_WORKERS where all are on this one"
    )
