#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tarry train --engine mpi as its users run it: under mpirun, with checkpoints, and told wrong things.

    test_train.py TARRY
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

TARRY = ""
RANKS = 4


def environment():
    own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, **own, "ASAN_OPTIONS": f"{options}:detect_leaks=0".lstrip(":")}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120, check=False)


def ranks(*words, count=RANKS, mpi=()):
    return run("mpirun.openmpi", "--oversubscribe", *mpi, "-n", str(count), TARRY, "train", *words)


class Train(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def report(self, *words, mpi=(), status=0):
        path = self.folder / "report.json"
        done = ranks("--quiet", "--report", path, *words, mpi=mpi)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
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

    def last_child(self, parent, lines):
        """The rank that the launcher started last; the first one is rank 0."""
        children = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == parent:
                children.append(int(path.parent.name))
        self.assertEqual(len(children), RANKS, "".join(lines))
        return max(children)

    def test_a_rank_that_dies_is_survived_or_ends_the_job(self):
        """Without --enable-recovery the launcher ends all; what was done can be gone on with."""
        file = self.folder / "checkpoint"
        common = ["--engine", "mpi-only", "--samples", "2000", "--silence", "0.5", "--checkpoint", file,
                  "--checkpoint-every", "1", "--straggler", "exp:0.15/chunk"]
        for recovers in (True, False):
            command = ["mpirun.openmpi", "--oversubscribe", *(["--enable-recovery"] if recovers else []), "--mca", "pml",
                       "ob1", "--mca", "btl", "vader,self", "-n", str(RANKS), TARRY, "train", *common,
                       *(["--rounds", "7"] if recovers else ["--resume", "--rounds", "40"])]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       env=environment())
            lines = []
            for line in process.stdout:
                lines.append(line)
                if re.match(r"round (2/7|8/40)", line):
                    break
            os.kill(self.last_child(process.pid, lines), signal.SIGKILL)
            rest, _ = process.communicate(timeout=100)
            text = "".join(lines) + rest
            if recovers:
                self.assertRegex(text, r"7 rounds in .* 7 exact", text)
            else:
                self.assertNotEqual(process.returncode, 0)
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
                            (["--adapt", "5"], "--adapt: has no meaning with --engine mpi")):
            done = ranks("--engine", "mpi", *words, count=2)
            self.assertEqual(done.stderr.count(what), 1, done.stderr)
            self.assertEqual(done.returncode, 2)

    def test_a_rank_without_the_data_ends_all(self):
        done = ranks("--engine", "mpi", "--data", self.folder / "none.csv", count=2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.csv", done.stderr)


if __name__ == "__main__":
    TARRY = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
