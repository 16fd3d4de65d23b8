# SPDX-License-Identifier: Apache-2.0
"""tarry serve, tarry work and tarry train --processes: real processes, one machine."""

import datetime
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time

from harness import TARRY, TIMEOUT, TarryTest
from screen import Terminal

SMALL = ["--workers", "4", "--chunks", "8", "--pieces", "1", "--replication", "2", "--samples", "600", "--features", "6",
         "--reproducible"]
UNIX = "unix:socket"


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Network(TarryTest):
    def setUp(self):
        super().setUp()
        self.running = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def begin(self, *arguments):
        process = self.start(*arguments)
        self.running.append(process)
        return process

    def end(self, process):
        """What a process that ends by itself says."""
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, out, err

    def serve(self, *arguments, listen=UNIX):
        """Which waits for whoever the machine holds up."""
        return self.begin("serve", "--listen", listen, "--silence", "20", *arguments)

    def work(self, worker, *arguments, connect=UNIX):
        return self.begin("work", "--connect", connect, "--worker", str(worker), *arguments)

    def wait_for(self, what, condition):
        """Until it holds; gives back what it says then."""
        end = time.monotonic() + TIMEOUT
        while not (said := condition()):
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)
        return said

    def events(self, name="log"):
        if name not in self.files():
            return []
        return [json.loads(line) for line in self.read(name).splitlines(True) if line.endswith("\n")]

    def wait_for_event(self, event, name="log", count=1, **fields):
        def there():
            found = [e for e in self.events(name) if e["event"] == event and fields.items() <= e.items()]
            return len(found) >= count
        self.wait_for((event, fields), there)

    def report(self, name="report.json"):
        return json.loads(self.read(name))

    def expected(self, *arguments):
        self.succeed("train", *arguments, "--report", "expected.json", "--save", "expected.npy", "--quiet")
        return self.report("expected.json"), self.read("expected.npy", "rb")

    def assert_done(self, *processes):
        for process in processes:
            status, _, err = self.end(process)
            self.assertEqual(status, 0, err)

    def losses(self, report):
        return [round["loss"] for round in report["rounds"]]


class Serve(Network):
    def test_the_same_as_threads(self):
        options = [*SMALL, "--rounds", "15", "--model", "softmax", "--batch", "100"]
        expected, parameters = self.expected(*options)
        server = self.serve(*options, "--report", "report.json", "--save", "w.npy", "--log", "log")
        workers = [self.work(i, "--log", f"log-{i}") for i in range(4)]
        self.assert_done(server, *workers)
        found = self.report()
        self.assertEqual(self.losses(found), self.losses(expected))
        self.assertEqual(self.read("w.npy", "rb"), parameters)
        self.assertEqual(found["command"], "serve")
        network = found["network"]
        self.assertEqual(network["events"]["joined"], 4)
        self.assertEqual(network["rounds_without_estimate"], 0)
        for worker in network["workers"]:
            self.assertEqual((worker["arrivals"], worker["gone"], worker["late"]), (1, 0, 0))
            self.assertGreater(worker["received_bytes"], 1000)
        self.assertNotIn("socket", self.files())
        log = self.events()
        self.assertEqual([e["event"] for e in log][0], "listening")
        self.assertEqual(log[-1]["event"], "end")
        self.assertEqual([e["round"] for e in log if e["event"] == "round"], list(range(15)))
        for entry in log + self.events("log-0"):
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        own = self.events("log-2")
        self.assertEqual(own[-1]["event"], "end")
        self.assertEqual(own[-1]["chunks"], found["workers"][2]["chunks"])

    def test_parts_in_another_form(self):
        """As by threads, to the bit, with about a quarter of the bytes from each worker."""
        received = {}
        for form in ("none", "int8", "bf16", "int4", "sign", "topk:0.01"):
            options = ["--workers", "3", "--chunks", "3", "--replication", "2", "--samples", "100", "--features", "20000",
                       "--rounds", "5", "--reproducible", "--compress", form]
            _, parameters = self.expected(*options)
            server = self.serve(*options, "--report", "report.json", "--save", "w.npy")
            workers = [self.work(i) for i in range(3)]
            self.assert_done(server, *workers)
            self.assertEqual(self.read("w.npy", "rb"), parameters)
            received[form] = sum(worker["received_bytes"] for worker in self.report()["network"]["workers"])
            self.succeed("train", *options, "--processes", "--save", "w.npy", "--quiet")
            self.assertEqual(self.read("w.npy", "rb"), parameters)
        self.assertGreater(received["bf16"] / received["int8"], 1.9)
        self.assertGreater(received["int8"] / received["int4"], 1.9)
        self.assertGreater(received["int4"] / received["sign"], 3)
        self.assertGreater(received["sign"] / received["topk:0.01"], 1.5)

    def test_thin_products(self):
        """As by threads, to the bit, whether or not parameters come as a view; a worker that comes back has the factor."""
        for down in ("none", "int8"):
            options = ["--workers", "3", "--chunks", "3", "--replication", "2", "--samples", "100", "--features", "200",
                       "--model", "mlp", "--hidden", "32", "--rounds", "6", "--reproducible", "--compress", "powersgd:3",
                       "--compress-down", down]
            _, parameters = self.expected(*options)
            server = self.serve(*options, "--report", "report.json", "--save", "w.npy")
            workers = [self.work(i) for i in range(3)]
            self.assert_done(server, *workers)
            self.assertEqual(self.read("w.npy", "rb"), parameters)

    def test_the_rate_is_that_of_rounds(self):
        """Neither the time until the first worker came nor that without any counts."""
        server = self.serve("--workers", "1", "--replication", "1", "--samples", "100", "--features", "4",
                            "--rounds", "40", "--log", "log")
        slow = ["--straggler", "shifted-exp:0.005,0"]
        self.wait_for_event("listening")
        time.sleep(3)
        first = self.work(0, *slow)
        self.wait_for_event("round", count=12)
        first.kill()
        self.wait_for_event("left_out", reason="gone")
        time.sleep(3)
        second = self.work(0, *slow)
        status, _, err = self.end(server)
        self.assertEqual(status, 0, err)
        self.assert_done(second)
        rates = {int(done): float(rate) for done, rate in re.findall(r"^round (\d+)/40  (\S+)/s ", err, re.MULTILINE)}
        self.assertEqual(len(rates), 10)
        times = [self.seconds_of(e) for e in self.events() if e["event"] == "round" and e["exact"]]
        joined = [self.seconds_of(e) for e in self.events() if e["event"] == "joined"]
        begin = self.seconds_of(self.events()[0])
        for came in joined:  # the first rate that is told then, beside one that would count all
            done = next(done for done in rates if times[done - 1] > came)
            self.assertGreater(rates[done], 1.2 * done / (times[done - 1] - begin), err)

    def seconds_of(self, event):
        return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()

    def top(self):
        return self.succeed("top", "--connect", UNIX, "--once").splitlines()

    def top_of_a_server_that_waits(self):
        lines = self.top()
        return lines if lines[1].startswith("waiting for workers  after round ") else None

    def test_what_top_shows(self):
        server = self.serve("--workers", "2", "--chunks", "4", "--pieces", "1", "--replication", "1", "--samples", "100",
                            "--features", "4", "--rounds", "4000", "--log", "log")
        self.wait_for_event("listening")
        lines = self.top()
        self.assertEqual(lines[1:4], ["waiting for workers  before round 1 of 4,000  0.0 %",
                                      "exact rounds 0", "2 workers: 2 absent"])
        workers = [self.work(i, "--straggler", "shifted-exp:0.005,0") for i in range(2)]
        self.wait_for_event("round", count=30)
        lines = self.top()
        self.assertRegex(lines[1], r"^(after )?round \d+ of 4,000  ")
        for line in lines[-2:]:
            self.assertRegex(line, r"/2 +[0-9.]+ m?s ")
        workers[1].kill()
        self.wait_for_event("left_out", worker=1)
        # One picture: it tries again when somebody comes or goes, and is not waiting while it does.
        lines = self.wait_for("the server waits", self.top_of_a_server_that_waits)
        done = len([e for e in self.events() if e["event"] == "round" and e.get("exact")])
        self.assertRegex(lines[1], rf"  after round {done} of 4,000  \d+\.\d %$")
        self.assertIn("exact rounds %d" % done, lines[2])
        server.send_signal(signal.SIGINT)
        self.assertEqual(self.end(server)[0], 1)
        self.assertRegex(self.end(workers[0])[2], r"(^|\n)worker 0: the run is over; \d+ chunks\n$")

    def test_the_last_picture_is_of_the_end(self):
        server = self.serve("--workers", "1", "--replication", "1", "--samples", "100", "--features", "4",
                            "--rounds", "40", "--log", "log")
        self.wait_for_event("listening")
        terminal = Terminal([TARRY, "top", "--connect", f"unix:{self.folder}/socket"], columns=100)
        self.addCleanup(terminal.close)
        terminal.wait_for_text("before round 1 of 40")
        worker = self.work(0, "--straggler", "shifted-exp:0.002,0")
        self.assertEqual(terminal.end(), 0)
        self.assert_done(server, worker)
        lines = terminal.screen.text()
        self.assertRegex(lines[1], r"^after round 40 of 40  100\.0 %  \S+ rounds/s$")
        self.assertEqual(lines[4], "1 worker: 1 resting")

    def test_kinds_of_processors(self):
        """The report tells workers apart whose products of matrices are those of other processors."""
        kinds = ["Haswell", "Prescott"]
        server = self.serve("--workers", "4", "--chunks", "8", "--replication", "3", "--samples", "600", "--rounds", "5",
                            "--verify", "--report", "report.json", "--parts", "2")
        for worker in range(4):
            os.environ["OPENBLAS_CORETYPE"] = kinds[worker % 2]
            try:
                self.work(worker)
            finally:
                del os.environ["OPENBLAS_CORETYPE"]
        status, _, err = self.end(server)
        self.assertEqual(status, 0, err)
        report = self.report()
        found = [worker["numerics"] for worker in report["network"]["workers"]]
        if len(set(found)) == 1:
            self.skipTest("OpenBLAS has no such kinds here")
        self.assertEqual(found, found[:2] * 2)
        for round in report["rounds"]:
            self.assertLess(round["verified_squared_error"] ** 0.5, 1e-4)

    def run_in_racks(self, *options):
        """Six workers, two to a rack; gives back how the server ended and its report."""
        server = self.serve("--workers", "6", "--chunks", "12", "--replication", "2", "--samples", "600", "--features", "6",
                            "--order", "dynamic", "--rounds", "3", "--report", "report.json", "--log", "log", *options)
        for worker in range(6):
            self.work(worker, "--rack", f"rack-{worker // 2}")
        status, _, err = self.end(server)
        self.assertEqual(status, 0, err)
        return err, json.loads(self.read("report.json"))

    def test_workers_say_their_racks(self):
        line = "by what the workers say of their racks, "
        err, report = self.run_in_racks()
        self.assertEqual(err.count(line), 1)
        self.assertEqual([worker["rack"] for worker in report["network"]["workers"]],
                         ["rack-0", "rack-0", "rack-1", "rack-1", "rack-2", "rack-2"])
        joined = {event["worker"]: event["rack"] for event in self.events() if event["event"] == "joined"}
        self.assertEqual(joined, {worker: f"rack-{worker // 2}" for worker in range(6)})
        self.assertEqual([row["moved"] for row in report["rounds"]], [0, 0, 0])

    def test_the_plan_follows_the_racks_that_workers_say(self):
        err, report = self.run_in_racks("--adapt", "100")
        self.assertNotIn("racks", err)
        self.assertGreater(report["rounds"][0]["moved"], 0)
        self.assertTrue(all(row["exact"] for row in report["rounds"]))
        err, report = self.run_in_racks("--adapt", "100", "--racks", "2")  # the plan knew it
        self.assertNotIn("racks", err)
        self.assertEqual(report["rounds"][0]["moved"], 0)

    def test_a_worker_says_why_it_waits(self):
        terminal = Terminal([TARRY, "work", "--connect", f"unix:{self.folder}/socket", "--worker", "0"], columns=60)
        self.addCleanup(terminal.close)
        terminal.wait_for_text("can't connect: No such")
        self.assertLess(max(map(len, terminal.screen.text())), 60)
        terminal.process.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(terminal.screen.text()[0], "left; no server had given an id")
        other = self.work(0)
        first = other.stderr.readline()
        time.sleep(1)  # in which it tries again, and says no more
        other.terminate()
        status, _, err = self.end(other)
        self.assertEqual(status, 0)
        self.assertEqual(first + err, f"{UNIX}: can't connect: No such file or directory; tries again in X\nleaving\n"
                              "left; no server had given an id\n".replace("X", re.search("again in (.*)", first)[1]))

    def test_files_over_tls(self):
        rows = [f"{1 if i % 3 else -1} 1:{i % 7} 2:{i % 5}\n" for i in range(80)]
        self.write("a.txt", "".join(rows))
        self.write("test.txt", "1 3:2\n-1 1:1\n")
        self.write("b.txt", "".join(rows[:-1] + ["1 1:2.5\n"]))
        self.write("c.txt", "".join(rows[:-1]))
        self.succeed("keys", "init", "keys", "--workers", "4")
        options = ["--workers", "4", "--chunks", "8", "--replication", "2", "--reproducible", "--data", "a.txt",
                   "--rounds", "10", "--test", "test.txt"]
        expected, parameters = self.expected(*options)
        address = f"127.0.0.1:{free_port()}"
        server = self.serve(*options, "--credentials", "keys/server", "--save", "w.npy", "--log", "log", listen=address)
        keys = [["--credentials", f"keys/worker-{i}"] for i in range(4)]
        self.wait_for_event("listening")
        other = self.begin("work", "--connect", address, *keys[0], "--data", "b.txt", "--quiet")
        status, _, err = self.end(other)
        self.assertEqual(status, 1)
        self.assertRegex(err, r"^tarry: work: refused: b\.txt: other samples than the server's\n$")
        other = self.begin("work", "--connect", address, *keys[0], "--data", "c.txt", "--quiet")
        self.assertRegex(self.end(other)[2], r"^tarry: work: refused: c\.txt: 79 samples of 3 features, where the server has 80 of 3\n$")
        other = self.begin("work", "--connect", address, *keys[0], "--quiet")
        self.assertRegex(self.end(other)[2], r"^tarry: work: needs --data: ")
        other = self.begin("work", "--connect", address, *keys[0], "--data", "no.txt", "--quiet")
        self.assertRegex(self.end(other)[2], r"^tarry: work: no\.txt: ")
        workers = [self.begin("work", "--connect", address, *keys[i], "--data", "a.txt") for i in range(4)]
        self.assert_done(server, *workers)
        self.assertEqual(self.read("w.npy", "rb"), parameters)
        refused = [e["text"] for e in self.events() if e["event"] == "refused"]
        self.assertEqual(len([text for text in refused if "data" in text]), 2, refused)

    def test_shipped_data(self):
        rows = [f"{1 if i % 3 else -1} 1:{i % 7} 2:{i % 5}\n" for i in range(80)]
        self.write("a.txt", "".join(rows))
        for options in (["--batch", "32"], ["--order", "dynamic", "--adapt", "1,0.2", "--design", "fractional"]):
            exact = "--adapt" not in options
            options = ["--workers", "4", "--chunks", "8", "--replication", "2", "--data", "a.txt", "--holdout", "0.25",
                       "--rounds", "12", *options, *(["--reproducible"] if exact else ["--verify"])]
            server = self.serve(*options, "--ship-data", "--save", "w.npy", "--report", "report.json")
            workers = [self.work(i, "--straggler", "slow:1,3+shifted-exp:0.002,0") for i in range(4)]
            self.assert_done(server, *workers)
            expected, parameters = self.expected(*options)
            if exact:
                self.assertEqual(self.read("w.npy", "rb"), parameters)
            else:
                self.assertLess(self.report()["final"]["verified_error"], 1e-4)
                self.assertAlmostEqual(self.report()["final"]["loss"], expected["final"]["loss"], places=6)

    def test_begins_with_those_that_are_there_and_waits_for_those_it_needs(self):
        options = [*SMALL[:-1], "--rounds", "8"]
        server = self.serve(*options, "--wait", "0.2", "--report", "report.json", "--log", "log")
        first = [self.work(0)]
        self.wait_for_event("begin", workers=4)  # with the first one, unless the machine is busy
        self.wait_for("a round without an estimate", lambda: any("error" in e for e in self.events()))
        more = [self.work(i, "--patience", "3") for i in (1, 2, 3)]
        self.assert_done(server, *first)
        for worker in more:  # one that is needed no more may find nobody there
            status, _, err = self.end(worker)
            self.assertTrue(status == 0 or "no connection for 3" in err, err)
        report = self.report()
        self.assertEqual(len(report["rounds"]), 8)
        self.assertGreater(report["network"]["rounds_without_estimate"], 0)

    def test_a_worker_that_is_back_before_the_server_looks(self):
        """The server is held up by what it says of the lost worker; another one never comes."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        server = subprocess.Popen([TARRY, "serve", "--listen", UNIX, "--workers", "4", "--chunks", "4", "--replication",
                                   "2", "--design", "cyclic", "--samples", "100", "--rounds", "1000000", "--wait", "0.5",
                                   "--log", "log"],
                                  cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=write)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        slow = ["--straggler", "shifted-exp:0.02,0", "--quiet"]
        workers = [self.work(i, *slow) for i in range(3)]
        self.wait_for_event("round", exact=True)
        with open(f"/proc/self/fd/{write}", "wb", buffering=0,
                  opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as full:
            while full.write(b" ") is not None:
                pass
        os.close(write)
        workers[2].kill()
        self.wait_for("a round without an estimate", lambda: any("error" in e for e in self.events()))
        self.work(2, *slow)
        self.wait_for_event("joined", worker=2, count=2)
        done = len([e for e in self.events() if e["event"] == "round"])
        os.read(read, 1 << 20)
        self.wait_for_event("round", count=done + 5)

    def test_patience_ends(self):
        for patience in ("0", "0.3"):
            server = self.serve(*SMALL, "--wait", "0", "--patience", patience, "--quiet")
            status, _, err = self.end(server)
            self.assertEqual(status, 1)
            self.assertRegex(err, r"^tarry: serve: round \d+: .*\n$")
        server = self.serve(*SMALL, "--wait", "0", "--patience", "0")
        self.assertIn("\nno worker is there yet\n", self.end(server)[2])

    def test_a_worker_that_leaves_and_one_that_is_killed(self):
        server = self.serve(*SMALL, "--rounds", "1000000", "--log", "log", "--report", "report.json")
        slow = ["--straggler", "shifted-exp:0.02,0"]
        workers = [self.work(i, *slow) for i in range(4)]
        self.wait_for_event("round", round=3)
        workers[1].send_signal(signal.SIGTERM)
        self.assert_done(workers[1])
        self.wait_for_event("left", worker=1)
        workers[1] = self.work(1, *slow)
        self.wait_for_event("joined", worker=1, count=2)
        workers[2].kill()
        self.wait_for_event("left_out", worker=2, reason="gone")
        workers[2] = self.work(2, *slow)
        self.wait_for_event("joined", worker=2, count=2)
        done = len([e for e in self.events() if e["event"] == "round"])
        self.wait_for_event("round", count=done + 5)
        server.send_signal(signal.SIGINT)
        self.assertEqual(self.end(server)[0], 1)
        self.assert_done(*workers)
        report = self.report()
        expected, _ = self.expected(*SMALL, "--rounds", str(len(report["rounds"])))
        self.assertTrue(all(round["exact"] for round in report["rounds"]))
        self.assertAlmostEqual(report["final"]["loss"], expected["final"]["loss"], places=6)
        self.assertEqual((report["network"]["events"]["left"], report["network"]["workers"][2]["arrivals"]), (1, 2))

    def test_resumed_after_a_kill_and_after_a_signal(self):
        job = [*SMALL, "--batch", "100", "--optimizer", "adam"]
        options = [*job, "--save", "w.npy", "--checkpoint", "ck", "--checkpoint-every", "1", "--log", "log"]
        workers = [self.work(i, "--straggler", "shifted-exp:0.005,0", "--log", f"log-{i}") for i in range(4)]
        server, seen = self.serve(*options, "--rounds", "1000000"), 0
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            seen += 5
            self.wait_for_event("round", count=seen)
            server.send_signal(number)
            status, _, err = self.end(server)
            self.assertEqual(status, -9 if number == signal.SIGKILL else 1, err)
            seen = len([e for e in self.events() if e["event"] == "round"])
            rounds = ["--rounds", "1000000" if number != signal.SIGINT else str(seen + 10)]
            server = self.serve(*options, *rounds, "--resume")
        self.assert_done(server, *workers)
        _, parameters = self.expected(*job, *rounds)
        self.assertEqual(self.read("w.npy", "rb"), parameters)
        jobs = [e for e in self.events("log-0") if e["event"] == "job"]
        self.assertEqual(len(jobs), 1, "workers know the job again")
        joined = [e["round"] for e in self.events() if e["event"] == "joined"]
        self.assertEqual(joined[:4], [0] * 4)
        self.assertGreater(min(joined[4:]), 0, "the round that a resumed server goes on with")

    def test_ctrl_c(self):
        server = self.serve(*SMALL, "--log", "log")
        worker = self.work(0)
        self.wait_for_event("joined")
        server.send_signal(signal.SIGINT)
        status, out, err = self.end(server)
        self.assertEqual(status, 1)
        self.assertRegex(err.splitlines()[-1], r"^tarry: serve: interrupted after 0 of 100 rounds$")
        self.assert_done(worker)
        alone = self.work(0, "--log", "alone")
        self.wait_for_event("waiting", name="alone")
        alone.send_signal(signal.SIGINT)
        self.assert_done(alone)

    def test_a_signal_while_workers_are_told_that_the_run_is_over(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.serve("--workers", "2", "--chunks", "2", "--replication", "2", "--samples", "100", "--rounds",
                                "5", "--report", "report.json", "--log", "log")
            workers = [self.work(i, "--straggler", "shifted-exp:0.05,0") for i in range(2)]
            self.wait_for_event("round")
            workers[1].send_signal(signal.SIGSTOP)  # it is given a second
            self.wait_for("the report", lambda: "report.json" in self.files())
            server.send_signal(number)
            self.assert_done(server, workers[0])
            self.assertEqual(self.events()[-1]["event"], "end")
            workers[1].send_signal(signal.SIGCONT)
            self.assert_done(workers[1])
            for name in ("report.json", "log"):
                os.unlink(os.path.join(self.folder, name))


class Usage(Network):
    def test_who_may_take_part(self):
        for command in ("serve", "work"):
            self.fail_with(2, f"tarry: {command}: needs --credentials (see tarry keys --help), or --insecure on this "
                              "machine alone", command)
            self.fail_with(2, "tarry: --force: has no meaning without --insecure", command, "--force")
            self.fail_with(2, "tarry: --insecure: cannot be combined with --credentials", command, "--insecure",
                           "--credentials", "keys")
            self.fail_like(1, r"tarry: --credentials: no/.*: No such file or directory", command, "--credentials", "no")
        plain = r"tarry: --insecure: \S+ is not on this machine alone; use --credentials, or --force if .*"
        self.fail_like(2, plain, "serve", "--insecure", "--listen", "0.0.0.0:7")
        self.fail_like(2, plain, "serve", "--insecure", "--listen", "127.0.0.1:7,:8")
        self.fail_like(2, plain, "work", "--insecure", "--connect", "192.0.2.1:7")

    def test_wrong_options(self):
        self.fail_with(2, "tarry: --straggler: is for the workers here: give it to tarry work", "serve", "--insecure",
                       "--straggler", "exp:1")
        self.fail_with(2, "tarry: --lisen: unknown option (did you mean --listen?)", "serve", "--lisen", "a:1")
        self.fail_with(2, "tarry: --conect: unknown option (did you mean --connect?)", "work", "--conect", "a:1")
        self.fail_like(2, r"tarry: --listen: .*", "serve", "--listen", "nowhere")
        self.fail_like(2, r"tarry: --listen: .*", "serve", "--listen", "127.0.0.1:7,")
        self.fail_like(2, r"tarry: --listen: more than 8 addresses", "serve", "--listen", ",".join(["a:1"] * 9))
        self.fail_like(2, r"tarry: --connect: .*", "work", "--connect", "host:99999")
        self.fail_with(2, "tarry: --labels: has no meaning without --data", "work", "--labels", "x")
        self.fail_like(2, r"tarry: --straggler: .*", "work", "--straggler", "slow")
        self.fail_with(2, "tarry: --straggler: term 'fail' is for tarry simulate", "work", "--straggler", "fail:0.1")
        self.fail_like(2, r"tarry: --straggler-seed: .*", "work", "--straggler-seed", "x")
        self.fail_like(1, r"tarry: --log: no/log: cannot be written: .*", "serve", "--insecure", "--log", "no/log")

    def listens(self, *arguments):
        """Where a server listens that waits for nobody."""
        done = self.run_tarry("serve", "--wait", "0", "--patience", "0", "--log", "log", *SMALL, *arguments)
        self.assertEqual(done.returncode, 1, done.err)
        peers = [event["peer"] for event in self.events() if event["event"] == "listening"]
        os.unlink(os.path.join(self.folder, "log"))
        return peers

    def test_addresses_of_flags_take_the_place_of_the_job_file_s(self):
        self.write("job.ini", "listen = unix:one,unix:two\n")
        config = ["--config", "job.ini"]
        self.assertEqual(self.listens(*config), ["unix:one", "unix:two"])
        flags = ["--listen", "unix:three", "--listen", "unix:four"]
        for arguments in ([*flags, *config], [*config, *flags]):
            self.assertEqual(self.listens(*arguments), ["unix:three", "unix:four"])
        self.write("job.ini", "listen = nowhere\n")
        self.fail_like(2, r"tarry: job\.ini:1: listen: nowhere: .*", "serve", *config, *flags)

    def test_a_path_that_is_not_utf8(self):
        path = b"unix:s\xff"
        for command in ([b"serve", b"--listen", path, b"--wait", b"0", b"--patience", b"0"],
                        [b"work", b"--connect", path, b"--patience", b"0.2"]):
            done = subprocess.run([TARRY, *command, b"--log", b"log"], cwd=self.folder, env=self.environment(),
                                  capture_output=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 1)
            self.assertIn(path, done.stderr)
        peers = [event["peer"] for event in self.events() if event["event"] == "listening"]
        self.assertEqual(peers, ["unix:s?"])
        end = self.events()[-1]
        self.assertEqual((end["event"], end["chunks"]), ("end", 0))
        self.assertIn("unix:s?", end["text"])

    def test_too_few_files_for_all_workers(self):
        few = subprocess.run(["sh", "-c", 'ulimit -n 80 && exec "$@"', "sh", TARRY, "serve", "--listen", UNIX, "--workers",
                              "100", "--chunks", "100", "--wait", "0", "--patience", "0"], cwd=self.folder,
                             env=self.environment(), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(few.returncode, 1)
        self.assertEqual(few.stderr.splitlines()[0],
                         "no more than 80 files may be open at once (see ulimit -n): too few for 100 workers")

    def test_an_address_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.fail_like(1, rf"tarry: serve: 127\.0\.0\.1:{port}.*", *["serve", "--insecure", "--listen",
                                                                         f"127.0.0.1:{port}", *SMALL])

    def test_no_server(self):
        self.fail_like(1, r"tarry: work: .*", "work", "--connect", UNIX, "--patience", "0.2", "--quiet")


class Processes(Network):
    def processes_of(self, parent):
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat") as file:
                        fields = file.read().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[1]) == parent and fields[0] != "Z":
                    found.append(int(name))
        return sorted(found)

    def environment(self):
        return dict(super().environment(), TMPDIR=self.folder)

    def test_the_same_as_threads(self):
        self.write("a.svm", "".join(f"{i % 2} 0:{i % 7} 1:{i % 3}\n" for i in range(90)))
        for data in (["--samples", "300"], ["--data", "a.svm", "--zero-based", "--holdout", "0.1"]):
            options = ["--workers", "3", "--chunks", "6", "--replication", "2", "--rounds", "8", "--reproducible", *data]
            expected, parameters = self.expected(*options)
            self.succeed("train", *options, "--processes", "--save", "w.npy", "--report", "report.json", "--quiet")
            self.assertEqual(self.read("w.npy", "rb"), parameters)
            self.assertEqual(self.report()["network"]["events"]["joined"], 3)
        self.assertEqual([name for name in self.files() if name.startswith("tarry-")], [])

    def start_slow(self, *arguments):
        process = self.begin("train", *SMALL[:-1], "--processes", "--straggler", "shifted-exp:0.01,0", "--report",
                             "report.json", *arguments)
        self.wait_for("workers", lambda: len(self.processes_of(process.pid)) == 4)
        return process, self.processes_of(process.pid)

    def test_one_that_is_killed_is_started_again(self):
        """All are needed: the run is over once it is back."""
        process, workers = self.start_slow("--rounds", "250", "--replication", "1", "--checkpoint", "ck")
        self.wait_for("some rounds", lambda: "ck.previous" in self.files())
        os.kill(workers[2], signal.SIGKILL)
        status, _, err = self.end(process)
        self.assertEqual(status, 0, err)
        self.assertRegex(err, rf"worker \d \(process {workers[2]}\): killed by signal 9; it is started again")
        report = self.report()
        self.assertEqual(sum(worker["arrivals"] for worker in report["network"]["workers"]), 5)
        self.assertEqual(len(report["rounds"]), 250)

    def test_a_low_limit_of_open_files(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, before[1]))
        try:
            run = self.begin("train", "--processes", "--workers", "8", "--samples", "100", "--rounds", "2", "--quiet")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        self.assertEqual(self.end(run), (0, "", ""))

    def test_ctrl_c_ends_all(self):
        process, workers = self.start_slow("--rounds", "100000")
        process.send_signal(signal.SIGINT)
        status, _, err = self.end(process)
        self.assertEqual(status, 1)
        self.assertRegex(err.splitlines()[-1], r"^tarry: train: interrupted after \d+ of 100000 rounds$")
        for worker in workers:
            self.assertFalse(os.path.exists(f"/proc/{worker}"))
        self.assertEqual(self.files(), ["report.json"])

    def test_none_is_left_when_the_parent_is_killed(self):
        process, workers = self.start_slow("--rounds", "100000")
        process.kill()
        self.end(process)
        def ended(worker):
            try:
                with open(f"/proc/{worker}/stat") as file:
                    return file.read().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                return True
        self.wait_for("all are gone", lambda: all(ended(worker) for worker in workers))
        self.assertEqual(self.files(), [])

    def test_workers_that_can_t_begin(self):
        self.write("a.svm", "1 1:1\n0 1:2\n1 1:3\n0 1:4\n")
        process = self.begin("train", "--data", "a.svm", "--workers", "2", "--chunks", "2", "--replication", "1",
                             "--processes", "--quiet", "--straggler", "dead:1", "--stop", "deadline:0.1", "--rounds", "2")
        self.assertEqual(self.end(process)[0], 0)
