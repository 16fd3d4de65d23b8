# SPDX-License-Identifier: Apache-2.0
"""A Slurm of a few pretended nodes on this machine, by Debian's packages: slurmctld, slurmd and munge.

All daemons run in the foreground as children of this process, listen on ports of their own, keep everything in one
folder, and are ended by their process ids. Nothing of a Slurm that the machine may have is read or changed.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
CONFIGURATION = """
ClusterName=tarry
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=10
UnkillableStepTimeout=60
"""


def missing():
    """The first program that there isn't, or None."""
    return next((name for name in PROGRAMS if find(name) is None), None)


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    """`with Cluster(folder, nodes, cpus) as cluster`: node0, node1, ... with as many processors as are asked for."""

    def __init__(self, folder, nodes, cpus):
        self.folder = folder
        self.nodes = [f"node{i}" for i in range(nodes)]
        self.cpus = cpus
        self.daemons = {}
        self.environment = dict(os.environ, SLURM_CONF=f"{folder}/slurm.conf", LC_ALL="C")

    def __enter__(self):
        try:
            self._configure()
            self._start_all()
            self._wait_for_nodes()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def run(self, *command, folder=None, check=True):
        """A client's output; it runs in that folder."""
        done = subprocess.run(command, env=self.environment, cwd=folder or self.folder, timeout=60, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    def fact(self, job, name):
        """What scontrol says of a job: its JobState, Restarts, ..."""
        for word in self.run("scontrol", "show", "job", job).split():
            if word.startswith(name + "="):
                return word.partition("=")[2]
        raise RuntimeError(f"job {job} has no {name}")

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".out"):
                with open(f"{self.folder}/{name}", errors="replace") as file:
                    text += f"---- {name}\n" + "".join(file.readlines()[-20:])
        return text

    def _configure(self):
        host = socket.gethostname().split(".")[0]
        ports = free_ports(1 + len(self.nodes))
        values = {"folder": self.folder, "host": host, "user": getpass.getuser(), "port": ports[0]}
        lines = CONFIGURATION.format(**values)
        for name, port in zip(self.nodes, ports[1:]):
            lines += f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self.cpus}\n"
            os.mkdir(f"{self.folder}/spool-{name}")
        lines += f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES State=UP\n"
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(lines)
        os.mkdir(f"{self.folder}/state")
        os.mkdir(f"{self.folder}/munge")
        os.chmod(f"{self.folder}/munge", 0o711)
        with open(os.open(f"{self.folder}/munge/key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
            file.write(os.urandom(128))

    def _start_all(self):
        munge = f"{self.folder}/munge"
        self._start("munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket",
                    f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self._wait(lambda: os.path.exists(f"{munge}/socket"), 10, "munged's socket")
        self._start("slurmctld", "-D", "-i")
        for name in self.nodes:
            self._start("slurmd", "-D", "-N", name)

    def _start(self, program, *arguments):
        name = f"{program}-{arguments[-1]}" if program == "slurmd" else program
        with open(f"{self.folder}/{name}.out", "w") as log:
            self.daemons[name] = subprocess.Popen([find(program), *arguments], env=self.environment, cwd=self.folder,
                                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait_for_nodes(self):
        def idle():
            listed = self.run("scontrol", "show", "node", "--oneliner", check=False)
            return listed.count("State=IDLE ") == len(self.nodes)
        self._wait(idle, 40, "idle nodes")

    def _wait(self, is_so, seconds, what):
        end = time.monotonic() + seconds
        while not is_so():
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    raise RuntimeError(f"{name} ended with {daemon.returncode}\n{self.logs()}")
            if time.monotonic() > end:
                raise RuntimeError(f"no {what} after {seconds} s\n{self.logs()}")
            time.sleep(0.2)

    def _stop(self):
        # Clients of munged end before it.
        for daemon in reversed(self.daemons.values()):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
