#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/deploy.md, "By hand", run as they stand there, each on its machine."""

import os
import re
import signal

from harness import main
from machines import ROOT, MachinesTest


def commands():
    """The page's blocks: for the keys, the server, a worker."""
    page = (ROOT / "docs" / "deploy.md").read_text()
    section = re.search(r"^## By hand\n(.*?)^## ", page, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


class Page(MachinesTest):
    def on_loopback(self, text):
        found, count = re.subn(r"(hub)?:7077", f"127.0.0.1:{self.port}", text)
        self.assertEqual(count, 1, text)
        return found

    def test_its_commands(self):
        keys, serve, work = commands()
        for name in ("hub", "node0", "node1"):
            self.machine(name)
        self.wait(self.launch("desk", "bash", "set -e\n" + keys))
        server = self.launch("hub", "bash", self.on_loopback(serve))
        workers = [self.launch(f"node{i}", "bash", self.on_loopback(work)) for i in range(2)]
        for process in (server, *workers):
            self.wait(process)
        joined = [e["worker"] for e in self.events("hub/run.jsonl") if e["event"] == "joined"]
        self.assertEqual(set(joined), {0, 1})
        self.assertEqual(self.rounds("hub/run.jsonl"), 50)
        self.assertIn("run.checkpoint", os.listdir(os.path.join(self.folder, "hub")))

    def test_a_machine_that_was_stolen(self):
        self.succeed("keys", "init", "--workers=3", "cluster")
        for name in ("hub", "node0", "node1", "node2"):
            self.machine(name)
        server = self.launch("hub", "sh", f"exec tarry serve --listen 127.0.0.1:{self.port} --workers 3 --chunks 6 "
                             "--credentials ../cluster/server --samples 400 --features 5 --rounds 1000000 --log run.jsonl")
        workers = [self.launch(f"node{i}", "sh", f"exec tarry work --connect 127.0.0.1:{self.port} --straggler "
                               f"shifted-exp:0.02,0.01 --credentials ../cluster/worker-{i}") for i in range(3)]
        self.await_that(lambda: self.rounds("hub/run.jsonl") > 5, server)
        # The server's folder is the one that `tarry keys revoke` writes to.
        self.succeed("keys", "revoke", "cluster", "worker-1")
        self.assertIn("revoked", self.wait(workers[1], expected=1))
        self.await_that(lambda: any(e["event"] == "refused" for e in self.events("hub/run.jsonl")), server)
        os.kill(server.pid, signal.SIGINT)
        self.wait(server, expected=1)
        for process in (workers[0], workers[2]):
            self.wait(process)
        refused = [e for e in self.events("hub/run.jsonl") if e["event"] == "refused"]
        self.assertEqual([e["worker"] for e in refused], [1])
        self.assertIn("revoked", refused[0]["text"])
        again = self.launch("node1", "sh", "exec tarry keys list ../cluster")
        self.assertRegex(self.wait(again), "worker-1 .*revoked")


if __name__ == "__main__":
    main()
