#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tarry train --engine mpi as its users run it: under mpirun, with checkpoints, and told wrong things.

    test_train.py MPIRUN TARRY

MPIRUN is mpirun.openmpi or mpirun.mpich, that of the MPI which tarry-mpi was built with.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import uuid

import launcher

MPIRUN = launcher.Launcher("mpirun.openmpi")
TARRY = ""
RANKS = 4
VADER = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]


def run(*command, more=()):
    return subprocess.run(command, capture_output=True, text=True, env=launcher.environment(*more), timeout=120, check=False)


def ranks(*words, count=RANKS):
    return run(*MPIRUN.command(count, TARRY, "train", *words))


class Train(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def report(self, *words):
        path = self.folder / "report.json"
        done = ranks("--quiet", "--report", path, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(path.read_text())

    def test_the_losses_are_those_of_one_process(self):
        common = ["--samples", "2000", "--rounds", "8", "--optimizer", "adam", "--verify", "--reproducible"]
        alone = self.folder / "alone.json"
        done = run(TARRY, "train", "--quiet", "--workers", str(RANKS), "--report", alone, *common)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [entry["loss"] for entry in json.loads(alone.read_text())["rounds"]]
        for engine in ("mpi", "mpi-only"):
            report = self.report("--engine", engine, *common)
            self.assertEqual(report["config"]["sum"], "everywhere")
            self.assertEqual(report["config"]["workers"], RANKS)
            for one, other in zip(losses, report["rounds"], strict=True):
                self.assertTrue(other["exact"])
                self.assertLess(abs(one - other["loss"]), 1e-6 * abs(one))
                self.assertLess(other["verified_error"], 1e-5)

    def test_ranks_on_two_machines_find_rank_0(self):
        """What the launcher believes to run over there runs here: the ranks share no memory, and TARRY_HUB_HOST keeps them on
        loopback. A name that leads nowhere ends all, with one sentence."""
        if MPIRUN.is_mpich:
            apart = ["-launcher", "fork", "-hosts", "node1,node2", "-ppn", "2"]
        else:
            shell = self.folder / "shell"
            # Each machine has a folder of its own: two daemons in one may fail to make it.
            shell.write_text('#!/bin/sh\nexport TMPDIR="${0%/*}/$1"\nmkdir -p "$TMPDIR"\nshift\nexec sh -c "$*"\n')
            shell.chmod(0o755)
            apart = ["--mca", "plm_rsh_agent", shell, "--host", "127.0.0.2:2,127.0.0.3:2", "--mca", "pml", "ob1", "--mca", "btl",
                     "tcp,self", "-x", "TARRY_HUB_HOST"]
        words = ["--engine", "mpi", "--samples", "2000", "--rounds", "4"]
        command = MPIRUN.command(RANKS, TARRY, "train", *words, mpi=map(str, apart))
        done = run(*command, more=["TARRY_HUB_HOST=127.0.0.1"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 exact", done.stdout + done.stderr)
        done = run(*command, more=["TARRY_HUB_HOST=host.invalid"])
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("host.invalid"), 1, done.stderr)

    def test_credentials_are_gone_afterwards(self):
        """Each rank has a folder of its own for the time of the run, and rank 0 that of all."""
        own = self.folder / "own"
        own.mkdir()
        words = ["--engine", "mpi", "--samples", "2000", "--rounds", "2"]
        done = run(*MPIRUN.command(RANKS, TARRY, "train", *words), more=[f"TMPDIR={own}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in own.iterdir() if path.name.startswith("tarry-keys")], [])

    def test_sums_in_fewer_bytes(self):
        """Rounded both ways, by the seed: the vote holds all ranks to the same bits, and a run that goes on to those of one
        that did not stop."""
        common = ["--engine", "mpi-only", "--samples", "2000", "--features", "3000", "--reproducible", "--verify",
                  "--compress", "int8", "--compress-down", "int8", "--save"]
        report = self.report(*common, self.folder / "whole.npy", "--rounds", "5")
        self.assertEqual([report["config"][name] for name in ("compress", "compress-down")], ["int8", "int8"])
        for each in report["rounds"]:
            self.assertTrue(each["exact"])
            self.assertTrue(1e-3 < each["verified_error"] < 3e-2, each["verified_error"])
        file = self.folder / "checkpoint"
        self.report(*common, self.folder / "half.npy", "--rounds", "3", "--checkpoint", file)
        self.report(*common, self.folder / "again.npy", "--rounds", "5", "--checkpoint", file, "--resume")
        self.assertEqual((self.folder / "again.npy").read_bytes(), (self.folder / "whole.npy").read_bytes())

    def test_it_goes_on_from_a_checkpoint(self):
        """All ranks but 0 begin anew, and load the state of rank 0."""
        file = self.folder / "checkpoint"
        common = ["--engine", "mpi-only", "--samples", "2000", "--optimizer", "momentum", "--reproducible", "--save"]
        whole = self.folder / "whole.npy"
        self.report(*common, whole, "--rounds", "9")
        first = self.report(*common, self.folder / "half.npy", "--rounds", "4", "--checkpoint", file)
        self.assertEqual(len(first["rounds"]), 4)
        second = self.report(*common, self.folder / "again.npy", "--rounds", "9", "--checkpoint", file, "--resume")
        self.assertEqual(len(second["rounds"]), 9)
        self.assertEqual((self.folder / "again.npy").read_bytes(), whole.read_bytes())

    def run_with_a_death(self, *words, until, mpi=()):
        """The status and output of a run whose last rank is killed once a line has come."""
        mark = f"TARRY_TEST_RUN={uuid.uuid4()}"
        process = subprocess.Popen(MPIRUN.command(RANKS, TARRY, "train", *words, mpi=mpi), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=launcher.environment(mark))
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(until):
                break
        (last,) = launcher.having(mark, MPIRUN.rank(RANKS - 1))
        os.kill(last, signal.SIGKILL)
        rest, _ = process.communicate(timeout=100)
        self.assertTrue(launcher.are_gone(mark), "ranks are left")
        return process.returncode, "".join(lines) + rest

    def test_a_rank_that_dies_is_survived_or_ends_the_job(self):
        """Without --enable-recovery, and under MPICH, the launcher ends all; what was done can be gone on with."""
        file = self.folder / "checkpoint"
        common = ["--engine", "mpi-only", "--samples", "2000", "--silence", "4", "--checkpoint", file,
                  "--checkpoint-every", "1", "--straggler", "exp:0.15/chunk"]
        if not MPIRUN.is_mpich:
            _, text = self.run_with_a_death(*common, "--rounds", "7", until="round 2/7", mpi=["--enable-recovery", *VADER])
            self.assertRegex(text, r"7 rounds in .* 7 exact", text)
            common.append("--resume")
        status, text = self.run_with_a_death(*common, "--rounds", "40", until="round 8/40")
        self.assertNotEqual(status, 0, text)
        self.assertNotIn("40 rounds in", text)
        done = ranks(*common, "--resume", "--rounds", "12")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("round 7/12", done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"rounds in")

    def test_wrong_words_are_refused_once_and_by_name(self):
        for words, what in ((["--sum", "server"], "--sum: with --engine mpi the sum is made everywhere"),
                            (["--processes"], "--processes: cannot be combined with --engine mpi"),
                            (["--workers", "7"], "--workers: 7, but there are 2 ranks of MPI"),
                            (["--resume"], "--resume: needs --checkpoint"),
                            (["--adapt", "5"], "--adapt: has no meaning with --engine mpi"),
                            (["--compress", "topk:0.1"], "--compress: topk:0.1 cannot be combined with --sum everywhere")):
            done = ranks("--engine", "mpi", *words, count=2)
            self.assertEqual(done.stderr.count(what), 1, done.stderr)
            self.assertEqual(done.returncode, 2)

    def test_a_rank_without_the_data_ends_all(self):
        """All of them; and one alone, which names the file."""
        done = ranks("--engine", "mpi", "--data", self.folder / "none.svm", count=2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.svm", done.stderr)
        data = self.folder / "some.svm"
        data.write_text("".join(f"{i % 2} 1:{i} 2:{i * i % 7}\n" for i in range(200)))
        rank = "PMI_RANK" if MPIRUN.is_mpich else "OMPI_COMM_WORLD_RANK"
        words = f"--engine mpi --rounds 2 --data {data}$(test ${rank} != 1 || echo .none)"
        done = run(*MPIRUN.command(3, "sh", "-c", f"exec {TARRY} train {words}"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("train: rank 1: ", done.stderr)
        self.assertEqual(done.stderr.count("some.svm.none"), 1, done.stderr)
        self.assertIn("another rank cannot begin, and says why", done.stderr)


if __name__ == "__main__":
    MPIRUN = launcher.Launcher(sys.argv.pop(1))
    TARRY = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
