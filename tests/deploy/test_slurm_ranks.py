#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tarry train --engine mpi as a job step of a Slurm that was started for it: srun --mpi=pmix."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import slurm_cluster
from harness import TARRY, main
from machines import MachinesTest

RANKS = 4
JOB = ["--samples=1000", "--features=20"]


class SlurmRanks(MachinesTest):
    def setUp(self):
        super().setUp()
        missing = slurm_cluster.missing()
        self.assertIsNone(missing, f"there is no {missing}; tools/setup.sh check installs it")
        os.chmod(self.folder, 0o755)
        self.cluster = slurm_cluster.Cluster(self.machine("slurm"), nodes=1, cpus=RANKS)
        # What MPI leaks by itself is not looked for.
        self.cluster.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        self.cluster.__enter__()
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.home = self.machine("home")

    def srun(self, *words):
        return ["srun", "--mpi=pmix", f"--ntasks={RANKS}", TARRY, "train", *JOB, *words]

    def test_ranks_are_what_srun_starts(self):
        """Sums by shared memory, and over MPI; both engines lose alike."""
        losses = []
        for engine in ("mpi", "mpi-only"):
            report = pathlib.Path(self.home) / f"{engine}.json"
            self.cluster.run(*self.srun(f"--engine={engine}", "--rounds=6", f"--report={report}", "--reproducible"),
                             folder=self.home)
            rounds = json.loads(report.read_text())["rounds"]
            self.assertTrue(all(entry["exact"] for entry in rounds))
            losses.append([entry["loss"] for entry in rounds])
        for one, other in zip(*losses, strict=True):
            self.assertLess(abs(one - other), 1e-6 * one)

    def test_a_death_ends_the_step_and_the_job_goes_on_from_its_checkpoint(self):
        job = ["--engine=mpi", "--checkpoint=run.checkpoint", "--checkpoint-every=1", "--straggler=exp:0.1/chunk",
               "--silence=0.5"]
        with open(f"{self.home}/out", "w") as out:
            step = subprocess.Popen(self.srun(*job, "--rounds=400"), env=self.cluster.environment, cwd=self.home,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.addCleanup(step.kill)
        self.await_true(lambda: os.path.exists(f"{self.home}/run.checkpoint.previous"), "a second checkpoint")
        os.kill(self.ranks()[-1], signal.SIGKILL)
        self.assertNotEqual(step.wait(timeout=60), 0)
        with open(f"{self.home}/again", "w") as out:
            again = subprocess.Popen(self.srun(*job, "--rounds=400", "--resume"), env=self.cluster.environment,
                                     cwd=self.home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.addCleanup(again.kill)
        self.await_true(lambda: re.search(r"of which [1-9]\d* are done", self.read("home/again")), "the run's rest")
        again.terminate()
        again.wait(timeout=60)

    def ranks(self):
        """The ranks' process ids; the launcher's own are none of them."""
        found = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                with open(f"/proc/{number}/environ", "rb") as file:
                    environment = file.read().decode(errors="replace")
            except OSError:
                continue
            ours = f"SLURM_CONF={self.cluster.environment['SLURM_CONF']}" in environment
            if ours and words[0] == "tarry-mpi":
                rank = re.search(r"SLURM_PROCID=(\d+)", environment)
                found.append((int(rank[1]), int(number)))
        self.assertEqual(len(found), RANKS)
        return [number for _, number in sorted(found)]

    def await_true(self, is_so, what, seconds=60):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                self.fail(f"no {what} in {seconds} s\n{self.read('home/out')}\n{self.cluster.logs()}")
            time.sleep(0.1)


if __name__ == "__main__":
    main()
