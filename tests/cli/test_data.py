# SPDX-License-Identifier: Apache-2.0
"""Data files that are missing or broken: exit status 1, one line with file and line, no output."""

import gzip
import os
import pathlib
import re
import struct
import subprocess

from harness import TarryTest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def idx_images(count, present=None):
    """An IDX file of `count` images of 2 x 2, with the bytes of `present` of them."""
    present = count if present is None else present
    return struct.pack(">IIII", 0x803, count, 2, 2) + bytes(range(4)) * present


def idx_labels(labels):
    return struct.pack(">II", 0x801, len(labels)) + bytes(labels)


class BrokenData(TarryTest):
    def check(self, name, pattern, *more):
        before = self.files()
        self.fail_like(1, "tarry: " + pattern, "train", "--data", name, "--report", "report.json",
                       "--save", "parameters.npy", *more)
        self.assertEqual(self.files(), before)

    def check_text(self, content, line, name="data.txt", *more):
        self.write(name, content)
        self.check(name, rf"{name}:{line}: .*", *more)

    def test_missing_or_empty(self):
        self.check("no.txt", r"no.txt: No such file or directory")
        self.write("empty.txt", "")
        self.check("empty.txt", "empty.txt: no samples")
        os.mkdir(os.path.join(self.folder, "folder"))
        self.check("folder", r"folder: Is a directory")

    def test_an_index_that_makes_the_model_larger_than_any_machine(self):
        self.write("data.txt", "".join(f"{label} 2147483647:1\n" for label in range(1000)))
        self.check("data.txt", r"train: 2,147,483,647,000 parameters for 8 workers take at least \d+.*, "
                   r"and .* are (free on this machine|left .*)", "--model", "softmax", "--quiet")

    def test_what_workers_hold_counts(self):
        """Where everyone gets the sum each has that, parameters, gradient, and two vectors of the optimizer's."""
        self.write("data.txt", "".join(f"{label} 2147483647:1\n" for label in range(1000)))
        options = ["--data", "data.txt", "--model", "softmax", "--optimizer", "adam", "--workers", "8", "--quiet"]
        needed = [float(re.search(r"take at least ([\d.]+) TB", self.run_tarry("train", *options, *more).err)[1])
                  for more in ([], ["--sum", "everywhere"], ["--sum", "everywhere", "--processes"])]
        self.assertAlmostEqual(needed[1] - needed[0], 8 * 5 * 4 * 2147483647e3 / 1e12, delta=8)
        self.assertEqual(needed[1], needed[2])

    def test_libsvm(self):
        good = "+1 1:0.5 3:1\n-1 2:1\n"
        self.check_text(good + "maybe 1:1\n", 3)
        self.check_text(good + "7 1:1\n", 3)
        self.check_text(good + "+1 0:1\n", 3)
        self.check_text(good + "+1 2:1 1:1\n", 3)
        self.check_text(good + "+1 x:1\n", 3)
        self.check_text(good + "+1 1:nan\n", 3)
        self.check_text(good + "+1 1:inf\n", 3)
        self.check_text(good + "+1 1\n", 3)
        self.check_text(good + "+1 1:\n", 3)
        self.check_text(good + "+1 99999999999:1\n", 3)

    def test_csv(self):
        self.write("data.csv", "1,2,1\n3,4,0\n")
        self.check("data.csv", r"data.csv:1: label '1,2,1' is not a number; docs/data-formats.md has a line that makes "
                   "LIBSVM of CSV")

    def test_idx(self):
        softmax = ("--model", "softmax")
        self.write("train-images-idx3-ubyte", idx_images(10, present=9))
        self.write("train-labels-idx1-ubyte", idx_labels([0, 1] * 5))
        self.check("train-images-idx3-ubyte", r"train-images-idx3-ubyte: .*", *softmax)
        self.write("train-images-idx3-ubyte", idx_images(10))
        self.write("train-labels-idx1-ubyte", idx_labels([0, 1] * 4))
        self.check("train-images-idx3-ubyte", r"train-(images-idx3|labels-idx1)-ubyte: .*",
                   *softmax)
        os.remove(os.path.join(self.folder, "train-labels-idx1-ubyte"))
        self.check("train-images-idx3-ubyte",
                   r"train-labels-idx1-ubyte: No such file or directory", *softmax)

    def test_truncated_gzip(self):
        whole = gzip.compress(b"+1 1:0.5\n-1 2:1\n" * 2000)
        self.write("data.gz", whole[: len(whole) // 2])
        self.check("data.gz", r"data.gz.*")

    def test_test_data(self):
        self.write("data.txt", "+1 1:0.5\n-1 2:1\n" * 10)
        self.write("test.txt", "+1 1:0.5\nx 2:1\n")
        self.check("data.txt", r"test.txt:2: .*", "--test", "test.txt")


class GoodData(TarryTest):
    def test_csv_made_into_libsvm_by_the_line_of_the_docs(self):
        line = re.search(r"^awk .*$", (ROOT / "docs" / "data-formats.md").read_text(), re.MULTILINE)[0]
        self.write("data.csv", "0.5,0,1\n0,1e-3,0\n" * 10)
        subprocess.run(line, shell=True, cwd=self.folder, check=True)
        self.assertEqual(self.read("data.svm"), "1 1:0.5 2:0\n0 1:0 2:1e-3\n" * 10)
        self.succeed("train", "--data", "data.svm", "--rounds", "3", "--holdout", "0.2")

    def test_indices_from_0(self):
        self.write("zero.txt", "+1 0:0.5 3:1\n-1 1:1\n" * 10)
        self.write("one.txt", "+1 1:0.5 4:1\n-1 2:1\n" * 10)
        form = ["--rounds", "3", "--quiet", "--workers", "2", "--chunks", "2", "--processes", "--reproducible"]
        self.succeed("train", "--data", "zero.txt", "--zero-based", "--save", "zero.npy", *form)
        self.succeed("train", "--data", "one.txt", "--save", "one.npy", *form)
        self.assertEqual(self.read("zero.npy", "rb"), self.read("one.npy", "rb"))

    def test_small_files_of_each_format(self):
        self.write("data.txt", "+1 1:0.5\n-1 2:1\n" * 10)
        self.write("digits-images-idx3-ubyte", idx_images(20))
        self.write("digits-labels-idx1-ubyte", idx_labels([0, 1, 2, 1] * 5))
        self.succeed("train", "--data", "data.txt", "--rounds", "3", "--test", "data.txt")
        self.succeed("train", "--data", "data.txt", "--rounds", "3", "--holdout", "0.2")
        self.succeed("train", "--data", "data.txt", "--rounds", "3", "--model", "least-squares",
                     "--rate", "0.1")
        self.succeed("train", "--data", "digits-images-idx3-ubyte", "--rounds", "3", "--model",
                     "softmax", "--rate", "0.1")
        self.succeed("train", "--data", "digits-images-idx3-ubyte", "--rounds", "3", "--model",
                     "mlp", "--hidden", "4,3", "--batch", "16")
