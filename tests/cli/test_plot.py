# SPDX-License-Identifier: Apache-2.0
"""examples/plot.py: what it draws of reports, and what it refuses."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from harness import TIMEOUT, TarryTest

SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "plot.py")
SMALL = ["--workers", "6", "--chunks", "6", "--replication", "3", "--quiet", "--report", "report.json"]


class Plot(TarryTest):
    def plot(self, picture, status=0):
        done = subprocess.run([sys.executable, SCRIPT, "report.json", picture], cwd=self.folder, capture_output=True, text=True,
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    @unittest.skipIf(shutil.which("gnuplot") is None, "no gnuplot")
    def test_trainings(self):
        self.succeed("train", "--samples", "100", "--rounds", "3", *SMALL, "--straggler", "dead:1+exp:0.001")
        self.plot("run.png")
        self.assertEqual(self.read("run.png", "rb")[:8], b"\x89PNG\r\n\x1a\n")
        self.plot("run.svg")
        for text in "Loss over time", "copies per chunk", "tarry train: logistic, 6 workers, replication 3, 1 part", "</svg>":
            self.assertIn(text, self.read("run.svg"))
        self.succeed("train", "--samples", "100", "--rounds", "3", *SMALL, "--holdout", "0")
        self.plot("run.svg")

    @unittest.skipIf(shutil.which("gnuplot") is None, "no gnuplot")
    def test_simulations(self):
        for arguments in ([], ["--deadline", "0.5:3:6", "--parts", "1,2"], ["--straggler", "exp:1+dead:5"], ["--trials", "1"]):
            self.succeed("simulate", "--scheme", "uncoded,partial", "--straggler", "exp:1", "--trials", "5", *SMALL, *arguments)
            self.plot("run.svg")
            self.assertIn("Completion time", self.read("run.svg"))
            self.assertEqual("Error of a sum" in self.read("run.svg"), "--deadline" in arguments)

    def test_what_it_refuses(self):
        self.write("report.json", json.dumps({"command": "plan"}))
        self.assertIn("report.json is no report of tarry train, serve or simulate", self.plot("run.svg", 2))
        self.assertIn("run.pdf must end in .svg or .png", self.plot("run.pdf", 2))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "run.svg")))
