# SPDX-License-Identifier: Apache-2.0
"""The launchers of MPI, Open MPI's and MPICH's: how ranks are started by each, and what is left of them."""

import atexit
import functools
import os
import pathlib
import shutil
import tempfile
import time


@functools.cache
def temporary():
    """A folder for what MPI puts into files, removed at the end. Open MPI has a folder in TMPDIR for all jobs of a user, and
    removes it with the last one: a job that begins at that moment fails."""
    folder = tempfile.mkdtemp(prefix="tarry-mpi-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(*more):
    """What MPI leaks by itself is not looked for; containers may forbid reading another process's memory. UCX 1.13 over TCP
    ends a process that puts numbers into one that dies: without that it sends them."""
    own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "UCX_TLS": "^cma",
           "UCX_TCP_PUT_ENABLE": "n", "UCX_LOG_LEVEL": "fatal", "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "TMPDIR": temporary()}
    options = os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, **own, "ASAN_OPTIONS": f"{options}:detect_leaks=0".lstrip(":"),
            **dict(each.split("=", 1) for each in more)}


class Launcher:
    """`path` is mpirun.openmpi or mpirun.mpich."""

    def __init__(self, path):
        self.path = path
        self.is_mpich = pathlib.Path(path).name.endswith("mpich")

    def command(self, ranks, *words, mpi=()):
        """Ranks may be more than processors: MPICH counts none. `mpi` are words of the launcher's own."""
        many = [] if self.is_mpich else ["--oversubscribe"]
        return [self.path, *many, *mpi, "-n", str(ranks), *map(str, words)]

    def rank(self, number):
        """What the environment of that rank's process has: NAME=VALUE."""
        return f"{'PMI_RANK' if self.is_mpich else 'OMPI_COMM_WORLD_RANK'}={number}"


def having(*variables):
    """The ids of processes whose environment has them all: NAME=VALUE each."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            theirs = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if set(variables) <= set(theirs):
            found.append(int(path.parent.name))
    return found


def are_gone(mark, seconds=20):
    """Whether no process is left whose environment has that; the dead take a moment to go."""
    end = time.monotonic() + seconds
    while having(mark) and time.monotonic() < end:
        time.sleep(0.05)
    return not having(mark)
