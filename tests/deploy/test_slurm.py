#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/slurm.sh on a Slurm of three pretended nodes, started for it."""

import os
import signal
import stat
import time

import slurm_cluster
from harness import TARRY, main
from machines import DEPLOY, MachinesTest

ROUNDS = 300
WORKERS = 6
JOB = ["--chunks=12", "--pieces=1", "--replication=3", "--samples=400", "--features=5", f"--rounds={ROUNDS}"]


def processes():
    """The id, command and environment of each process whose environment may be read."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                command = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{number}/environ", "rb") as file:
                pairs = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        yield int(number), command, dict(pair.partition("=")[::2] for pair in pairs)


def step_daemon(process):
    """The id of the slurmstepd that a task is the child of; None if it is none's."""
    try:
        with open(f"/proc/{process}/stat") as file:
            found = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{found}/comm") as file:
            return found if file.read().strip() == "slurmstepd" else None
    except OSError:
        return None


class Slurm(MachinesTest):
    def setUp(self):
        super().setUp()
        missing = slurm_cluster.missing()
        self.assertIsNone(missing, f"there is no {missing}; tools/setup.sh check installs it")
        os.chmod(self.folder, 0o755)
        self.cluster = slurm_cluster.Cluster(self.machine("slurm"), nodes=3, cpus=2)
        self.cluster.__enter__()
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.home = self.machine("home")

    def submit(self):
        # What a job sees is the environment of its sbatch. Rounds take long enough to be disturbed.
        self.cluster.environment.update(
            TARRY=TARRY, TARRY_PORT=str(self.port), TARRY_WORK="--straggler=shifted-exp:0.02,0.02")
        script = str(DEPLOY / "slurm.sh")
        out = self.cluster.run("sbatch", "--parsable", f"--ntasks={WORKERS}", "--output=job.out", script, *JOB,
                               folder=self.home)
        self.job = out.strip()
        self.run_folder = f"home/tarry-{self.job}"
        self.log = f"{self.run_folder}/server.jsonl"

    def fail_with_logs(self, what):
        files = {name: self.read(f"home/{name}") for name in os.listdir(self.home) if name.endswith(".out")}
        self.fail(f"{what}\n{files}\n{self.cluster.logs()}")

    def await_job(self, is_so, what, seconds=60):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                self.fail_with_logs(f"no {what} in {seconds} s")
            time.sleep(0.1)

    def await_rounds(self, count):
        """So many more from here."""
        before = self.rounds(self.log)
        self.await_job(lambda: self.rounds(self.log) >= before + count, f"{count} more rounds")

    def ours(self, *command):
        """Processes of the job, by the words that their command line has."""
        found = [(number, environment) for number, words, environment in processes()
                 if environment.get("SLURM_CONF") == self.cluster.environment["SLURM_CONF"]
                 and environment.get("SLURM_JOB_ID") == self.job and all(word in words for word in command)]
        return dict(found)

    def arrivals(self, worker):
        return sum(event["event"] == "joined" and event["worker"] == worker for event in self.events(self.log))

    def kill_worker(self, worker):
        before = self.arrivals(worker)
        for number, environment in self.ours(TARRY, "work").items():
            if environment.get("SLURM_PROCID") == str(worker):
                os.kill(number, signal.SIGKILL)
        self.await_job(lambda: self.arrivals(worker) > before, f"worker {worker} again")

    def kill_server(self):
        (server,) = self.ours(TARRY, "serve")
        os.kill(server, signal.SIGKILL)

    def lose_node(self, node):
        """Everything that runs there, at once."""
        daemon = self.cluster.daemons.pop(f"slurmd-{node}")
        daemon.kill()
        daemon.wait()
        tasks = {number for number, environment in self.ours().items() if environment.get("SLURMD_NODENAME") == node}
        for number in ({step_daemon(task) for task in tasks} - {None}) | tasks:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_a_job_outlives_what_happens_to_it(self):
        self.succeed("train", f"--workers={WORKERS}", *JOB, "--report=alone.json", "--quiet")
        self.submit()
        self.await_rounds(10)
        self.kill_worker(1)
        self.await_rounds(10)
        self.kill_server()
        self.await_rounds(10)
        # As before the end of its time.
        self.cluster.run("scancel", "--batch", "--signal=USR1", self.job)
        self.await_job(lambda: self.cluster.fact(self.job, "JobState") != "RUNNING", "requeueing")
        self.await_job(lambda: self.cluster.fact(self.job, "JobState") == "RUNNING", "second start")
        self.await_rounds(10)
        self.lose_node("node2")
        self.await_job(lambda: self.cluster.fact(self.job, "JobState") == "COMPLETED", "end of the job", 120)
        self.assertEqual(self.cluster.fact(self.job, "Restarts"), "1")

        found = self.report(f"{self.run_folder}/report.json")
        expected = self.report("alone.json")
        self.assertEqual(len(found["rounds"]), ROUNDS)
        self.assertTrue(all(r["exact"] for r in found["rounds"]))
        self.assertAlmostEqual(found["final"]["loss"], expected["final"]["loss"], delta=1e-6)
        keys = os.path.join(self.folder, self.run_folder, "keys")
        self.assertNotIn("ca-key.pem", os.listdir(keys))
        self.assertEqual(stat.S_IMODE(os.stat(keys).st_mode), 0o700)


if __name__ == "__main__":
    main()
