# SPDX-License-Identifier: Apache-2.0
"""Trainings over several machines: by a `tarry run` on each, by srun and by torchrun. Machines are processes that share
nothing but a TCP address with TLS, and network namespaces where they can be made."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator

import keys as credentials_of
import pytest
import runs
from conftest import LONG
from test_training import EACH_SUM, same, worst

torch = pytest.importorskip("torch")
pytestmark = credentials_of.needs_openssl
HERE, WORKERS = 2, 4  # of the first machine, and of both
GONE = re.compile(r"tarry run: the hub at \S+ is gone: its process has ended, or its machine is not reached\n")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    names = ["server", "worker", *(f"worker-{number}" for number in range(WORKERS))]
    return credentials_of.make_cluster(tmp_path_factory.mktemp("keys") / "cluster", names)


class Machines:
    """A training of two machines or more, whose first one has the hub."""

    def __init__(self, keys: pathlib.Path, script: tuple[object, ...]) -> None:
        self.keys, self.script = keys, script
        self._open = contextlib.ExitStack()
        self.first: subprocess.Popen[str]
        self.address = ""

    def __enter__(self) -> "Machines":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self, listen: str = "127.0.0.1:0", *options: object, around: tuple[str, ...] = ()) -> None:
        words = ("--workers", WORKERS, "--listen", listen, "--credentials", self.keys, *options)
        self.first = self._run(words, around)
        assert self.first.stderr is not None
        for line in self.first.stderr:
            if "the hub is at" in line:
                self.address = line.split()[6].rstrip(";")
                return
        raise AssertionError("the hub did not come")

    def more(self, *options: object, around: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        return self._run(("--connect", self.address, "--credentials", self.keys, *options), around)

    def _run(self, options: tuple[object, ...], around: tuple[str, ...]) -> "subprocess.Popen[str]":
        return self._open.enter_context(runs.running(*self.script, workers=HERE, options=options, around=around))  # type: ignore[arg-type]


@contextlib.contextmanager
def machines(keys: pathlib.Path, *script: object, listen: str = "127.0.0.1:0") -> Generator[Machines]:
    with Machines(keys, script) as made:
        made.begin(listen)
        yield made


def finish(*processes: "subprocess.Popen[str]") -> tuple[list[str], list[str]]:
    """All end well: what their workers said, and what all said on stderr."""
    lines: list[str] = []
    errors: list[str] = []
    for process in processes:
        output, error = process.communicate(timeout=runs.LIMIT_SECONDS)
        assert process.returncode == 0, output + error
        lines += [line.partition("] ")[2] for line in output.splitlines()]
        errors.append(error)
    return lines, errors


@EACH_SUM
def test_two_machines_are_exact(keys: pathlib.Path, where: str) -> None:
    with machines(keys, "small", 25, "--check", "--sum", where) as made:
        lines, _ = finish(made.more(), made.first)
    same(lines, 25, workers=WORKERS)
    assert worst(lines) < 1e-6
    assert {line.split()[1] for line in lines if line.startswith("begins ")} == {"0", "1", "2", "3"}


def test_machines_may_come_before_the_hub(keys: pathlib.Path) -> None:
    with Machines(keys, ("small", 10, "--check")) as made:
        made.address = f"127.0.0.1:{free_ports()}"
        early = made.more()
        assert early.stderr is not None
        assert early.stderr.readline() == f"tarry run: no hub at {made.address} yet: Connection refused\n"
        made.begin(made.address)
        lines, _ = finish(early, made.first)
    same(lines, 10, workers=WORKERS)


def test_a_machine_that_dies_costs_no_step_and_another_one_takes_its_place(
    keys: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    has_come = tmp_path / "has-come"
    with machines(keys, "small", 150, "--check", "--seconds", 0.01, "--report", 1, "--slowly-until", has_come) as made:
        dies = made.more("--first", HERE)
        runs.await_line(dies, "step 2 2")
        dies.kill()
        survivors = runs.lines_to(made.first, "step 0 6 ")
        comes = made.more("--first", HERE)
        runs.await_line(comes, "begins")
        has_come.touch()
        lines, errors = finish(comes, made.first)
    same(lines, 150, workers=WORKERS)
    assert worst(lines) < 1e-6
    assert not any(line.endswith("True\n") for line in survivors)
    assert re.search(r"the tarry run of workers 2 to 3 at \S+ is gone; another one may take its place", errors[1])


def test_a_worker_that_dies_elsewhere_is_started_again(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    has_come = tmp_path / "has-come"
    with machines(keys, "small", 100, "--check", "--seconds", 0.01, "--report", 1, "--slowly-until", has_come) as made:
        other = made.more("--restarts", 1)
        runs.await_line(other, "step 2 2")
        os.kill(max(runs.workers(other).items())[1], signal.SIGKILL)
        runs.await_line(other, "begins")
        has_come.touch()
        lines, errors = finish(other, made.first)
    same(lines, 100, workers=WORKERS)
    assert worst(lines) < 1e-6
    assert re.search(r"worker [23] was killed by signal 9 \(SIGKILL\); it is started again \(1 of 1 times\)", errors[0])


def test_the_end_of_the_first_machine_ends_all(keys: pathlib.Path) -> None:
    with machines(keys, "small", 100_000, "--seconds", 0.01, "--report", 1) as made:
        other = made.more()
        runs.await_line(other, "step 2 3")
        children = list(runs.workers(other).values())
        made.first.kill()
        _, errors = other.communicate(timeout=runs.LIMIT_SECONDS)
    assert other.returncode == 1
    assert GONE.search(errors), errors  # whoever notices first, the agent or its workers
    assert not any(pathlib.Path(f"/proc/{child}").exists() for child in children)


def test_ctrl_c_where_the_hub_is_ends_all(keys: pathlib.Path) -> None:
    with machines(keys, "small", 100_000, "--seconds", 0.01, "--report", 1) as made:
        other = made.more()
        runs.await_line(other, "step 2 3")
        made.first.send_signal(signal.SIGINT)
        assert made.first.stdout is not None
        made.first.communicate(timeout=runs.LIMIT_SECONDS)
        _, errors = other.communicate(timeout=runs.LIMIT_SECONDS)
    assert (made.first.returncode, other.returncode) == (130, 1)
    assert f"tarry run: the hub at {made.address} has ended: interrupted\n" in errors


def test_ctrl_c_elsewhere_ends_its_own_workers(keys: pathlib.Path) -> None:
    with machines(keys, "small", 100, "--seconds", 0.01, "--report", 10) as made:
        other = made.more()
        runs.await_line(other, "step 2 10")
        other.send_signal(signal.SIGINT)
        _, errors = other.communicate(timeout=runs.LIMIT_SECONDS)
        lines, told = finish(made.first)
    assert other.returncode == 130
    assert errors.endswith("tarry run: interrupted\n")
    same(lines, 100, workers=HERE)
    assert "workers 2 to 3: their tarry run was ended" in told[0]


def test_a_place_is_taken_once(keys: pathlib.Path) -> None:
    with machines(keys, "small", 100_000, "--seconds", 0.01, "--report", 1) as made:
        runs.await_line(made.more(), "step 2 1")
        for options, why in (
            ((), r"of 4 workers no 2 in a row are free: workers 0 to 1: the hub's own; workers 2 to 3: 127\.0\.0\.1"),
            (("--first", 1), "workers 0 to 1 are taken already: the hub's own"),
            (("--first", 3), "there are no workers 3 to 4 of 4"),
            (("--first", 0, "--credentials", keys / "worker-1"), "the credential of worker-1 is not for worker 0"),
            (("--credentials", keys / "server"), "these are the credentials of a server"),
        ):
            late = made.more(*options)
            _, errors = late.communicate(timeout=runs.LIMIT_SECONDS)
            assert late.returncode == 1
            assert re.search(why, errors), errors


def test_what_a_machine_lacks_is_told_before_anything_is_started(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "worker-2").symlink_to(keys / "worker-2")
    with machines(keys, "small", 100_000) as made:
        other = made.more("--credentials", tmp_path)
        output, errors = other.communicate(timeout=runs.LIMIT_SECONDS)
    assert other.returncode == 1 and output == ""
    assert f"tarry run: {tmp_path} has no cert.pem, and no folder worker-3 or worker with one\n" in errors


def test_a_process_by_itself_takes_part(keys: pathlib.Path) -> None:
    """By TARRY_HUB and its own credential; with another worker's it hears why not."""
    with machines(keys, "small", 60, "--seconds", 0.01) as made:
        alone = [sys.executable, str(runs.SCRIPTS / "small.py"), "60", "--seconds", "0.01"]
        known = {"TARRY_HUB": made.address, "TARRY_WORKERS": str(WORKERS)}

        def start(worker: int, name: str) -> "subprocess.Popen[str]":
            more = known | {"TARRY_WORKER": str(worker), "TARRY_CREDENTIALS": str(keys / name)}
            return subprocess.Popen(
                alone, env=runs.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        posing = start(3, "worker-2")
        _, errors = posing.communicate(timeout=runs.LIMIT_SECONDS)
        assert posing.returncode == 1
        assert errors.rstrip().endswith("Refused: the credential of worker-2 is not for worker 3")
        third, fourth = start(2, "worker-2"), start(3, "worker-3")
        outputs = [one.communicate(timeout=runs.LIMIT_SECONDS) for one in (third, fourth)]
        lines, _ = finish(made.first)
    assert third.returncode == fourth.returncode == 0, outputs
    lines += [line for output, _ in outputs for line in output.splitlines()]
    same(lines, 60, workers=WORKERS)


# ---- launchers that others have made ----


def free_ports() -> int:
    """The first of two."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as one, contextlib.suppress(OSError):
            port = int(one.getsockname()[1])
            with socket.create_server(("127.0.0.1", port + 1)):
                return port
    raise AssertionError("no two ports in a row are free")


def check_processes(commands: list[list[str]], environments: list[dict[str, str]]) -> None:
    processes = [
        subprocess.Popen(command, env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command, known in zip(commands, environments, strict=True)
    ]
    try:
        outputs = [process.communicate(timeout=runs.LIMIT_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), outputs
    lines = [line for output, _ in outputs for line in output.splitlines()]
    same(lines, 20, workers=WORKERS)
    assert worst(lines) < 1e-6, outputs


SMALL = [str(runs.SCRIPTS / "small.py"), "20", "--check"]
MIXED = "mpirun mixes lines of processes now and then, and Open MPI's own connections to 127.0.0.2 may fail"


def test_srun_over_two_machines(keys: pathlib.Path) -> None:
    """As far as its environment goes."""
    known = {
        "SLURM_NTASKS": str(WORKERS), "SLURM_NNODES": "2", "SLURM_STEP_NODELIST": "127.0.0.1,127.0.0.2",
        "SLURM_JOB_ID": str(os.getpid()), "TARRY_CREDENTIALS": str(keys), "TARRY_HUB_PORT": str(free_ports()),
    }  # fmt: skip
    check_processes(
        [[sys.executable, *SMALL]] * WORKERS,
        [runs.environment(**known, SLURM_PROCID=str(number)) for number in range(WORKERS)],
    )


@pytest.mark.skipif(torch.__version__.startswith("1."), reason="its torchrun does not run under this Python")
def test_torchrun_over_two_machines(keys: pathlib.Path) -> None:
    """The real one, twice."""
    known = runs.environment(TARRY_CREDENTIALS=str(keys), TARRY_HUB_PORT=str(free_ports()))
    port = free_ports()
    commands = [
        [
            sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=2", f"--node_rank={node}",
            "--master_addr=127.0.0.1", f"--master_port={port}", *SMALL,
        ]
        for node in range(2)
    ]  # fmt: skip
    check_processes(commands, [known, known])


@pytest.mark.skipif(not LONG, reason=MIXED)
@pytest.mark.skipif(shutil.which("mpiexec.hydra") is None, reason="there is no MPICH")
def test_mpich_over_two_machines(keys: pathlib.Path) -> None:
    """The real one, for which the two are one."""
    hydra = ["mpiexec.hydra", "-launcher", "fork", "-hosts", "node1,node2", "-ppn", "2", "-n", str(WORKERS)]
    known = {"TARRY_CREDENTIALS": str(keys), "TARRY_HUB_HOST": "127.0.0.1", "TARRY_HUB_PORT": str(free_ports())}
    check_processes([[*hydra, sys.executable, *SMALL]], [runs.environment(**known)])


@pytest.mark.skipif(not LONG, reason=MIXED)
@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="there is no Open MPI")
def test_open_mpi_over_two_machines(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The real one: what it believes to run over there, by a remote shell, runs here."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o755)
    mpirun = [
        "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", str(shell), "--host",
        "127.0.0.2:2,127.0.0.3:2", "-n", str(WORKERS), "-x", "TARRY_CREDENTIALS", "-x", "TARRY_HUB_HOST",
    ]  # fmt: skip
    known = {"TARRY_CREDENTIALS": str(keys), "TARRY_HUB_HOST": "127.0.0.1"}
    check_processes([[*mpirun, sys.executable, *SMALL]], [runs.environment(**known)])


def test_the_end_of_process_0_is_told(keys: pathlib.Path) -> None:
    """The hub is in it, and others do not wait for it."""
    known = {
        "SLURM_NTASKS": "2", "SLURM_NNODES": "2", "SLURM_STEP_NODELIST": "127.0.0.1,127.0.0.2", "SLURM_JOB_ID": "1",
        "TARRY_CREDENTIALS": str(keys), "TARRY_HUB_PORT": str(free_ports()),
    }  # fmt: skip
    command = [sys.executable, str(runs.SCRIPTS / "small.py"), "100000", "--seconds", "0.01", "--report", "1"]
    first, second = (
        subprocess.Popen(
            command, env=runs.environment(**known, SLURM_PROCID=str(number)), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    )  # fmt: skip
    try:
        runs.await_line(second, "step 1 3")
        first.kill()
        _, errors = second.communicate(timeout=runs.LIMIT_SECONDS)
    finally:
        first.kill()
        second.kill()
    assert second.returncode == 1
    assert "the hub is gone, and with it the training's coordinator" in errors


# ---- network namespaces ----


def _ignore(_number: int, _handler: object) -> None: ...


NETWORK = pathlib.Path(__file__).parents[3] / "tests" / "network"


def test_machines_with_networks_of_their_own(
    keys: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose cable is pulled comes back, and no step is lost to the others."""
    monkeypatch.setattr(sys, "path", [str(NETWORK), *sys.path])
    monkeypatch.setattr(signal, "signal", _ignore)  # the process is pytest's
    namespaces = pytest.importorskip("namespaces")
    with contextlib.ExitStack() as stack:
        try:
            nodes = stack.enter_context(namespaces.Namespaces(2))
        except (namespaces.Unavailable, OSError) as why:
            pytest.skip(f"no network namespaces here: {why}")
        has_come = tmp_path / "has-come"
        script = ("small", 120, "--check", "--seconds", 0.01, "--report", 1, "--slowly-until", has_come)
        made = stack.enter_context(Machines(keys, script))
        soon = ("--silence", 2)
        made.begin(":7070", "--advertise", nodes.address(0), *soon, around=tuple(nodes.command(0, [])))
        assert made.address == f"{nodes.address(0)}:7070"
        other = made.more(*soon, around=tuple(nodes.command(1, [])))
        runs.await_line(other, "step 2 2")
        nodes.down(1)
        assert made.first.stderr is not None
        for line in made.first.stderr:
            if "worker 3 is lost" in line or "worker 2 is lost" in line:
                break
        survivors = runs.lines_to(made.first, "step 0 6 ")
        nodes.up(1)
        has_come.touch()
        lines, errors = finish(other, made.first)
    same(lines, 120, workers=WORKERS)
    assert worst(lines) < 1e-6
    assert "have the last step" not in errors[1]  # each reached the others
    assert not any(line.endswith("True\n") for line in survivors)
