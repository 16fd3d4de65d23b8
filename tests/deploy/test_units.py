#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of deploy/ that need a systemd or a cluster: what can be tried of them without one."""

import os
import re
import shutil
import signal
import subprocess
import textwrap
import unittest

from harness import TARRY, main
from machines import DEPLOY, PATIENCE, MachinesTest

UNITS = ("tarry-serve.service", "tarry-work@.service")
MANIFESTS = {"server.yaml": ["Service", "StatefulSet"], "workers.yaml": ["Job"]}

JOB = """
workers = 2
chunks = 4
replication = 2
samples = 400
features = 5
rounds = 1000000
checkpoint-every = 1
reproducible = true
"""
SLOW = "--straggler shifted-exp:0.005,0.005"


def exec_start(unit):
    """The unit's command line as systemd has it, continued lines joined."""
    text = (DEPLOY / "systemd" / unit).read_text().replace("\\\n", "")
    return re.search(r"^ExecStart=(.*)$", text, re.MULTILINE).group(1)


def script_of(manifest):
    """The shell script among a container's args."""
    text = (DEPLOY / "kubernetes" / manifest).read_text()
    block = re.search(r"^( +)args:\n +- \|\n((?:\1   .*\n|\n)+)", text, re.MULTILINE).group(2)
    return textwrap.dedent(block)


class Interrupted(MachinesTest):
    """A server that is ended by SIGTERM after some rounds, and started again."""

    def setUp(self):
        super().setUp()
        self.write("job.conf", JOB)
        self.succeed("keys", "init", "--workers=2", "keys")
        self.state = self.machine("state")

    def interrupt(self, server, more, *configurations):
        """Ends it in the middle of the run, which is to be over so many rounds after it is taken up again."""
        self.await_file("state/checkpoint.previous", server)
        os.kill(server.pid, signal.SIGTERM)
        self.wait(server, expected=1)
        found = self.report("state/report.json")
        self.assertTrue(found["interrupted"])
        self.rounds_in_all = len(found["rounds"]) + more
        for name in configurations:
            self.write(name, re.sub("^rounds = .*", f"rounds = {self.rounds_in_all}", self.read(name), flags=re.M))

    def alone(self):
        """The same job, undisturbed, in one process."""
        self.succeed("train", "--config", "job.conf", "--report", "alone.json", "--quiet")
        return self.report("alone.json")

    def worker(self, number):
        command = (f"exec tarry work --connect 127.0.0.1:{self.port} --credentials ../keys/worker-{number} "
                   f"{SLOW} --quiet")
        return self.launch(f"node{number}", "sh", command)

    def assert_same(self, report):
        found, expected = self.report(report), self.alone()
        self.assertEqual(len(found["rounds"]), self.rounds_in_all)
        self.assertTrue(all(r["exact"] for r in found["rounds"]))
        self.assertAlmostEqual(found["final"]["loss"], expected["final"]["loss"], delta=1e-6)

    def test_the_unit_goes_on_from_its_checkpoint(self):
        words = re.fullmatch(r"/bin/sh -c '(.*)'", exec_start("tarry-serve.service"))
        script = words.group(1).replace("/usr/bin/tarry", "tarry").replace("/etc/tarry", self.folder)
        options = f"listen = 127.0.0.1:{self.port}\ncredentials = {self.folder}/keys/server\nreport = report.json\n"
        self.write("serve.conf", JOB + options)
        checkpoint = os.path.join(self.state, "checkpoint")
        server = self.launch("state", "sh", script, CHECKPOINT=checkpoint)
        workers = [self.worker(i) for i in range(2)]
        self.interrupt(server, 20, "job.conf", "serve.conf")
        self.wait(self.launch("state", "sh", script, CHECKPOINT=checkpoint))
        for worker in workers:
            self.wait(worker)
        self.assert_same("state/report.json")

    def test_the_manifests_go_on_and_come_to_an_end(self):
        places = {"STATE": self.state, "CREDENTIALS": f"{self.folder}/keys/server", "OPTIONS": "../job.conf"}
        script = script_of("server.yaml").replace(":7077", f"127.0.0.1:{self.port}")
        server = self.launch("state", "sh", script, **places)
        workers = [self.pod(i) for i in range(2)]
        # The pod is told to end, and a new one takes its place.
        self.interrupt(server, 300, "job.conf")  # some seconds
        server = self.launch("state", "sh", script, **places)
        # So is a worker's, which must not look as if its work were done.
        os.kill(workers[1].pid, signal.SIGTERM)
        self.wait(workers[1], expected=75)
        workers[1] = self.pod(1)
        for worker in workers:
            self.wait(worker)
        self.await_file("state/done", server)
        self.assert_same("state/report.json")
        # It waits now, and another one of its place would as well.
        again = self.launch("state", "sh", script, **places)
        for pod in (server, again):
            with self.assertRaises(subprocess.TimeoutExpired):
                pod.wait(timeout=0.3)
            os.kill(pod.pid, signal.SIGTERM)
            self.wait(pod, expected=143)

    def test_pods_sum_among_themselves(self):
        """With the credential that all share; one of them is told to end, and another comes in its place."""
        self.write("job.conf", JOB + "sum = everywhere\n")
        self.write("serve.conf", JOB + "sum = everywhere\nlog = run.jsonl\n")
        places = {"STATE": self.state, "CREDENTIALS": f"{self.folder}/keys/server", "OPTIONS": "../serve.conf"}
        server = self.launch("state", "sh", script_of("server.yaml").replace(":7077", f"127.0.0.1:{self.port}"), **places)
        workers = [self.pod(i) for i in range(2)]
        self.await_sums_of_two(server, 0)
        os.kill(workers[1].pid, signal.SIGTERM)
        self.wait(workers[1], expected=75)
        told = len(self.events("state/run.jsonl"))
        workers[1] = self.pod(1)
        self.await_sums_of_two(server, told)
        self.interrupt(server, 0, "job.conf")
        for worker in workers:
            os.kill(worker.pid, signal.SIGTERM)
            self.wait(worker, expected=75)
        self.assert_same("state/report.json")

    def await_sums_of_two(self, server, told):
        """Until both make a sum after the second one has come, which the first events of the log do not tell of."""
        def is_so():
            events = self.events("state/run.jsonl")[told:]
            came = [i for i, event in enumerate(events) if event["event"] == "joined" and event["worker"] == 1]
            return came and any(event["event"] == "round" and event.get("sum", {}).get("voters") == 2
                                for event in events[came[0]:])
        self.await_that(is_so, server)

    def pod(self, index):
        """Each has an address of its own in a cluster, and here a port."""
        script = script_of("workers.yaml").replace("tarry work", f"tarry work {SLOW} --quiet").replace(":7078", ":0")
        return self.launch(f"pod{index}", "sh", script, SERVER=f"127.0.0.1:{self.port}",
                           CREDENTIALS=f"{self.folder}/keys/worker", JOB_COMPLETION_INDEX=str(index),
                           NODE=f"node-{index}")


class Files(MachinesTest):
    @unittest.skipIf(shutil.which("systemd-analyze") is None, "there is no systemd-analyze")
    def test_systemd_takes_the_units(self):
        paths = []
        for unit in UNITS:
            text = (DEPLOY / "systemd" / unit).read_text().replace("/usr/bin/tarry", TARRY)
            paths.append(os.path.join(self.folder, self.write(unit, text)))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], env=self.environment(),
                              capture_output=True, text=True, timeout=PATIENCE)
        about_ours = [line for line in done.stderr.splitlines() if "tarry" in line]
        self.assertEqual((done.returncode, about_ours), (0, []), done.stderr)

    def test_tarry_takes_the_options_of_the_units(self):
        self.succeed("keys", "init", "--workers=1", "keys")
        work = ["--credentials=keys/worker-0", "--patience=0"]
        for command, more, missing in (("serve", [], "train.libsvm"), ("work", work, "server.example")):
            text = (DEPLOY / "systemd" / f"{command}.conf").read_text()
            text = text.replace("/etc/tarry", f"{self.folder}/keys").replace("/var/lib/tarry", self.folder)
            done = self.run_tarry(command, "--config", self.write(f"{command}.conf", text), *more)
            self.assertEqual(done.returncode, 1, done.err)
            self.assertIn(missing, done.err)

    def test_the_manifests_are_of_the_right_kinds(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("there is no python3-yaml")
        for name, kinds in MANIFESTS.items():
            objects = list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))
            self.assertEqual([each["kind"] for each in objects], kinds)
            pod = objects[-1]["spec"]["template"]["spec"]
            self.assertEqual(pod["containers"][0]["args"], [script_of(name)])
            mounted = {m["name"] for c in pod["initContainers"] + pod["containers"] for m in c["volumeMounts"]}
            claimed = {c["metadata"]["name"] for c in objects[-1]["spec"].get("volumeClaimTemplates", [])}
            self.assertEqual(mounted, {v["name"] for v in pod["volumes"]} | claimed)


if __name__ == "__main__":
    main()
