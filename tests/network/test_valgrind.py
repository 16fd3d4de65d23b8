# SPDX-License-Identifier: Apache-2.0
"""A short run of a server and its workers over TLS, with a worker that is killed and one that leaves, under valgrind."""

import shutil
import signal
import sys
import unittest

from cluster import NetworkTest
from namespaces import SKIPPED

SECONDS = 400
ERROR_STATUS = 9
WORKERS, GONE, LEAVES = 3, 0, 1
JOB = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", "1", "--order", "optimal",
       "--replication", "3", "--samples", "60", "--features", "50",
       "--rounds", "40", "--wait", "60"]
VALGRIND = ["valgrind", "--quiet", f"--error-exitcode={ERROR_STATUS}", "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect,possible"]


class Valgrind(NetworkTest):
    def test_a_short_run(self):
        around = {place: lambda arguments: [*VALGRIND, *arguments]
                  for place in ("server", *(f"worker-{worker}" for worker in range(WORKERS)))}
        cluster = self.cluster(JOB, keys=self.keys(WORKERS), around=around)
        address = cluster.serve()
        for worker in range(WORKERS):
            cluster.work(worker, address)
        cluster.server.await_log("round", seconds=SECONDS, round=3)
        cluster.workers[f"worker-{GONE}"].signal(signal.SIGKILL)
        self.assertEqual(cluster.workers[f"worker-{LEAVES}"].end(SECONDS), 0, cluster.told())
        report = cluster.finish(SECONDS)
        self.assertEqual(len(report["rounds"]), 40)
        last = cluster.workers[f"worker-{WORKERS - 1}"]
        self.assertEqual(last.wait(SECONDS), 0, last.told())
        for process in cluster.everyone:
            self.assertNotIn("==", process.errors(), process.told())


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        sys.exit(SKIPPED)
    unittest.main()
