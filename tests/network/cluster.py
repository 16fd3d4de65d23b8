# SPDX-License-Identifier: Apache-2.0
"""
A server and its workers as processes, their logs and reports, and waiting for what they say.

Nothing here waits without a bound, and no process outlives its test: each is killed when the test ends, and by the
kernel if the test itself is killed.
"""

import ctypes
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from harness import TARRY  # noqa: E402

SILENCE = 2.0  # seconds without a word after which the server's default is to go on without a worker
PATIENT = 20.0  # the same, longer than the machine holds a process up while it has much else to do
WAIT = 100  # seconds for anything that is to happen soon, on a machine that has much else to do
LONG = 600  # for a whole command
LONG_FORM = bool(os.environ.get("TARRY_TEST_LONG"))  # of tests that have a shorter one
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_the_test():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def seconds_of(time_text):
    return datetime.datetime.fromisoformat(time_text.replace("Z", "+00:00")).timestamp()


class Stalls(threading.Thread):
    """
    Finds out how long this machine lets a thread wait that wants to run for a moment: what it does to this one, it does
    to those of servers and workers.
    """

    STEP = 0.01

    def __init__(self):
        super().__init__(daemon=True)
        self._waits, self._end = [], threading.Event()  # (when it ran again, seconds that it waited)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self.join()

    def run(self):
        before = time.time()
        while not self._end.wait(self.STEP):
            now = time.time()
            self._waits.append((now, max(now - before - self.STEP, 0.0)))
            before = now

    def longest(self):
        return max((waited for _, waited in self._waits), default=0.0)

    def between(self, start, end):
        """Seconds in all."""
        return sum(max(min(when, end) - max(when - waited, start), 0.0) for when, waited in self._waits)


class Process:
    """One tarry process, whose output and log go to files in the test's folder."""

    def __init__(self, folder, name, arguments, around=lambda arguments: arguments):
        self.name, self._folder = name, folder
        self._log, self._err = os.path.join(folder, f"{name}.jsonl"), os.path.join(folder, f"{name}.err")
        self._lines, self._read, self._reading = [], 0, threading.Lock()
        with open(self._err, "ab") as err, open(os.path.join(folder, f"{name}.out"), "ab") as out:
            self._process = subprocess.Popen(
                around([*os.environ.get("TARRY_TEST_WRAPPER", "").split(), TARRY, *arguments, "--log", self._log]),
                cwd=folder,
                env=dict(os.environ, LC_ALL="C"),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=die_with_the_test,
            )

    def signal(self, number):
        if self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self):
        """Ends it at once, wherever it is; it may be gone already."""
        self.signal(signal.SIGKILL)
        self._process.wait(WAIT)

    def end(self, seconds=WAIT):
        """Asks it to end; gives back its status."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=WAIT):
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end within {seconds} s\n{self.told()}") from None

    @property
    def pid(self):
        return self._process.pid

    @property
    def running(self):
        return self._process.poll() is None

    def log(self, event=None, **fields):
        """The log's lines for that event with these fields."""
        return [line for line in self._logged() if (event is None or line["event"] == event) and
                all(line.get(name) == value for name, value in fields.items())]

    def _logged(self):
        """The whole lines so far, of which only those are read that are new."""
        with self._reading:
            if os.path.exists(self._log):
                with open(self._log, "rb") as file:
                    file.seek(self._read)
                    for line in file:
                        if line.endswith(b"\n"):
                            self._lines.append(json.loads(line))
                            self._read += len(line)
            return list(self._lines)

    def errors(self):
        with open(self._err) as file:
            return file.read()

    def told(self):
        """What it said, for a failure's message: of rounds only the last ones."""
        log = self.log()
        lines = [json.dumps(line) for line in log[:-40] if line["event"] not in ("round", "signal")][-200:]
        lines += [json.dumps(line) for line in log[-40:]]
        return "\n".join([f"--- {self.name}", self.errors()[-2000:], *lines])

    def await_log(self, event, seconds=WAIT, **fields):
        """The first such line of its log, which may have been written already."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.log(event, **fields):
                return found[0]
            if not self.running:
                break
            time.sleep(0.02)
        if found := self.log(event, **fields):
            return found[0]
        raise AssertionError(f"{self.name} has not logged {event} {fields} within {seconds} s\n{self.told()}")


class Cluster:
    """
    A server with some workers. `keys` is the folder of a cluster's credentials; without one every member gets --insecure.
    """

    def __init__(self, folder, job, silence, keys=None, around=None):
        self.folder, self._job, self._keys = folder, ["--silence", str(silence), *job], keys
        self._around = around or {}
        self.workers = {}
        self.everyone = []
        self.server = None

    def close(self):
        for process in self.everyone:
            process.signal(signal.SIGCONT)
            process.kill()

    def credentials(self, member):
        return ["--insecure"] if self._keys is None else ["--credentials", os.path.join(self._keys, member)]

    def serve(self, *options, listen="127.0.0.1:0"):
        """Starts the server, again too; gives back where it listens, as (host, port)."""
        told = 0 if self.server is None else len(self.server.errors())
        self.server = self._start("server", ["serve", "--listen", listen, *self.credentials("server"),
                                             "--report", "report.json", *self._job, *options], "server")
        end = time.monotonic() + WAIT
        while time.monotonic() < end and self.server.running:
            if found := re.search(r"listening on (.*):(\d+)\n", self.server.errors()[told:]):
                return found[1], int(found[2])
            time.sleep(0.01)
        raise AssertionError(f"the server does not listen\n{self.server.told()}")

    def work(self, worker, address, *options, name=None, member=None, share=False):
        """
        Starts a worker with that id, again too; sums go over connections, on which the faults are, unless it may share
        memory with other workers.
        """
        name = name or f"worker-{worker}"
        identity = ["--worker", str(worker)] if self._keys is None else []
        way = [] if share else ["--no-share"]
        self.workers[name] = self._start(
            name, ["work", "--connect", f"{address[0]}:{address[1]}", *self.credentials(member or f"worker-{worker}"),
                   *way, *identity, *options], f"worker-{worker}")
        return self.workers[name]

    def finish(self, seconds):
        """Waits for the run's end; gives back the server's report."""
        status = self.server.wait(seconds)
        if status != 0:
            raise AssertionError(f"the server's status is {status}\n{self.told()}")
        return self.report()

    def await_everyone(self):
        """Until a round that began after this call has ended, with all workers there."""
        begun = len(self.server.log("round"))
        end = time.monotonic() + WAIT
        while not any(line["workers_lost"] == 0 for line in self.server.log("round")[begun + 1 :] if line["exact"]):
            if time.monotonic() > end or not self.server.running:
                raise AssertionError(f"not all workers are there within {WAIT} s\n{self.told()}")
            time.sleep(0.02)

    def stop(self, rounds):
        """Interrupts the run after so many more rounds; gives back the server's report."""
        self.server.await_log("round", round=self.server.log("round")[-1]["round"] + rounds)
        status = self.server.end()
        if status != 1:
            raise AssertionError(f"the server's status is {status}\n{self.told()}")
        return self.report()

    def report(self):
        with open(os.path.join(self.folder, "report.json")) as file:
            return json.load(file)

    def told(self):
        return "\n".join(process.told() for process in {p.name: p for p in self.everyone}.values())

    def round_seconds(self):
        """Of each round so far."""
        return [line["took_ms"] / 1000 for line in self.server.log("round")]

    def _start(self, name, arguments, place):
        process = Process(self.folder, name, arguments, self._around.get(place, lambda arguments: arguments))
        self.everyone.append(process)
        return process


class NetworkTest(unittest.TestCase):
    """Tests with clusters, each in a folder of its own; their servers lose nobody whom the machine merely holds up."""

    silence = PATIENT

    def folder(self):
        folder = tempfile.mkdtemp(prefix="tarry-network-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def cluster(self, job, **settings):
        cluster = Cluster(settings.pop("folder", None) or self.folder(), job, self.silence, **settings)
        self.addCleanup(cluster.close)
        return cluster

    def tarry(self, *arguments, folder):
        done = subprocess.run([TARRY, *arguments], cwd=folder, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def keys(self, workers):
        """The folder of a cluster's credentials."""
        folder = os.path.join(self.folder(), "cluster")
        self.tarry("keys", "init", "--workers", str(workers), folder, folder=os.path.dirname(folder))
        return folder

    def trained(self, job):
        """The report of the same job over the local runtime."""
        folder = self.folder()
        self.tarry("train", *job, "--report", "report.json", "--quiet", folder=folder)
        with open(os.path.join(folder, "report.json")) as file:
            return json.load(file)

    def assert_same_losses(self, report, expected, places=1e-6):
        losses = [round["loss"] for round in report["rounds"]]
        wanted = [round["loss"] for round in expected["rounds"]]
        self.assertEqual(len(losses), len(wanted))
        for index, (loss, other) in enumerate(zip(losses, wanted)):
            self.assertLess(abs(loss - other), places, f"round {index}")

    def assert_exact_or_said(self, report):
        """Every round that ended is exact, as --verify finds, or says that it is not."""
        for round in report["rounds"]:
            if round["exact"]:
                self.assertLess(round["verified_error"], 1e-4, round)
            else:
                self.assertGreater(round["expected_error"], 0, round)


def median(values):
    return statistics.median(values) if values else float("nan")
